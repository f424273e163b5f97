"""Made-up scores, each with an interval of the same width around its value."""

from __future__ import annotations

from cclk.evaluation import Accuracy, Estimate, FeatureScores, TwoProbes
from cclk.evaluation.scores import Unit


def estimate(value: float, width: float = 0.01, unit: Unit = "accuracy") -> Estimate:
    return Estimate(value, value - width, value + width, unit)


def number(linear: float, network: float, mean: float = 5000, width: float = 0.01) -> TwoProbes:
    """The leakage of a number whose variance is `mean`."""
    return TwoProbes(
        estimate(linear, width, "r2"),
        estimate(network, width, "r2"),
        estimate(mean * (1 - linear), 60, "mse"),
        estimate(mean * (1 - network), 60, "mse"),
        estimate(mean, 90, "mse"),
    )


def category(linear: float, network: float, width: float = 0.01) -> TwoProbes:
    """The leakage of one of ten categories."""
    return TwoProbes(estimate(linear, width), estimate(network, width), baseline=estimate(0.1))


def scores(
    accuracy: float, knn: float | None = None, width: float = 0.01, **leakage: TwoProbes
) -> FeatureScores:
    """Scores with the leakage of each column, by its name."""
    return FeatureScores(
        Accuracy(estimate(accuracy, width), estimate(accuracy if knn is None else knn, width)),
        leakage,
    )
