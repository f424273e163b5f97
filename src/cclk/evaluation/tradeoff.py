"""The trade-off between accuracy and leakage."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def pareto_optimal(points: Mapping[Key, tuple[float, float]]) -> list[Key]:
    """Return the keys of the points that no other point beats in both, by increasing leakage.

    Args:
        points: key -> (leakage, accuracy).

    >>> pareto_optimal({"a": (0.9, 80.0), "b": (0.2, 95.0), "c": (0.1, 90.0)})
    ['c', 'b']
    """
    kept = [
        key
        for key, (leakage, accuracy) in points.items()
        if not any(
            other[0] <= leakage and other[1] >= accuracy and other != (leakage, accuracy)
            for other in points.values()
        )
    ]
    return sorted(kept, key=lambda key: points[key])
