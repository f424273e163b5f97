"""The unconditional loss."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from cclk.losses.base import ContrastiveLoss, Support, split_support
from cclk.losses.batch import Batch, CommonOptions, Direction, Options, ViewOptions
from cclk.losses.objectives import Marginal


def _info_nce(x: Tensor, y: Tensor, support: Support | None, options: Options) -> Tensor:
    batch = Batch(x, y, split_support(support)[0], options)

    def objective(direction: Direction) -> Marginal:
        return Marginal(direction.layout, options.temperature)

    return batch.loss(objective)


def info_nce(
    x: Tensor,
    y: Tensor,
    *,
    support: Support | None = None,
    **options: Unpack[CommonOptions],
) -> Tensor:
    """The function behind `InfoNCE`.

    >>> import torch
    >>> x = torch.eye(3)
    >>> info_nce(x, x, temperature=1.0)
    tensor(0.5514)
    """
    return _info_nce(x, y, support, Options(**options))


class InfoNCE(ContrastiveLoss):
    r"""Equation 1: tell the other view of the same sample from everybody else's.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + \sum_{j \ne i} e^{S_{ij}}},
              \quad S_{ij} = \cos(x_i, y_j) / \mathrm{temperature}

    Positives from P(X, Y), negatives from P(X) P(Y). A condition is accepted and ignored, so that losses can be exchanged.

    Shapes:
        x, y: (b, d), of any length: they are normalised inside. `support`: ((q, d), ignored), q more negatives.
        Result: a scalar, or (b,) with reduction="none".

    >>> import torch
    >>> x = torch.eye(3)
    >>> InfoNCE(temperature=1.0)(x, x)
    tensor(0.5514)
    """

    def __init__(
        self,
        temperature: float = 0.1,
        **options: Unpack[ViewOptions],
    ) -> None:
        super().__init__(temperature=temperature, **options)

    def forward(self, x: Tensor, y: Tensor, condition: object = None, support: Support | None = None) -> Tensor:
        return _info_nce(x, y, support, self.options)
