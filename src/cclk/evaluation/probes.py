"""The linear classifier (by L-BFGS), k nearest neighbors and ridge regression.

Probes are fitted on the training split; their regularization is selected on the validation split.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from cclk._extras import needed_for
from cclk.evaluation.samples import Floats, Integers

# Strongest regularization first: it wins ties, and each logistic fit starts from the previous one.
_STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
_ALPHAS = np.logspace(1, -6, 15)
_LBFGS_STEPS = 500
_TILE = 512


@dataclass(frozen=True)
class FeatureScaler:
    """Standardizes features with the mean and standard deviation of the training split."""

    mean: Floats
    std: Floats

    @classmethod
    def fit(cls, features: Floats) -> FeatureScaler:
        """Columns that do not vary beyond rounding are not scaled, which would amplify noise."""
        double = features.astype(np.float64)
        mean, std = double.mean(axis=0), double.std(axis=0)
        return cls(mean, np.where(std > 1e-6 * np.abs(mean) + 1e-30, std, 1.0))

    def __call__(self, features: Floats) -> Floats:
        scaled: Floats = ((features - self.mean) / self.std).astype(np.float32)
        return scaled


@dataclass(frozen=True)
class LinearProbe:
    """Scores `features @ weight + bias`, and the regularization strength that was selected."""

    weight: Floats
    bias: Floats
    strength: float | list[float]

    def __call__(self, features: Floats) -> Floats:
        scores: Floats = features @ self.weight + self.bias
        return scores


def fit_classifier(
    features: Floats,
    target: Integers,
    classes: int,
    validation: Floats,
    validation_target: Integers,
) -> LinearProbe:
    """Fit multinomial logistic regression by L-BFGS, 500 steps as in the paper.

    Args:
        features: (n, d) standardized features.
        target: class codes 0 .. classes - 1, each of which occurs.
        classes: number of classes.
        validation: features on which the strength, scikit-learn's C, is selected.
        validation_target: their class codes.
    """
    with needed_for("evaluation"):
        from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    best = LinearProbe(
        np.zeros((features.shape[1], 1), np.float32), np.zeros(1, np.float32), _STRENGTHS[0]
    )
    if classes == 1:
        return best
    model: Any = LogisticRegression(max_iter=_LBFGS_STEPS, warm_start=True)
    best_accuracy = -1.0
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is the paper's
        for strength in _STRENGTHS:
            model.set_params(C=strength).fit(features, target)
            weight, bias = model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32)
            if classes == 2:  # one column of scores: the first class has scores of 0
                weight, bias = np.pad(weight, ((0, 0), (1, 0))), np.pad(bias, (1, 0))
            fitted = LinearProbe(weight, bias, strength)
            accuracy = float((fitted(validation).argmax(axis=1) == validation_target).mean())
            if accuracy > best_accuracy:
                best, best_accuracy = fitted, accuracy
    return best


def fit_ridge(
    features: Floats, target: Floats, validation: Floats, validation_target: Floats
) -> LinearProbe:
    """Fit ridge regression in closed form.

    The strength, alpha per training sample, is selected for each column of the target.
    """
    double, mean = features.astype(np.float64), target.mean(axis=0)
    with one_thread():
        values, vectors = np.linalg.eigh(double.T @ double / len(double))
        projected = vectors.T @ (double.T @ (target - mean) / len(double))
        scales = [(np.maximum(values, 0.0) + alpha)[:, None] for alpha in _ALPHAS]
        weights = np.stack([vectors @ (projected / scale) for scale in scales])
        errors = [
            ((validation @ weight + mean - validation_target) ** 2).mean(axis=0)
            for weight in weights
        ]
    best = np.argmin(errors, axis=0)
    return LinearProbe(weights[best, :, np.arange(len(mean))].T, mean, _ALPHAS[best].tolist())


def predict_neighbors(
    features: Floats,
    target: Integers,
    queries: Floats,
    *,
    neighbors: int = 20,
    temperature: float = 0.07,
) -> Integers:
    """Predict by a vote of the nearest training samples by cosine similarity.

    A vote has the weight exp(similarity / temperature).
    """
    # Brute force by torch is 10 times faster than scikit-learn's.
    keys = F.normalize(torch.from_numpy(features), dim=1)
    votes = F.one_hot(torch.from_numpy(target)).float()
    predictions = []
    for tile in torch.split(torch.from_numpy(queries), _TILE):
        nearest, rows = (F.normalize(tile, dim=1) @ keys.T).topk(min(neighbors, len(keys)), dim=1)
        weight = ((nearest - nearest[:, :1]) / temperature).exp()
        predictions.append((weight.unsqueeze(2) * votes[rows]).sum(dim=1).argmax(dim=1))
    classes: Integers = torch.cat(predictions).numpy()
    return classes


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread inside the block.

    Results and speed then do not depend on the number of cores. Threads that wait for each other in
    small products spin: on a busy machine two were 15 times slower than one.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
