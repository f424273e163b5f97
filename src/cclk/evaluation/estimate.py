"""A score with its interval, the change from one to another, and the smallest that matters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Unit = Literal["accuracy", "r2"]
_NAMES: dict[Unit, str] = {"accuracy": "accuracy", "r2": "R²"}
SMALLEST: dict[Unit, float] = {"r2": 0.05, "accuracy": 0.01}
"""The smallest difference that matters: 0.05 of R², one percentage point of accuracy."""
_WIDE = 0.1
"""A change of accuracy that few rows cannot exclude."""
Direction = Literal["higher", "lower", "same", "unclear"]


@dataclass(frozen=True)
class Estimate:
    """A score on the test split with its 95 % bootstrap interval; prints as `92.8 %`."""

    value: float
    low: float
    high: float
    unit: Unit = "accuracy"

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} %" if self.unit == "accuracy" else _two_digits(self.value)

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    @property
    def name(self) -> str:
        """The name of the unit: "accuracy" or "R²"."""
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


def _two_digits(value: float) -> str:
    """Format a number with two digits, never "-0.00"."""
    return f"{round(value, 2) + 0.0:.2f}"


def is_read(worst: Estimate) -> bool:
    """Return whether R² matters, and is above 0 by more than chance."""
    return worst.value >= SMALLEST["r2"] and worst.low > 0


def nothing_read(*worst: Estimate) -> str:
    """Return the verdict on scores none of which is read: the intervals may allow more."""
    wide = max(each.high for each in worst) >= 2 * SMALLEST["r2"]
    return "too few rows to tell" if wide else "nothing to remove"


@dataclass(frozen=True)
class Change:
    """From one value to another of the same unit.

    A change is called higher or lower only if its 95 % interval excludes 0 and it is at least
    `SMALLEST`, and "same" only if the interval lies within `SMALLEST` of 0; everything else is
    unclear. The interval of a change adds the intervals of both values in quadrature, as if they
    were independent. This is conservative, as values on the same test samples are correlated.
    """

    old: Estimate
    new: Estimate

    @property
    def difference(self) -> float:
        """The new value minus the old one."""
        return self.new.value - self.old.value

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the difference."""
        below = math.hypot(self.new.value - self.new.low, self.old.high - self.old.value)
        above = math.hypot(self.new.high - self.new.value, self.old.value - self.old.low)
        return self.difference - below, self.difference + above

    @property
    def direction(self) -> Direction:
        """Whether the new value is higher, lower or the same; "unclear" if that is not known."""
        (low, high), smallest = self.interval, SMALLEST[self.old.unit]
        if low >= -smallest and high <= smallest:
            return "same"
        if abs(self.difference) >= smallest and not low <= 0 <= high:
            return "higher" if low > 0 else "lower"
        return "unclear"

    @property
    def tolerance(self) -> str:
        """The smallest change that matters, as text."""
        return "1 point" if self.old.unit == "accuracy" else str(SMALLEST[self.old.unit])

    @property
    def cost(self) -> str:
        """The change of an accuracy as a price: `3.1 points lost`."""
        points = f"{100 * abs(self.difference):.1f} points"
        match self.direction:
            case "lower":
                return f"{points} lost"
            case "higher":
                return f"{points} gained"
            case "same":
                return "nothing lost"
            case "unclear":
                wide = max(map(abs, self.interval)) >= _WIDE
                return "too few rows to tell" if wide else "no clear loss or gain"

    def __str__(self) -> str:
        values = f"{self.old} → {self.new}"
        if self.direction != "unclear":
            return values
        if self.old.unit == "r2":
            low, high = (f"{bound:+.2f}" for bound in self.interval)
            return f"{values}, change between {low} and {high}"
        low, high = (f"{100 * bound:+.1f}" for bound in self.interval)
        return f"{values}, change between {low} and {high} points"
