"""The options of every loss."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from torch import Tensor

from cclk.errors import DataError, SettingsError

Views = Literal["cross", "all"]
Reduction = Literal["mean", "sum", "none"]
Temperature = float | Tensor
"""A number, or a tensor of one element, such as an `nn.Parameter`, to which gradients flow."""
SMALLEST_TEMPERATURE = 1e-6
"""Below it, gradients of short embeddings overflow."""
Support = tuple[Tensor, object]
"""More candidates than the batch has: embeddings (q, d) and their condition, q rows."""


@dataclass(frozen=True)
class Options:
    """The options of every loss."""

    temperature: Temperature = 0.1
    views: Views = "cross"
    symmetric: bool = False
    gather_distributed: bool = False
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        learned = isinstance(self.temperature, Tensor)
        if not isinstance(self.temperature, Tensor | numbers.Real):
            raise SettingsError(
                f"temperature is {self.temperature!r}: it must be a positive number, such as 0.1"
            )
        if isinstance(self.temperature, Tensor) and self.temperature.numel() != 1:
            raise SettingsError(
                f"temperature has shape {tuple(self.temperature.shape)}: it must be one number,"
                " such as 0.1"
            )
        if not SMALLEST_TEMPERATURE <= self.scale < float("inf"):
            remedy = (
                "; if it is learned, clamp it after each step or learn its logarithm"
                if learned
                else ""
            )
            raise SettingsError(
                f"temperature is {self.scale:g}: it must be a positive number, such as 0.1, and at"
                f" least {SMALLEST_TEMPERATURE:g}{remedy}"
            )
        if self.views not in ("cross", "all"):
            raise SettingsError(f"views is {self.views!r}: it must be 'cross' or 'all'")
        if self.reduction not in ("mean", "sum", "none"):
            raise SettingsError(
                f"reduction is {self.reduction!r}: it must be 'mean', 'sum' or 'none'"
            )

    @cached_property
    def scale(self) -> float:
        """The temperature as a number."""
        return (
            float(self.temperature.detach())
            if isinstance(self.temperature, Tensor)
            else float(self.temperature)
        )


def split_support(support: Support | None) -> tuple[Tensor | None, object]:
    """The embeddings and the condition of the support."""
    if support is None:
        return None, None
    if not isinstance(support, tuple) or len(support) != 2:
        raise DataError(
            "support must be a pair (y_extra, condition_extra): embeddings (q, d) and their"
            " condition, q rows"
        )
    return support
