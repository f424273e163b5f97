"""Views of feature vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.augment.base import Augmentation, check_probability, check_strength


@dataclass(frozen=True)
class Vectors(Augmentation):
    """Gaussian noise, then random features set to 0. Meant for standardized columns.

    Args:
        noise: its standard deviation.
        mask: the probability that a feature is hidden.
    """

    noise: float = 0.1
    mask: float = 0.2

    def __post_init__(self) -> None:
        check_probability("mask", self.mask)
        check_strength("noise", self.noise, float("inf"))

    def apply(self, batch: Tensor, generator: torch.Generator, first: int, total: int) -> Tensor:
        if batch.dim() != 2:
            raise ValueError(
                f"the augmentation 'vectors' takes vectors (b, k), not {tuple(batch.shape)}; images"
                " take 'simclr', 'digits' or 'none'"
            )
        shape, rows = (total, batch.shape[1]), slice(first, first + len(batch))
        noise = torch.randn(shape, generator=generator, device=generator.device)[rows].to(
            batch.device
        )
        kept = (
            torch.rand(shape, generator=generator, device=generator.device)[rows].to(batch.device)
            >= self.mask
        )
        return noise.mul_(self.noise).add_(batch).mul_(kept)
