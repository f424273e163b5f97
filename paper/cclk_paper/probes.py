"""The probes of committed experiments that `cclk.leakage`, whose panel finds more, superseded:
ridge regression and a small network beside it,

    prediction = linear probe + two hidden layers of 256 ReLU units

    R^2 = 1 - sum (prediction - z)^2 / sum (z - mean of z)^2

on the test split, pooled over the columns of z, which are divided by their standard deviation in
the training split. The network starts as the linear probe (its last layer starts at 0), and the
parameters with the lowest validation error are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]
from torch import Tensor

from cclk.errors import DataError
from cclk.evaluation import Samples
from cclk.evaluation.probes import (
    FeatureScaler,
    LinearProbe,
    fit_classifier,
    fit_ridge,
    one_thread,
)
from cclk.evaluation.samples import Floats, prepare

LARGEST_TRAINING_SET = 20_000

_WIDTH = 256
_RATE = 4e-3
_DECAY = 3.0  # of AdamW, for up to _FEW samples; in inverse proportion to their number above
_FEW = 4_000
_WARMUP = 50  # steps
_MOMENTUM = 0.98  # of the running average of the parameters, which is evaluated and kept
_EVALUATIONS = 40  # on the validation split
_PATIENCE = 14  # evaluations without improvement before stopping


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
    network = fit_network(x[rows], target[rows], held_x, held, linear, seed)
    variance = float((z.var(axis=0) * weight).sum()) or math.nan
    values = {"baseline_mse": float(((z - mean) ** 2).mean())}
    for name, probe in (("linear", linear), ("nonlinear", network)):
        error = (probe(query) * std + mean - z) ** 2
        values[f"{name}_r2"] = 1.0 - float((error * weight).sum(axis=1).mean()) / variance
        values[f"{name}_mse"] = float(error.mean())
    return values


def linear_auc(train: Samples, validation: Samples, test: Samples, seed: int = 0) -> float:
    """Return the area under the ROC curve of the linear classifier whose accuracy `evaluate`
    measures, for labels of two classes.

    Args:
        train: samples that the classifier is fitted on.
        validation: if empty, a random part of `train` is used instead.
        test: samples that are scored.
        seed: seed of the validation split.
    """
    train, validation, test = prepare(train, validation, test, seed)
    names = np.unique(train.y)
    if len(names) != 2 or not np.array_equal(names, np.unique(test.y)):
        raise DataError(
            "the area under the ROC curve needs labels of two classes, both of them in the training"
            f" and in the test split: the training split has {len(names)}"
        )
    scaler = FeatureScaler.fit(train.features)
    x, held, query = (scaler(split.features) for split in (train, validation, test))
    # A label that the training split lacks has a code that no probe predicts.
    held_y = np.where(np.isin(validation.y, names), validation.y == names[1], 2)
    classifier = fit_classifier(x, (train.y == names[1]).astype(int), 2, held, held_y)
    scores = classifier(query)
    return float(roc_auc_score(test.y == names[1], scores[:, 1] - scores[:, 0]))


@dataclass(frozen=True)
class _Network:
    """A linear map plus two hidden layers: three weights, the linear weight and three biases."""

    parameters: list[Tensor]

    @classmethod
    def start(cls, linear: LinearProbe, random: torch.Generator) -> _Network:
        """Return a network that computes the linear probe."""
        inputs, outputs = linear.weight.shape
        parameters = [
            torch.randn(inputs, _WIDTH, generator=random) * math.sqrt(2.0 / inputs),
            torch.randn(_WIDTH, _WIDTH, generator=random) * math.sqrt(2.0 / _WIDTH),
            torch.zeros(_WIDTH, outputs),
            torch.as_tensor(linear.weight, dtype=torch.float32).clone(),
            torch.zeros(_WIDTH),
            torch.zeros(_WIDTH),
            torch.as_tensor(linear.bias, dtype=torch.float32).clone(),
        ]
        return cls([parameter.requires_grad_() for parameter in parameters])

    def score(self, x: Tensor) -> Tensor:
        """Return the (n, k) predictions."""
        first, second, third, linear, *biases = self.parameters
        hidden = torch.addmm(biases[0], x, first).relu()
        hidden = torch.addmm(biases[1], hidden, second).relu()
        return torch.addmm(biases[2], x, linear) + hidden @ third

    def __call__(self, features: Floats) -> Floats:
        with torch.no_grad(), one_thread():
            scores: Floats = self.score(torch.from_numpy(features)).numpy()
        return scores

    def copy(self) -> _Network:
        """Return a detached copy."""
        return _Network([parameter.detach().clone() for parameter in self.parameters])


def fit_network(
    features: Floats,
    target: Floats,
    validation: Floats,
    validation_target: Floats,
    start: LinearProbe,
    seed: int,
) -> _Network:
    """Train the probe with AdamW, a cosine schedule and early stopping; deterministic.

    Args:
        features: (n, d) standardized features.
        target: (n, k) standardized numbers.
        validation: features of the validation split, which decide when to stop.
        validation_target: their targets.
        start: the linear probe of the same target.
        seed: seed of the initialization and the batches.
    """
    x, held_x = torch.from_numpy(features), torch.from_numpy(validation)
    t, held_t = torch.from_numpy(target).float(), torch.from_numpy(validation_target).float()
    random = torch.Generator().manual_seed(seed)
    batch = 256 if len(x) > _FEW else 128
    steps = min(2_000, max(600, 60 * len(x) // batch))
    network = _Network.start(start, random)
    average = network.copy()
    weights = {"params": network.parameters[:3], "weight_decay": _DECAY * min(1.0, _FEW / len(x))}
    others = {"params": network.parameters[3:], "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([weights, others], lr=_RATE, fused=True)

    @torch.no_grad()
    def error() -> float:
        return float(F.mse_loss(average.score(held_x), held_t))

    with one_thread():
        best, best_error, stale = average.copy(), error(), 0
        for step in range(steps):
            ramp = min(1.0, (step + 1) / _WARMUP)
            for group in optimizer.param_groups:
                group["lr"] = _RATE * ramp * 0.5 * (1.0 + math.cos(math.pi * step / steps))
            rows = torch.randint(len(x), (min(batch, len(x)),), generator=random)
            optimizer.zero_grad()
            F.mse_loss(network.score(x[rows]), t[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            with torch.no_grad():
                torch._foreach_lerp_(average.parameters, network.parameters, 1.0 - _MOMENTUM)
            if (step + 1) % (steps // _EVALUATIONS) == 0:
                now = error()
                stale = 0 if now < best_error else stale + 1
                if now < best_error:
                    best, best_error = average.copy(), now
                if stale >= _PATIENCE:
                    break
    return best
