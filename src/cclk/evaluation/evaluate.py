"""Evaluate one representation: how well the label and the condition are predicted from it.

Leakage is the R^2 of a linear and of a nonlinear probe, next to the error of predicting the mean:

    R^2 = 1 - sum (prediction - z)^2 / sum (z - mean of z)^2

on the test split. Columns of z are first divided by their standard deviation in the training split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cclk.errors import CclkError, DataError
from cclk.evaluation import intervals
from cclk.evaluation.feature_splits import Floats, Integers, Samples, carve, check
from cclk.evaluation.intervals import (
    Statistic,
    explained_variance,
    mean_squared_error,
    share_correct,
)
from cclk.evaluation.nonlinear import LARGEST_TRAINING_SET, MLPProbe, Task, fit_mlp
from cclk.evaluation.probes import (
    FeatureScaler,
    LinearProbe,
    fit_classifier,
    fit_ridge,
    predict_neighbors,
)
from cclk.evaluation.scores import Accuracy, Detail, FeatureScores, TwoProbes

Kind = Literal["continuous", "categorical", "mixed"]
Parts = Sequence[tuple[str, Literal["continuous", "categorical"], slice]]
"""Name, kind and position of each column of a mixed condition."""


def evaluate(
    train: Samples,
    validation: Samples,
    test: Samples,
    kind: Kind,
    seed: int = 0,
    bootstrap: int = 1000,
    leakage: bool = True,
    parts: Parts = (),
    condition: str = "condition",
) -> FeatureScores:
    """Fit probes on train, select their regularization on validation, and score them on test.

    Args:
        train: samples that the probes are fitted on.
        validation: if empty, a random part of `train` is used instead.
        test: samples that the scores and their 95 % bootstrap intervals are computed on.
        kind: kind of the condition. Leakage is the accuracy for a categorical condition, and R^2
            and MSE (mean over columns, in their own units) for a continuous one.
        seed: seed of the validation split, the nonlinear probe and the bootstrap.
        bootstrap: number of resamples of the test split.
        leakage: if False, only the label is evaluated, which is much faster.
        parts: the columns of a mixed condition, each of which is evaluated separately.
        condition: name of a condition that is not mixed.

    Returns:
        Accuracies, and the leakage of each column by its name. A column that is constant in the
        training or the test split has an empty `TwoProbes`.
    """
    for name, split in (("training", train), ("validation", validation), ("test", test)):
        check(split, name)
    if kind not in ("continuous", "categorical", "mixed") or (kind == "mixed") != bool(parts):
        raise CclkError(
            f'kind must be "continuous" or "categorical", or "mixed" with its parts, got {kind!r}'
            f" and {len(parts)} parts"
        )
    if len(test) == 0:
        raise DataError("the test split is empty: there is nothing to evaluate on")
    details: dict[str, Detail] = {
        "validation_from": "its own split" if len(validation) else "the training split"
    }
    if not len(validation):
        train, validation = carve(train, seed)
    scaler = FeatureScaler.fit(train.features)
    features = [scaler(split.features) for split in (train, validation, test)]
    probes = _Probes(features[0], features[1], features[2], seed, details)
    columns: Sequence[tuple[str, Kind, slice]] = (
        (parts or [(condition, kind, slice(None))]) if leakage else ()
    )
    statistics: dict[tuple[str | None, str], Statistic] = {
        (None, name): statistic for name, statistic in probes.label(train, validation, test).items()
    }
    for column, column_kind, position in columns:
        values = [split.condition[:, position] for split in (train, validation, test)]
        if _varies(values[0]) and _varies(values[2]):
            probe = probes.category if column_kind == "categorical" else probes.number
            statistics |= {(column, name): value for name, value in probe(*values).items()}
    estimates = intervals.bootstrap(statistics, bootstrap, seed)
    sizes = {"train": len(train), "validation": len(validation), "test": len(test)}

    def of(column: str | None) -> dict[str, Any]:
        return {name: value for (owner, name), value in estimates.items() if owner == column}

    return FeatureScores(
        Accuracy(**of(None)),
        {column: TwoProbes(**of(column)) for column, _, _ in columns},
        {**sizes, "bootstrap": bootstrap, "seed": seed, **details},
    )


@dataclass(frozen=True)
class _Probes:
    """The standardized features of the three splits; notes selected settings in `details`."""

    train: Floats
    validation: Floats
    test: Floats
    seed: int
    details: dict[str, Detail]

    def label(self, train: Samples, validation: Samples, test: Samples) -> dict[str, Statistic]:
        names = np.unique(train.y)
        target, held, truth = (_codes(split.y, names) for split in (train, validation, test))
        linear = self._classifier("accuracy", target, held, len(names))(self.test).argmax(axis=1)
        knn = predict_neighbors(train.features, target, len(names), test.features)
        return {"linear": share_correct(linear, truth), "knn": share_correct(knn, truth)}

    def number(self, train: Floats, validation: Floats, test: Floats) -> dict[str, Statistic]:
        mean, constant = train.mean(axis=0), np.ptp(train, axis=0) == 0
        std = np.where(constant, 1.0, train.std(axis=0))
        weight = np.where(constant, 0.0, std**-2.0)
        target, held = (train - mean) / std, (validation - mean) / std
        linear = fit_ridge(self.train, target, self.validation, held)
        self.details["condition_alpha"] = linear.strength
        nonlinear = self._mlp(target, held, linear, "regression")
        statistics = {"baseline": mean_squared_error(np.broadcast_to(mean, test.shape), test)}
        for name, probe in (("linear", linear), ("nonlinear", nonlinear)):
            prediction = probe(self.test) * std + mean
            statistics[name] = explained_variance(prediction, test, weight)
            statistics[f"{name}_mse"] = mean_squared_error(prediction, test)
        return statistics

    def category(self, train: Floats, validation: Floats, test: Floats) -> dict[str, Statistic]:
        if train.shape[1] != 1:
            raise DataError(
                f"a categorical condition is one column of integers, got {train.shape[1]} columns:"
                " join them into one"
            )
        names, counts = np.unique(train, return_counts=True)
        target, held, truth = (_codes(values[:, 0], names) for values in (train, validation, test))
        linear = self._classifier("condition", target, held, len(names))
        nonlinear = self._mlp(target, held, linear, "classification")
        return {
            "linear": share_correct(linear(self.test).argmax(axis=1), truth),
            "nonlinear": share_correct(nonlinear(self.test).argmax(axis=1), truth),
            "baseline": share_correct(np.full_like(truth, counts.argmax()), truth),
        }

    def _classifier(
        self, name: str, train: Integers, validation: Integers, classes: int
    ) -> LinearProbe:
        linear = fit_classifier(self.train, train, classes, self.validation, validation)
        self.details[f"{name}_c"] = linear.strength
        return linear

    def _mlp(
        self, train: Floats | Integers, held: Floats | Integers, start: LinearProbe, task: Task
    ) -> MLPProbe:
        rows = np.arange(len(self.train))
        if len(rows) > LARGEST_TRAINING_SET:
            order = np.random.default_rng((self.seed, 3)).permutation(rows)
            rows = np.sort(order[:LARGEST_TRAINING_SET])
        self.details["nonlinear_train"] = len(rows)
        features = self.validation
        if task == "classification":  # the loss is undefined for classes that train lacks
            known = held < len(start.bias)
            features, held = (features[known], held[known]) if known.any() else (self.train, train)
        return fit_mlp(self.train[rows], train[rows], features, held, start, task, self.seed)


def _codes(values: Any, names: Any) -> Integers:
    """Class codes 0, 1, ...; values that `names` lacks have a code that no probe predicts."""
    codes = np.searchsorted(names, values)
    codes[names[np.minimum(codes, len(names) - 1)] != values] = len(names)
    return np.asarray(codes, dtype=np.int64)


def _varies(condition: Floats) -> bool:
    return bool((condition != condition[:1]).any())
