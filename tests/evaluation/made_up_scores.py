"""Made-up scores, each with an interval of the same width around its value."""

from __future__ import annotations

from cclk.evaluation import Accuracy, ColumnLeakage, Estimate, FeatureScores, Leakage
from cclk.evaluation.estimate import Unit


def estimate(value: float, width: float = 0.01, unit: Unit = "accuracy") -> Estimate:
    return Estimate(value, value - width, value + width, unit)


def number(linear: float, network: float, width: float = 0.01) -> ColumnLeakage:
    """The leakage of a number."""
    return ColumnLeakage(
        {"linear": estimate(linear, width, "r2"), "network": estimate(network, width, "r2")}
    )


def category(linear: float, network: float, width: float = 0.01) -> ColumnLeakage:
    """The leakage of one of ten categories, with an accuracy that is 0.3 higher."""
    probes = {"linear": linear, "network": network}
    return ColumnLeakage(
        {name: estimate(value, width, "r2") for name, value in probes.items()},
        {name: estimate(value + 0.3, width) for name, value in probes.items()},
        estimate(0.1),
    )


def panel(*values: float) -> ColumnLeakage:
    """The leakage of a category whose probes have these R²; the accuracies are 0.5 higher."""
    names = ("linear", "squares", "bins", "neighbors")[: len(values)]
    return ColumnLeakage(
        {name: estimate(value, unit="r2") for name, value in zip(names, values, strict=True)},
        {name: estimate(value + 0.5) for name, value in zip(names, values, strict=True)},
        estimate(0.5),
    )


def scores(
    accuracy: float, knn: float | None = None, width: float = 0.01, **leakage: ColumnLeakage
) -> FeatureScores:
    """Scores with the leakage of each column, by its name."""
    return FeatureScores(
        Accuracy(estimate(accuracy, width), estimate(accuracy if knn is None else knn, width)),
        Leakage(leakage),
    )
