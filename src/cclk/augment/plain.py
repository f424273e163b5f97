"""No augmentation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.augment.base import Augmentation


@dataclass(frozen=True)
class Plain(Augmentation):
    """The identity: both views equal the sample."""

    def apply(self, batch: Tensor, generator: torch.Generator, first: int, total: int) -> Tensor:
        return batch
