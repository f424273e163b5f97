"""No augmentation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.augment.base import Augmentation


def to_float(images: Tensor) -> Tensor:
    """Bytes 0..255 to float32 0..1; other numbers to float32 as they are."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images.float()


@dataclass(frozen=True)
class Plain(Augmentation):
    """Images as float32 in 0..1 and vectors as float32, otherwise unchanged.

    >>> Plain()(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), torch.Generator())
    tensor([[[[0.0000, 0.2000, 1.0000]]]])
    """

    def apply(self, batch: Tensor, generator: torch.Generator, first: int, total: int) -> Tensor:
        return to_float(batch)
