"""Percentile bootstrap intervals over the test samples, for all scores of an evaluation at once.

Every score here is a function of means over test samples (right answers, squared errors, squares).
So a resample needs only those means: one matrix of how often each sample was drawn, times the
matrix of what each sample contributes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cclk.evaluation.feature_splits import Floats, Integers
from cclk.evaluation.one_thread import one_thread
from cclk.evaluation.scores import Estimate, Unit

Array = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)

_CHUNK = 4_000_000  # counts held at once: 32 MB


@dataclass(frozen=True)
class Statistic:
    """What each test sample contributes, (n, m), and how the (r, m) means of r resamples become
    the (r,) values.
    """

    contributions: Array
    finish: Callable[[Array], Array]
    unit: Unit


def share_right(answers: Integers, truth: Integers) -> Statistic:
    """The share of right answers."""
    return Statistic(
        (answers == truth)[:, None].astype(np.float64), lambda means: means[:, 0], "accuracy"
    )


def mean_squared_error(prediction: Floats, truth: Floats) -> Statistic:
    """Mean over samples and columns."""
    return Statistic(
        ((prediction - truth) ** 2).mean(axis=1, keepdims=True).astype(np.float64),
        lambda means: means[:, 0],
        "mse",
    )


def explained_variance(prediction: Floats, truth: Floats, weight: Floats) -> Statistic:
    """R^2 pooled over columns, whose squares count by `weight`; a resample's squares are taken
    about its own mean.
    """
    error = ((prediction - truth) ** 2 * weight).sum(axis=1, keepdims=True)
    about = (truth - truth.mean(axis=0)) * np.sqrt(weight)  # near 0, so that squares do not cancel
    squares = (about**2).sum(axis=1, keepdims=True)

    def finish(means: Array) -> Array:
        spread = means[:, 1] - (means[:, 2:] ** 2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(spread > 0, 1.0 - means[:, 0] / spread, np.nan)

    return Statistic(
        np.concatenate([error, squares, about], axis=1).astype(np.float64), finish, "r2"
    )


def bootstrap(
    statistics: Mapping[Key, Statistic], resamples: int, seed: int
) -> dict[Key, Estimate]:
    """The statistics on the test split and their intervals, all from the same resamples."""
    if resamples < 1:
        raise ValueError(f"bootstrap must be at least 1 resample, got {resamples}")
    joined = np.concatenate([statistic.contributions for statistic in statistics.values()], axis=1)
    n, random, means = len(joined), np.random.default_rng((seed, 2)), []
    size = max(1, _CHUNK // n)
    with one_thread():
        for start in range(0, resamples, size):
            rows = min(size, resamples - start)
            drawn = random.integers(n, size=(rows, n)) + np.arange(rows)[:, None] * n
            counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
            means.append(counts.astype(np.float64) @ joined / n)
    resampled, whole = np.concatenate(means), joined.mean(axis=0, keepdims=True)
    result, place = {}, 0
    for name, statistic in statistics.items():
        columns = slice(place, place := place + statistic.contributions.shape[1])
        low, high = np.nanquantile(statistic.finish(resampled[:, columns]), [0.025, 0.975])
        result[name] = Estimate(
            float(statistic.finish(whole[:, columns])[0]), float(low), float(high), statistic.unit
        )
    return result
