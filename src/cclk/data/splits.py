"""Stratified orders of rows, rows held out for validation, and groups of rows drawn as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cclk.data.randomness import generator
from cclk.errors import DataError

Rows = npt.NDArray[np.int64]


def stratified_order(labels: npt.NDArray[np.generic], seed: int) -> Rows:
    """Return a random order of the rows in which every interval holds the labels in nearly their
    overall proportions.

    Args:
        labels: the label of each row, (n,).
        seed: seed of the order.
    """
    order = generator(seed, "stratified order").permutation(len(labels))
    _, label = np.unique(labels[order], return_inverse=True)
    count = np.bincount(label) if len(label) else np.zeros(0, np.int64)
    # Rows of one label get evenly spaced positions in 0..1; sorting by these mixes the labels.
    by_label = np.argsort(label, kind="stable")
    position = np.empty(len(labels))
    position[by_label] = (
        np.arange(len(labels)) - np.repeat(np.cumsum(count) - count, count) + 0.5
    ) / np.repeat(count, count)
    return order[np.argsort(position, kind="stable")]


def hold_out(order: Rows, holdout: int) -> tuple[Rows, Rows]:
    """Return the training rows and the validation rows, each in ascending order.

    Args:
        order: all rows, in the order in which they are drawn.
        holdout: the number of validation rows, taken from the end of the order.
    """
    if isinstance(holdout, bool) or not isinstance(holdout, int) or not 0 <= holdout < len(order):
        raise DataError(
            f"holdout is {holdout!r}: it must be an integer from 0 to {len(order) - 1}, so that"
            " rows remain to train on"
        )
    kept = len(order) - holdout
    return np.sort(order[:kept]), np.sort(order[kept:])


def draw_groups(groups: npt.NDArray[Any], count: int, seed: int) -> tuple[Rows, Rows]:
    """Draw random groups of nearly `count` rows, and return the rows of the others and of these.

    Args:
        groups: the group of each row, (n,).
        count: the number of rows to draw, at least 1.
        seed: seed of the draw.
    """
    _, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes)
    if len(sizes) < 2:
        raise DataError(f"all {len(groups)} rows are of one group: they cannot be divided")
    drawn, total = np.zeros(len(sizes), dtype=bool), 0
    for group in generator(seed, "groups").permutation(len(sizes)):
        if abs(total + sizes[group] - count) < abs(total - count):
            drawn[group], total = True, total + sizes[group]
    if drawn.all() or not drawn.any():  # large groups
        drawn[sizes.argmin()] ^= True
    return np.flatnonzero(~drawn[codes]), np.flatnonzero(drawn[codes])
