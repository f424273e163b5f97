"""The simple probes: a linear classifier by L-BFGS, nearest neighbors, and ridge regression.
Fitted on train, chosen on validation.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from cclk.evaluation.feature_splits import Floats, Integers
from cclk.evaluation.one_thread import one_thread
from cclk.extras import needed_for

# Strongest regularization first: ties go to it, and each logistic fit starts from the one before,
# which is near.
_STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
_ALPHAS = np.logspace(1, -6, 15)
_LBFGS_STEPS = 500
_TILE = 512


@dataclass(frozen=True)
class Scale:
    """Standardizes features with the training split's mean and spread."""

    mean: Floats
    spread: Floats

    @classmethod
    def fit(cls, features: Floats) -> Scale:
        """Columns that do not vary beyond rounding are left unscaled: dividing by their spread
        would blow up noise.
        """
        wide = features.astype(np.float64)
        mean, spread = wide.mean(axis=0), wide.std(axis=0)
        return cls(mean, np.where(spread > 1e-6 * np.abs(mean) + 1e-30, spread, 1.0))

    def __call__(self, features: Floats) -> Floats:
        scaled: Floats = ((features - self.mean) / self.spread).astype(np.float32)
        return scaled


@dataclass(frozen=True)
class Linear:
    """Scores `features @ weight + bias` on standardized features, and the strength that the
    validation split chose.
    """

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
) -> Linear:
    """Multinomial logistic regression by L-BFGS (500 steps, as in the paper); sklearn's C is the
    strength.

    Args:
        target: class numbers 0 .. classes - 1, each of which occurs.
    """
    with needed_for("evaluation"):
        from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    if classes == 1:
        return Linear(
            np.zeros((features.shape[1], 1), np.float32), np.zeros(1, np.float32), _STRENGTHS[0]
        )
    model: Any = LogisticRegression(max_iter=_LBFGS_STEPS, warm_start=True)
    best, best_right = None, -1.0
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # the number of steps is the paper's, converged or not
        for strength in _STRENGTHS:
            model.set_params(C=strength).fit(features, target)
            weight, bias = model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32)
            if (
                classes == 2
            ):  # one column of scores for two classes: give the first class scores of 0
                weight, bias = np.pad(weight, ((0, 0), (1, 0))), np.pad(bias, (1, 0))
            fitted = Linear(weight, bias, strength)
            right = float((fitted(validation).argmax(axis=1) == validation_target).mean())
            if right > best_right:
                best, best_right = fitted, right
    assert best is not None
    return best


def fit_ridge(
    features: Floats, target: Floats, validation: Floats, validation_target: Floats
) -> Linear:
    """Ridge regression in closed form; the strength is alpha per training sample, chosen for
    each column of the target.
    """
    wide, mean = features.astype(np.float64), target.mean(axis=0)
    with one_thread():
        values, vectors = np.linalg.eigh(wide.T @ wide / len(wide))
        projected = vectors.T @ (wide.T @ (target - mean) / len(wide))
        weights = np.stack(
            [
                vectors @ (projected / (np.maximum(values, 0.0) + alpha)[:, None])
                for alpha in _ALPHAS
            ]
        )
        errors = np.stack(
            [
                ((validation @ weight + mean - validation_target) ** 2).mean(axis=0)
                for weight in weights
            ]
        )
    best = errors.argmin(axis=0)
    return Linear(weights[best, :, np.arange(len(mean))].T, mean, _ALPHAS[best].tolist())


def predict_neighbors(
    features: Floats,
    target: Integers,
    classes: int,
    queries: Floats,
    *,
    neighbors: int = 20,
    temperature: float = 0.07,
) -> Integers:
    """The class that the nearest training samples vote for, by cosine similarity; a vote counts
    exp(similarity / temperature).
    """
    keys = F.normalize(torch.from_numpy(features), dim=1)
    votes = F.one_hot(torch.from_numpy(target), classes).float()
    found = []
    for part in torch.split(torch.from_numpy(queries), _TILE):
        near, rows = (F.normalize(part, dim=1) @ keys.T).topk(min(neighbors, len(keys)), dim=1)
        weight = ((near - near[:, :1]) / temperature).exp()
        found.append((weight.unsqueeze(2) * votes[rows]).sum(dim=1).argmax(dim=1))
    answer: Integers = torch.cat(found).numpy()
    return answer
