"""HardNeg-InfoNCE: hard negatives by reweighting, the paper's unconditional baseline."""

from __future__ import annotations

import math
from functools import partial

from cclk.errors import SettingsError
from cclk.losses.base import ContrastiveLoss
from cclk.losses.objectives import ReweightedNegatives
from cclk.losses.options import SMALLEST_LEARNED, Reduction, Views

_LARGEST_CANCELLATION = 1000.0
"""Beyond this, gradients in float32 alone can be off by 1e-4."""


class HardNegInfoNCE(ContrastiveLoss):
    r"""Equation 5, in the form of Robinson et al. 2021: weight negatives by their similarity to the
    anchor, and correct for false negatives.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + N_i}, \quad
              N_i = \max\Big(\frac{R_i - \tau^+ n\, e^{S_{ii}}}{1 - \tau^+},\
              n\, e^{-1/\mathrm{temperature}}\Big), \quad
              R_i = n \frac{\sum_{j \ne i} e^{(1 + \beta) S_{ij}}}{\sum_{j \ne i} e^{\beta S_{ij}}}

    n is the number of negatives. The gradient flows through the weights, as in the code of Robinson
    et al. beta = 0 and tau_plus = 0 give InfoNCE.

    Args:
        beta: Concentration of the weights on negatives near the anchor; 0 weights all equally.
        tau_plus: Assumed share of negatives that belong to the class of the anchor.
        {options}

    Shape:
        x, y: (b, d), of any norm.
        condition: ignored, so that losses can be exchanged.
        support: ((q, d), ignored), more negatives.
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> x = torch.eye(3)
        >>> HardNegInfoNCE(beta=0.0, tau_plus=0.0, temperature=1.0)(x, x)
        tensor(0.5514)

    Reference:
        Robinson et al., Contrastive Learning with Hard Negative Samples, ICLR 2021.
    """

    def __init__(
        self,
        beta: float = 1.0,
        tau_plus: float = 0.1,
        *,
        temperature: float = 0.1,
        views: Views = "cross",
        symmetric: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(
            temperature,
            views=views,
            symmetric=symmetric,
            gather_distributed=gather_distributed,
            reduction=reduction,
            learn_temperature=learn_temperature,
        )
        if not 0 <= beta < math.inf:
            raise SettingsError(
                f"beta is {beta}: it must be a number of at least 0, where 0 weights all negatives"
                " equally"
            )
        if not 0 <= tau_plus < 1:
            raise SettingsError(
                f"tau_plus is {tau_plus}: it is the assumed share of false negatives, at least 0"
                " and below 1"
            )
        self.beta, self.tau_plus = beta, tau_plus
        self.objective = partial(ReweightedNegatives, beta=beta, tau_plus=tau_plus)
        if tau_plus:
            # R_i - tau_plus n e^S_ii cancels: float32's error of 1e-7 / temperature in S grows by a
            # factor of up to tau_plus n.
            lowest = SMALLEST_LEARNED if learn_temperature else temperature
            self._double_from = _LARGEST_CANCELLATION * lowest / tau_plus

    def settings(self) -> dict[str, object]:
        return {"beta": self.beta, "tau_plus": self.tau_plus}
