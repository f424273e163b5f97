"""Weakly supervised CCL-K: use the condition."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from cclk.kernels import Kernel
from cclk.losses.base import Support
from cclk.losses.batch import CommonOptions, Direction, Options
from cclk.losses.conditional import ConditionalLoss, Conditioning, MakeObjective, conditional_contrast
from cclk.losses.objectives import Floor, PartnerWeights, WeightedPositives
from cclk.operator.solvers import Solver


def _objective(temperature: float, as_released: bool) -> MakeObjective:
    def make(direction: Direction, weights: PartnerWeights, floor: Floor) -> WeightedPositives:
        return WeightedPositives(direction.layout, temperature, weights, floor, marginal_has_positive=as_released)

    return make


def weakly_sup_cclk(
    x: Tensor,
    y: Tensor,
    condition: object,
    *,
    kernel: Kernel,
    ridge: float = 0.01,
    solver: Solver = "auto",
    weights: str = "loo",
    support: Support | None = None,
    **options: Unpack[CommonOptions],
) -> Tensor:
    """The function behind `WeaklySupCCLK`."""
    conditioning, chosen = Conditioning(kernel, ridge, solver, weights), Options(**options)
    make = _objective(chosen.temperature, conditioning.as_released)
    return conditional_contrast(x, y, condition, support, conditioning, chosen, make)[0]


class WeaklySupCCLK(ConditionalLoss):
    r"""Equation 5: bring samples with alike conditions together, away from everybody else.

    .. math:: L = -\frac1b \sum_i \log \frac{c_i}{c_i + \sum_{j \ne i} e^{S_{ij}}}, \quad c_i = \sum_j w(z_j, z_i)\, e^{S_{ij}}

    Positives from P(X | Z) P(Y | Z), estimated with the weights w of `cclk.operator.weights`; negatives from P(X) P(Y). With
    weights="release" the sum in the denominator contains the pair (i, i) too, as in the authors' code.

    Shapes:
        x, y: (b, d); condition: (b,), (b, k) or a mapping of columns. `support`: ((q, d), q rows of condition).
        Result: a scalar, or (b,) with reduction="none".

    >>> import torch
    >>> from cclk.kernels import Delta
    >>> x = torch.eye(4)
    >>> loss = WeaklySupCCLK(Delta(), ridge=1e-6, temperature=1.0)
    >>> loss(x, x, torch.tensor([0, 0, 1, 1]))
    tensor(1.3863)
    """

    def forward(self, x: Tensor, y: Tensor, condition: object, support: Support | None = None) -> Tensor:
        make = _objective(self.options.temperature, self.conditioning.as_released)
        return self.compute(x, y, condition, support, make)
