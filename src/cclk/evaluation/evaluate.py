"""Evaluate one representation: how well the label and the condition are predicted from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cclk._extras import needed_for
from cclk.columns import Column
from cclk.errors import DataError
from cclk.evaluation import intervals
from cclk.evaluation.feature_splits import Floats, Integers, Samples, carve, check
from cclk.evaluation.intervals import share_correct
from cclk.evaluation.leakage_card import Leakage, measure_leakage
from cclk.evaluation.probes import (
    FeatureScaler,
    LinearProbe,
    fit_classifier,
    predict_neighbors,
)
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
    target, truth = (_codes(split.y, names) for split in (train, test))
    linear, scores = _linear_scores(train, validation, test)
    knn = predict_neighbors(train.features, target, len(names), test.features)
    accuracies = {
        "linear": share_correct(scores.argmax(axis=1), truth),
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


def linear_auc(train: Samples, validation: Samples, test: Samples, seed: int = 0) -> float:
    """Return the area under the ROC curve of the linear classifier whose accuracy `evaluate`
    measures, for labels of two classes.

    Args:
        train: samples that the classifier is fitted on.
        validation: if empty, a random part of `train` is used instead.
        test: samples that are scored.
        seed: seed of the validation split.
    """
    with needed_for("evaluation"):
        from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

    train, validation, test = prepare(train, validation, test, seed)
    names = np.unique(train.y)
    if len(names) != 2 or not np.array_equal(names, np.unique(test.y)):
        raise DataError(
            "the area under the ROC curve needs labels of two classes, both of them in the training"
            f" and in the test split: the training split has {len(names)}"
        )
    _, scores = _linear_scores(train, validation, test)
    return float(roc_auc_score(test.y == names[1], scores[:, 1] - scores[:, 0]))


def _linear_scores(
    train: Samples, validation: Samples, test: Samples
) -> tuple[LinearProbe, Floats]:
    """Return the linear classifier of the label, and its scores of the test samples."""
    names = np.unique(train.y)
    target, held = (_codes(split.y, names) for split in (train, validation))
    scaler = FeatureScaler.fit(train.features)
    linear = fit_classifier(
        scaler(train.features), target, len(names), scaler(validation.features), held
    )
    return linear, linear(scaler(test.features))


def prepare(
    train: Samples, validation: Samples, test: Samples, seed: int
) -> tuple[Samples, Samples, Samples]:
    """Check the samples; without validation samples, take a random part of the training samples."""
    for name, split in (("training", train), ("validation", validation), ("test", test)):
        check(split, name)
    if len(test) == 0:
        raise DataError("the test split is empty: there is nothing to evaluate on")
    return (train, validation, test) if len(validation) else (*carve(train, seed), test)


def _codes(values: Any, names: Any) -> Integers:
    """Class codes 0, 1, ...; values that `names` lacks have a code that no probe predicts."""
    codes = np.searchsorted(names, values)
    codes[names[np.minimum(codes, len(names) - 1)] != values] = len(names)
    return np.asarray(codes, dtype=np.int64)
