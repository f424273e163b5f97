"""Fair and hard-negative CCL-K: two uses of one equation, which differ in the condition."""

from __future__ import annotations

import math
from typing import Unpack

from torch import Tensor

from cclk.kernels import Cosine, Kernel
from cclk.losses.base import Support
from cclk.losses.batch import CommonOptions, Direction, Options
from cclk.losses.conditional import ConditionalLoss, Conditioning, MakeObjective, conditional_contrast
from cclk.losses.objectives import Floor, PartnerWeights, WeightedNegatives
from cclk.operator.solvers import Solver


def _objective(temperature: float) -> MakeObjective:
    def make(direction: Direction, weights: PartnerWeights, floor: Floor) -> WeightedNegatives:
        # As many negatives as the unconditional loss would have; a sum over views already counts both.
        layout = direction.layout
        count = layout.samples - 1 if weights.summed else layout.negatives
        return WeightedNegatives(layout, temperature, weights, math.log(count), floor)

    return make


def fair_cclk(
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
    """The function behind `FairCCLK`."""
    conditioning, chosen = Conditioning(kernel, ridge, solver, weights), Options(**options)
    return conditional_contrast(x, y, condition, support, conditioning, chosen, _objective(chosen.temperature))[0]


def hard_neg_cclk(
    x: Tensor,
    y: Tensor,
    condition: object = None,
    *,
    kernel: Kernel,
    ridge: float = 0.01,
    solver: Solver = "auto",
    weights: str = "loo",
    support: Support | None = None,
    **options: Unpack[CommonOptions],
) -> Tensor:
    """The function behind `HardNegCCLK`."""
    conditioning, chosen = Conditioning(kernel, ridge, solver, weights), Options(**options)
    make = _objective(chosen.temperature)
    return conditional_contrast(x, y, condition, support, conditioning, chosen, make, embeddings_condition=True)[0]


class FairCCLK(ConditionalLoss):
    r"""Equation 6: tell the other view of the same sample from samples with alike conditions, so that the condition is of no use.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + n\, c_i}, \quad c_i = \sum_j w(z_j, z_i)\, e^{S_{ij}}

    Positives from P(X, Y | Z), negatives from P(X | Z) P(Y | Z), estimated with the weights w of `cclk.operator.weights`; n is the
    number of negatives InfoNCE would have (b - 1 with views="cross").

    Shapes:
        x, y: (b, d); condition: (b,), (b, k) or a mapping of columns. `support`: ((q, d), q rows of condition).
        Result: a scalar, or (b,) with reduction="none".

    >>> import torch
    >>> from cclk.kernels import Delta
    >>> x = torch.eye(4)
    >>> loss = FairCCLK(Delta(), ridge=1e-6, temperature=1.0)
    >>> loss(x, x, torch.tensor([0, 0, 1, 1]))
    tensor(0.7437)
    """

    def forward(self, x: Tensor, y: Tensor, condition: object, support: Support | None = None) -> Tensor:
        return self.compute(x, y, condition, support, _objective(self.options.temperature))


class HardNegCCLK(ConditionalLoss):
    r"""Equation 7: tell the other view of the same sample from samples whose embeddings are near.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + n\, c_i}, \quad c_i = \sum_j w(z_j, z_i)\, e^{S_{ij}},
              \quad z_i = \mathrm{detach}(x_i)

    Positives from P(X, Y), negatives from P(X | Z) P(Y | Z). Without a condition, the anchor's embedding as passed (not normalised) is the
    condition; where y is the anchor (symmetric=True), y's. The default kernel is `Cosine`, which needs no length scale: embeddings
    move during training, and a length scale fitted on the first batch would soon be wrong.

    Shapes:
        x, y: (b, d); condition: None, (b,), (b, k) or a mapping. `support`: ((q, d), None or q rows of condition).
        Result: a scalar, or (b,) with reduction="none".

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> HardNegCCLK(temperature=1.0)(x, x) > 0
    tensor(True)
    """

    release_ridge = 100.0

    @staticmethod
    def default_kernel() -> Kernel:
        return Cosine()

    def forward(self, x: Tensor, y: Tensor, condition: object = None, support: Support | None = None) -> Tensor:
        return self.compute(x, y, condition, support, _objective(self.options.temperature), own=True)
