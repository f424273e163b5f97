"""Measure one representation: what can be read from it of the label, and what leaks of the
condition.

A leak is never a bare MSE. It stands beside the error of predicting the training mean, as R^2, by a
linear and by a non-linear probe:

    R^2 = 1 - sum (prediction - z)^2 / sum (z - mean of z)^2      on the test split; columns of z are divided by their training spread first
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cclk.evaluation import intervals
from cclk.evaluation.feature_splits import Floats, Integers, Samples, carve, check
from cclk.evaluation.intervals import Statistic, explained_variance, mean_squared_error, share_right
from cclk.evaluation.nonlinear import LARGEST_TRAINING_SET, Network, Task, fit_network
from cclk.evaluation.probes import Linear, Scale, fit_classifier, fit_ridge, predict_neighbors
from cclk.evaluation.scores import Accuracy, Detail, FeatureScores, Leakage

Kind = Literal["continuous", "categorical", "mixed"]
Parts = Sequence[tuple[str, Literal["continuous", "categorical"], slice]]
"""The columns of a mixed condition: the name, kind and place of each."""


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
    """Probe one representation: fit on train, choose on validation, report on test with 95 %
    bootstrap intervals.

    Args:
        validation: if it is empty, a part of the training split serves instead (and `how` says so).
        kind: of the condition. Categorical leaks are accuracies; continuous ones R^2, and MSE in
            its own units (mean over columns).
        seed: of the carved validation split, the non-linear probe and the bootstrap.
        bootstrap: the number of resamples of the test split.
        leakage: whether to measure leakage of the condition; without it evaluation is much faster.
        parts: the columns of a mixed condition; the leakage of each is measured separately.
        condition: the name of a condition that is not mixed.

    Returns:
        Accuracies, and the leakage of each column by its name. A column that is constant in the
        training or the test split has an empty `Leakage`.
    """
    for name, split in (("training", train), ("validation", validation), ("test", test)):
        check(split, name)
    if kind not in ("continuous", "categorical", "mixed") or (kind == "mixed") != bool(parts):
        raise ValueError(
            f'kind must be "continuous" or "categorical", or "mixed" with its parts, got {kind!r}'
            f" and {len(parts)} parts"
        )
    if len(test) == 0:
        raise ValueError("the test split is empty: there is nothing to report on")
    how: dict[str, Detail] = {
        "validation_from": "its own split" if len(validation) else "the training split"
    }
    if not len(validation):
        train, validation = carve(train, seed)
    scale = Scale.fit(train.features)
    probing = _Probing(
        scale(train.features), scale(validation.features), scale(test.features), seed, how
    )

    columns: Sequence[tuple[str, Kind, slice]] = (
        (parts or [(condition, kind, slice(None))]) if leakage else ()
    )
    found: dict[str | None, dict[str, Statistic]] = {
        None: _label_statistics(probing, train, validation, test)
    }
    for name, column_kind, place in columns:
        values = [split.condition[:, place] for split in (train, validation, test)]
        varies = _varies(values[0]) and _varies(values[2])
        found[name] = (
            (_category_statistics if column_kind == "categorical" else _number_statistics)(
                probing, *values
            )
            if varies
            else {}
        )
    estimates = intervals.bootstrap(
        {
            (column, name): statistic
            for column, named in found.items()
            for name, statistic in named.items()
        },
        bootstrap,
        seed,
    )
    scores = {
        column: {name: estimates[column, name] for name in named} for column, named in found.items()
    }
    sizes = {
        "train": len(train),
        "validation": len(validation),
        "test": len(test),
        "bootstrap": bootstrap,
        "seed": seed,
    }
    return FeatureScores(
        Accuracy(**scores[None]),
        {name: Leakage(**scores[name]) for name, _, _ in columns},
        sizes | how,
    )


@dataclass
class _Probing:
    """The standardized features of the three splits, and what was chosen on the way."""

    train: Floats
    validation: Floats
    test: Floats
    seed: int
    how: dict[str, Detail] = field(default_factory=dict)

    def classifier(self, name: str, train: Integers, validation: Integers, classes: int) -> Linear:
        """The linear probe for class numbers."""
        linear = fit_classifier(self.train, train, classes, self.validation, validation)
        self.how[f"{name}_c"] = linear.strength
        return linear

    def ridge(self, train: Floats, validation: Floats) -> Linear:
        """The linear probe for numbers."""
        linear = fit_ridge(self.train, train, self.validation, validation)
        self.how["condition_alpha"] = linear.strength
        return linear

    def network(
        self, train: Floats | Integers, validation: Floats | Integers, start: Linear, task: Task
    ) -> Network:
        """The non-linear probe, which starts from the linear one; fitted on a part of a large
        training split.
        """
        rows = np.arange(len(self.train))
        if len(rows) > LARGEST_TRAINING_SET:
            rows = np.sort(
                np.random.default_rng((self.seed, 3)).permutation(rows)[:LARGEST_TRAINING_SET]
            )
        self.how["nonlinear_train"] = len(rows)
        held, held_target = self.validation, validation
        if (
            task == "classification"
        ):  # the loss has no class for categories that the training split lacks
            known = validation < len(start.bias)
            held, held_target = (
                (held[known], validation[known]) if known.any() else (self.train, train)
            )
        return fit_network(self.train[rows], train[rows], held, held_target, start, task, self.seed)


def _label_statistics(
    probing: _Probing, train: Samples, validation: Samples, test: Samples
) -> dict[str, Statistic]:
    names = np.unique(train.y)
    target, held, truth = (_number(split.y, names) for split in (train, validation, test))
    linear = probing.classifier("accuracy", target, held, len(names))(probing.test).argmax(axis=1)
    near = predict_neighbors(train.features, target, len(names), test.features)
    return {"linear": share_right(linear, truth), "knn": share_right(near, truth)}


def _number_statistics(
    probing: _Probing, train: Floats, validation: Floats, test: Floats
) -> dict[str, Statistic]:
    mean, constant = train.mean(axis=0), np.ptp(train, axis=0) == 0
    unit = np.where(constant, 1.0, train.std(axis=0))
    weight = np.where(constant, 0.0, unit**-2.0)
    target, held = (train - mean) / unit, (validation - mean) / unit
    linear = probing.ridge(target, held)
    network = probing.network(target, held, linear, "regression")
    found = {"baseline": mean_squared_error(np.broadcast_to(mean, test.shape), test)}
    for name, probe in (("linear", linear), ("nonlinear", network)):
        prediction = probe(probing.test) * unit + mean
        found[name] = explained_variance(prediction, test, weight)
        found[f"{name}_mse"] = mean_squared_error(prediction, test)
    return found


def _category_statistics(
    probing: _Probing, train: Floats, validation: Floats, test: Floats
) -> dict[str, Statistic]:
    if train.shape[1] != 1:
        raise ValueError(
            f"a categorical condition is one column of integers, got {train.shape[1]} columns: join"
            " them into one"
        )
    names, counts = np.unique(train, return_counts=True)
    target, held, truth = (_number(values[:, 0], names) for values in (train, validation, test))
    linear = probing.classifier("condition", target, held, len(names))
    network = probing.network(target, held, linear, "classification")
    return {
        "linear": share_right(linear(probing.test).argmax(axis=1), truth),
        "nonlinear": share_right(network(probing.test).argmax(axis=1), truth),
        "baseline": share_right(np.full_like(truth, counts.argmax()), truth),
    }


def _number(values: Any, names: Any) -> Integers:
    """Class numbers 0, 1, ...; what the training split does not have gets a number that no probe
    answers.
    """
    places = np.searchsorted(names, values)
    places[names[np.minimum(places, len(names) - 1)] != values] = len(names)
    return np.asarray(places, dtype=np.int64)


def _varies(condition: Floats) -> bool:
    return bool((condition != condition[:1]).any())
