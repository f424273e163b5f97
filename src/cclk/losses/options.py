"""The options of every loss."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from cclk.errors import SettingsError

Views = Literal["cross", "all"]
Reduction = Literal["mean", "sum", "none"]
SMALLEST_LEARNED = 0.01
"""Learned temperatures are at least this, as CLIP's are."""
SMALLEST_TEMPERATURE = 1e-6
"""Below it, gradients of short embeddings overflow."""
Support = tuple[Tensor, object]
"""More candidates than the batch has: embeddings (q, d) and their condition, q rows."""


@dataclass(frozen=True)
class Options:
    """The options of every loss, checked once, when the loss is constructed."""

    temperature: float = 0.1
    """The first one, if it is learned."""
    views: Views = "cross"
    symmetric: bool = False
    gather_distributed: bool = False
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        if isinstance(self.temperature, Tensor):
            raise SettingsError(
                "temperature is a tensor: it must be a number, such as 0.1. A tensor may turn"
                " negative, and one with a graph can be used for one step only: pass"
                " learn_temperature=True to learn it"
            )
        if not isinstance(self.temperature, numbers.Real):
            raise SettingsError(
                f"temperature is {self.temperature!r}: it must be a positive number, such as 0.1"
            )
        object.__setattr__(self, "temperature", float(self.temperature))
        if not SMALLEST_TEMPERATURE <= self.temperature < float("inf"):
            raise SettingsError(
                f"temperature is {self.temperature:g}: it must be a positive number, such as 0.1,"
                f" and at least {SMALLEST_TEMPERATURE:g}"
            )
        if self.views not in ("cross", "all"):
            raise SettingsError(f"views is {self.views!r}: it must be 'cross' or 'all'")
        if self.reduction not in ("mean", "sum", "none"):
            raise SettingsError(
                f"reduction is {self.reduction!r}: it must be 'mean', 'sum' or 'none'"
            )
