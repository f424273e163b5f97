"""Which rows go where: orders in which every stretch has the same mix of labels, and rows held
out for validation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cclk.data.randomness import generator
from cclk.errors import DataError

Rows = npt.NDArray[np.int64]


def stratified_order(labels: npt.NDArray[np.generic], seed: int) -> Rows:
    """A random order of the rows in which every stretch holds the labels in nearly their overall
    proportions.
    """
    order = generator(seed, "stratified order").permutation(len(labels))
    _, label = np.unique(labels[order], return_inverse=True)
    count = np.bincount(label) if len(label) else np.zeros(0, np.int64)
    # Rows of one label are spread evenly over 0..1; sorting by that place interleaves the labels.
    by_label = np.argsort(label, kind="stable")
    place = np.empty(len(labels))
    place[by_label] = (
        np.arange(len(labels)) - np.repeat(np.cumsum(count) - count, count) + 0.5
    ) / np.repeat(count, count)
    return order[np.argsort(place, kind="stable")]


def hold_out(order: Rows, holdout: int) -> tuple[Rows, Rows]:
    """The training rows and, from the end of the order, the `holdout` validation rows; both ascend."""
    if isinstance(holdout, bool) or not isinstance(holdout, int) or not 0 <= holdout < len(order):
        raise DataError(
            f"holdout is {holdout!r}: it must be a whole number from 0 to {len(order) - 1}, which"
            " leaves rows to train on"
        )
    kept = len(order) - holdout
    return np.sort(order[:kept]), np.sort(order[kept:])
