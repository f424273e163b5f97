"""HardNeg-CCLK: condition on the embedding itself, for hard negatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cclk.errors import SettingsError
from cclk.kernels import Cosine, Kernel
from cclk.losses.authors import HARDNEG_RIDGE
from cclk.losses.base import ConditionalLoss
from cclk.losses.objectives import CorrectedNegatives, WeightedNegatives
from cclk.losses.options import Reduction, Views
from cclk.weights.solvers import Solver


class HardNegCCLK(ConditionalLoss):
    r"""Equation 9: contrast each anchor with samples whose embeddings are similar to its own.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + n\, c_i}, \quad
              c_i = \sum_j w(z_j, z_i)\, e^{S_{ij}}, \quad z_i = \mathrm{detach}(x_i)

    Positives from P(X, Y), negatives from P(X | Z) P(Y | Z). Without a condition, the embedding of
    the anchor is the condition, without normalization: x, and with symmetric=True also y, where y
    is the anchor. It is one vector with one length scale.

    Args:
        kernel: Similarity of two values of the condition. The default is `Cosine`, which needs no
            length scale: embeddings move during training, so a length scale fitted on the first
            batch would soon be wrong.
        {weights}
        uniform_share: Share of uniform negatives: w is replaced by
            (1 - uniform_share) w + uniform_share / n.
        tau_plus: Assumed share of false negatives, which are as similar as the positive: c is
            replaced by (c - tau_plus e^{S_ii}) / (1 - tau_plus), at least e^{-1 / temperature}.
        {options}

    Shape:
        x, y: (b, d), of any norm.
        condition: None, (b,), (b, k), a data frame or a mapping of columns.
        support: ((q, d), None or q rows of condition), more candidates.
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> HardNegCCLK(temperature=1.0)(x, x) > 0
        tensor(True)

    Reference:
        Tsai et al., Conditional Contrastive Learning with Kernel, ICLR 2022. The correction is that
        of Robinson et al., Contrastive Learning with Hard Negative Samples, ICLR 2021.
    """

    objective: Callable[..., Any] = WeightedNegatives
    default_kernel = Cosine
    embedding_condition = True
    authors_ridge = HARDNEG_RIDGE

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        ridge: float = 0.01,
        solver: Solver = "auto",
        weights: str = "auto",
        uniform_share: float = 0.0,
        tau_plus: float = 0.0,
        temperature: float = 0.1,
        views: Views = "cross",
        symmetric: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(
            kernel,
            ridge=ridge,
            solver=solver,
            weights=weights,
            temperature=temperature,
            views=views,
            symmetric=symmetric,
            gather_distributed=gather_distributed,
            reduction=reduction,
            learn_temperature=learn_temperature,
        )
        if not 0 <= uniform_share <= 1:
            raise SettingsError(f"uniform_share is {uniform_share}: it must be between 0 and 1")
        if not 0 <= tau_plus < 1:
            raise SettingsError(f"tau_plus is {tau_plus}: it must be at least 0 and less than 1")
        self._corrections = {"uniform_share": uniform_share, "tau_plus": tau_plus}
        if uniform_share or tau_plus:
            self.objective = partial(
                CorrectedNegatives, uniform_share=uniform_share, tau_plus=tau_plus
            )

    def settings(self) -> dict[str, object]:
        corrections = {name: value for name, value in self._corrections.items() if value}
        return super().settings() | corrections
