"""Percentile bootstrap intervals over the test samples, for all scores of an evaluation at once.

Every score is a function of means over test samples (correct predictions, squared errors). A
resample therefore needs only those means: the matrix of how often each sample was drawn, times the
matrix of what each sample contributes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cclk.errors import CclkError
from cclk.evaluation.estimate import Estimate, Unit
from cclk.evaluation.probes import one_thread
from cclk.evaluation.samples import Floats, Integers

Array = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)

_CHUNK = 4_000_000  # counts held at once: 32 MB


@dataclass(frozen=True)
class Statistic:
    """A score: the (n, m) contributions of n samples, and the map from (r, m) means to r values."""

    contributions: Array
    finish: Callable[[Array], Array]
    unit: Unit


def share_correct(prediction: Integers, truth: Integers) -> Statistic:
    """Accuracy: the share of correct predictions."""
    correct = (prediction == truth)[:, None].astype(np.float64)
    return Statistic(correct, lambda means: means[:, 0], "accuracy")


def explained_variance(prediction: Floats, truth: Floats) -> Statistic:
    """R^2 pooled over columns; each resample is centered at its own mean."""
    error = ((prediction - truth) ** 2).sum(axis=1, keepdims=True)
    # Centered once here, so that the squares do not cancel.
    centered = truth - truth.mean(axis=0)
    squares = (centered**2).sum(axis=1, keepdims=True)

    def finish(means: Array) -> Array:
        variance = means[:, 1] - (means[:, 2:] ** 2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(variance > 0, 1.0 - means[:, 0] / variance, np.nan)

    contributions = np.concatenate([error, squares, centered], axis=1).astype(np.float64)
    return Statistic(contributions, finish, "r2")


def explained_direction(prediction: Floats, truth: Floats) -> Statistic:
    """R^2 of the linear combination of two columns that is predicted best.

    Of cosine and sine of an angle, it is the same for every origin of the angle, and 1 if one of
    all cosines is predicted exactly.
    """
    first, second = (prediction - truth).T
    x, y = (truth - truth.mean(axis=0)).T

    def finish(means: Array) -> Array:
        a, b, c = means[:, :3].T
        p, q, r = (means[:, 3:6] - means[:, [6, 6, 7]] * means[:, [6, 7, 7]]).T
        with np.errstate(divide="ignore", invalid="ignore"):
            # The smaller eigenvalue of T^-1 E, the covariances of truth and error.
            scale = p * r - q**2
            trace = (r * a - 2 * q * b + p * c) / scale
            determinant = np.maximum(a * c - b**2, 0) / scale
            both = trace + np.sqrt(np.maximum(trace**2 - 4 * determinant, 0))
            smaller = np.where(both > 0, 2 * determinant / both, 0.0)
            # Of two positions on a circle, cosine and sine are on a line.
            pooled = np.where(p + r > 0, 1.0 - (a + c) / (p + r), np.nan)
            return np.where(scale > 1e-9 * (p + r) ** 2, 1.0 - smaller, pooled)

    products = (first**2, first * second, second**2, x**2, x * y, y**2, x, y)
    return Statistic(np.stack(products, axis=1).astype(np.float64), finish, "r2")


def bootstrap(
    statistics: Mapping[Key, Statistic], resamples: int, seed: int
) -> dict[Key, Estimate]:
    """Compute the statistics on the test split and their intervals, all from the same resamples."""
    if resamples < 1:
        raise CclkError(f"bootstrap must be at least 1 resample, got {resamples}")
    joined = np.concatenate([statistic.contributions for statistic in statistics.values()], axis=1)
    n, random, means = len(joined), np.random.default_rng((seed, 2)), []
    size = max(1, _CHUNK // n)
    with one_thread():
        for start in range(0, resamples, size):
            rows = min(size, resamples - start)
            drawn = random.integers(n, size=(rows, n)) + np.arange(rows)[:, None] * n
            counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
            means.append(counts.astype(np.float64) @ joined / n)
    resampled, full = np.concatenate(means), joined.mean(axis=0, keepdims=True)
    estimates, stop = {}, 0
    for key, statistic in statistics.items():
        columns = slice(stop, stop := stop + statistic.contributions.shape[1])
        low, high = np.nanquantile(statistic.finish(resampled[:, columns]), [0.025, 0.975])
        value = statistic.finish(full[:, columns])[0]
        if statistic.unit == "accuracy":  # equal answers do not vary: exact binomial bounds
            low = 0.025 ** (1 / n) if value == 1 else low
            high = 1 - 0.025 ** (1 / n) if value == 0 else high
        estimates[key] = Estimate(float(value), float(low), float(high), statistic.unit)
    return estimates
