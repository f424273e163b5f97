"""WeaklySup-CCLK: use the condition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from cclk.errors import SettingsError
from cclk.kernels import Kernel
from cclk.losses.base import ConditionalLoss
from cclk.losses.objectives import OuterPositives, WeightedPositives
from cclk.losses.options import Reduction, Views
from cclk.weights.solvers import Solver

Positives = Literal["inner", "outer"]


class WeaklySupCCLK(ConditionalLoss):
    r"""Equation 7: pull together samples with similar conditions, and push them away from all
    others.

    .. math:: L = -\frac1b \sum_i \log \frac{c_i}{c_i + \sum_{j \ne i} e^{S_{ij}}}, \quad
              c_i = \sum_j w(z_j, z_i)\, e^{S_{ij}}

    Positives from P(X | Z) P(Y | Z), estimated with the weights w of `cclk.weights`;
    negatives from P(X) P(Y). This is positives="inner": the logarithm of a mean, which one close
    neighbor can satisfy. positives="outer", the mean of logarithms, asks for all neighbors:

    .. math:: L = -\frac1b \sum_i \sum_j v_{ij} \log \frac{e^{S_{ij}}}{\sum_k e^{S_{ik}}},
              \quad v_{ij} = (1 - \mathrm{own\_share})
              \frac{w(z_j, z_i)}{\max(1, \sum_{k \ne i} w(z_k, z_i))}, \quad
              v_{ii} = 1 - \sum_{j \ne i} v_{ij}

    Args:
        {kernel}
        {weights}
        positives: "inner", the paper's equation, or "outer", where the logarithm is (see above).
        own_share: With positives="outer", the least share of the anchor's own other view among its
            positives. It is larger for an anchor with few neighbors, whose weights sum to less
            than 1.
        {options}

    Shape:
        {shape}

    Example:
        >>> import torch
        >>> from cclk.kernels import Delta
        >>> x = torch.eye(4)
        >>> loss = WeaklySupCCLK(Delta(), ridge=1e-6, temperature=1.0)
        >>> loss(x, x, torch.tensor([0, 0, 1, 1]))
        tensor(1.3863)

    Reference:
        Tsai et al., Conditional Contrastive Learning with Kernel, ICLR 2022. The outer form is that
        of Khosla et al., Supervised Contrastive Learning, NeurIPS 2020, and of Dufumier et al.,
        Contrastive Learning with Continuous Proxy Meta-Data, MICCAI 2021.
    """

    objective: Callable[..., Any] = WeightedPositives

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        ridge: float = 0.01,
        solver: Solver = "auto",
        weights: str = "auto",
        positives: Positives = "inner",
        own_share: float = 0.1,
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
        if positives not in ("inner", "outer"):
            raise SettingsError(f"positives is {positives!r}: it must be 'inner' or 'outer'")
        if not 0 <= own_share <= 1:
            raise SettingsError(f"own_share is {own_share}: it must be between 0 and 1")
        self.positives, self.own_share = positives, own_share
        if positives == "outer":
            self.objective = partial(OuterPositives, own_share=own_share)

    def settings(self) -> dict[str, object]:
        shown = super().settings()
        if self.positives == "outer":
            shown |= {"positives": self.positives, "own_share": self.own_share}
        return shown
