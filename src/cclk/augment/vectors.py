"""Views of feature vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.augment.base import Augmentation, check_number
from cclk.errors import DataError


@dataclass(frozen=True)
class Vectors(Augmentation):
    """Add Gaussian noise, then set random columns to 0, their mean.

    Args:
        noise: standard deviation of the noise, in units of the columns' own.
        mask: probability that a value is set to 0.
    """

    noise: float = 0.1
    mask: float = 0.2

    def __post_init__(self) -> None:
        check_number("mask", self.mask, 1)
        check_number("noise", self.noise, float("inf"))

    def apply(self, batch: Tensor, generator: torch.Generator, first: int, total: int) -> Tensor:
        if batch.dim() != 2:
            raise DataError(
                f"the augmentation 'vectors' takes vectors (b, k), not {tuple(batch.shape)}; images"
                " take 'simclr', 'digits' or 'none'"
            )
        shape, rows = (total, batch.shape[1]), slice(first, first + len(batch))
        noise, uniform = (
            draw(shape, generator=generator, device=generator.device)[rows].to(batch.device)
            for draw in (torch.randn, torch.rand)
        )
        return noise.mul_(self.noise).add_(batch).mul_(uniform >= self.mask)


@dataclass(frozen=True)
class Plain(Augmentation):
    """The identity, for images and vectors: both views equal the sample."""

    def apply(self, batch: Tensor, generator: torch.Generator, first: int, total: int) -> Tensor:
        return batch
