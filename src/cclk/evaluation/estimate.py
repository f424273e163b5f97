"""A score and its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

Unit = Literal["accuracy", "r2", "mse"]
_NAMES: dict[Unit, str] = {"accuracy": "accuracy", "r2": "R²", "mse": "MSE"}


@dataclass(frozen=True)
class Estimate:
    """A score on the test split with its 95 % bootstrap interval; prints as `92.8 %`."""

    value: float
    low: float
    high: float
    unit: Unit = "accuracy"

    def __str__(self) -> str:
        match self.unit:
            case "accuracy":
                return f"{100 * self.value:.1f} %"
            case "r2":
                return _two_digits(self.value)
            case "mse":
                return three_figures(self.value)

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    @property
    def name(self) -> str:
        """The name of the unit: "accuracy", "R²" or "MSE"."""
        return _NAMES[self.unit]

    @property
    def titled(self) -> str:
        """The value after the name of its unit, except for accuracies: `R² 0.37`, `92.8 %`."""
        return str(self) if self.unit == "accuracy" else f"{self.name} {self}"

    def interval(self, separator: str = " to ") -> str:
        """Return the bounds without their unit."""
        low, high = (
            f"{100 * bound:.1f}" if self.unit == "accuracy" else _two_digits(bound)
            for bound in (self.low, self.high)
        )
        return f"{low}{separator}{high}"

    @property
    def between(self) -> str:
        """The bounds in a sentence: `91.3 to 94.3 %`."""
        return self.interval() + (" %" if self.unit == "accuracy" else "")

    def to_json(self) -> dict[str, JsonValue]:
        return {"value": self.value, "low": self.low, "high": self.high}


def three_figures(value: float) -> str:
    """Format a number in its own units.

    >>> three_figures(5430.2), three_figures(48.83), three_figures(0.01234)
    ('5,430', '48.8', '0.0123')
    """
    return "0" if value == 0 else f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _two_digits(value: float) -> str:
    """Format a number with two digits, never "-0.00"."""
    return f"{round(value, 2) + 0.0:.2f}"
