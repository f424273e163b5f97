"""The two probes of the tables of committed experiments: ridge regression and a small network.

    R^2 = 1 - sum (prediction - z)^2 / sum (z - mean of z)^2

on the test split, pooled over the columns of z, which are divided by their standard deviation in
the training split. New measurements use `cclk.leakage`, whose panel finds more.
"""

from __future__ import annotations

import numpy as np

from cclk.evaluation import intervals
from cclk.evaluation.evaluate import prepare
from cclk.evaluation.feature_splits import Samples
from cclk.evaluation.intervals import explained_variance, mean_squared_error
from cclk.evaluation.nonlinear import LARGEST_TRAINING_SET, fit_mlp
from cclk.evaluation.probes import FeatureScaler, fit_ridge


def two_probes(
    train: Samples, validation: Samples, test: Samples, seed: int = 0
) -> dict[str, float]:
    """Return R^2 and MSE of both probes for a condition of numbers, and the MSE of the mean.

    Args:
        train: samples that the probes are fitted on.
        validation: if empty, a random part of `train` is used instead.
        test: samples that the scores are computed on.
        seed: seed of the validation split and the network.

    Returns:
        linear_r2, linear_mse, nonlinear_r2, nonlinear_mse and baseline_mse; nothing if the
        condition is constant in the training or the test split.
    """
    train, validation, test = prepare(train, validation, test, seed)
    z = test.condition
    if any((each == each[:1]).all() for each in (train.condition, z)):
        return {}
    scaler = FeatureScaler.fit(train.features)
    x, held_x, query = (scaler(split.features) for split in (train, validation, test))
    mean, constant = train.condition.mean(axis=0), np.ptp(train.condition, axis=0) == 0
    std = np.where(constant, 1.0, train.condition.std(axis=0))
    weight = np.where(constant, 0.0, std**-2.0)
    target, held = ((split.condition - mean) / std for split in (train, validation))
    linear = fit_ridge(x, target, held_x, held)
    rows = np.arange(len(x))
    if len(rows) > LARGEST_TRAINING_SET:
        order = np.random.default_rng((seed, 3)).permutation(rows)
        rows = np.sort(order[:LARGEST_TRAINING_SET])
    network = fit_mlp(x[rows], target[rows], held_x, held, linear, seed)
    statistics = {"baseline_mse": mean_squared_error(np.broadcast_to(mean, z.shape), z)}
    for name, probe in (("linear", linear), ("nonlinear", network)):
        prediction = probe(query) * std + mean
        statistics[f"{name}_r2"] = explained_variance(prediction, z, weight)
        statistics[f"{name}_mse"] = mean_squared_error(prediction, z)
    estimates = intervals.bootstrap(statistics, 1, seed)
    return {name: estimate.value for name, estimate in estimates.items()}
