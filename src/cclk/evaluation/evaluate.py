"""Evaluate one representation: how well the label and the condition are predicted from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cclk.columns import Column
from cclk.errors import DataError
from cclk.evaluation import intervals
from cclk.evaluation.intervals import share_correct
from cclk.evaluation.leakage import Leakage, measure_leakage
from cclk.evaluation.probes import FeatureScaler, fit_classifier, predict_neighbors
from cclk.evaluation.samples import Integers, Samples, prepare
from cclk.evaluation.scores import Accuracy, FeatureScores


def evaluate(
    train: Samples,
    validation: Samples,
    test: Samples,
    columns: Sequence[Column] = (),
    seed: int = 0,
    bootstrap: int = 1000,
) -> FeatureScores:
    """Fit probes on train, select their regularization on validation, and score them on test.

    Args:
        train: samples that the probes are fitted on.
        validation: if empty, a random part of `train` is used instead.
        test: samples that the scores and their 95 % bootstrap intervals are computed on.
        columns: the columns of the condition, whose leakage is measured as by `cclk.leakage`; by
            default, only the label is evaluated, which is much faster.
        seed: seed of the validation split, the probes and the bootstrap.
        bootstrap: number of resamples of the test split.

    Returns:
        Accuracies, and the leakage of each column by its name. A column that is constant in the
        training or the test split has an empty `ColumnLeakage`.
    """
    own, (train, validation, test) = bool(len(validation)), prepare(train, validation, test, seed)
    width = sum(column.width for column in columns)
    if columns and width != test.condition.shape[1]:
        raise DataError(
            f"the columns describe {width} values of the condition, and the samples have"
            f" {test.condition.shape[1]}"
        )
    names = np.unique(train.y)
    target, held, truth = (_codes(split.y, names) for split in (train, validation, test))
    scaler = FeatureScaler.fit(train.features)
    linear = fit_classifier(
        scaler(train.features), target, len(names), scaler(validation.features), held
    )
    knn = predict_neighbors(train.features, target, test.features)
    accuracies = {
        "linear": share_correct(linear(scaler(test.features)).argmax(axis=1), truth),
        "knn": share_correct(knn, truth),
    }
    leakage = Leakage()
    if columns:
        leakage = measure_leakage(
            train, validation, test, columns=columns, seed=seed, bootstrap=bootstrap
        )
    return FeatureScores(
        Accuracy(**intervals.bootstrap(accuracies, bootstrap, seed)),
        leakage,
        {
            "train": len(train),
            "validation": len(validation),
            "test": len(test),
            "bootstrap": bootstrap,
            "seed": seed,
            "validation_from": "its own split" if own else "the training split",
            "accuracy_c": linear.strength,
        },
    )


def _codes(values: Any, names: Any) -> Integers:
    """Class codes 0, 1, ...; values that `names` lacks have a code that no probe predicts."""
    codes = np.searchsorted(names, values)
    codes[names[np.minimum(codes, len(names) - 1)] != values] = len(names)
    return np.asarray(codes, dtype=np.int64)
