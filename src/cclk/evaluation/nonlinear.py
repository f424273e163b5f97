"""The nonlinear probe, a small network beside the linear probe:

    prediction = linear probe + two hidden layers of 256 ReLU units

The network starts as the linear probe (its last layer starts at 0), and the parameters with the
lowest validation error are kept. Its leakage is therefore at least that of the linear probe, up to
the difference between the validation and the test split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.evaluation.feature_splits import Floats
from cclk.evaluation.networks import descend
from cclk.evaluation.one_thread import one_thread
from cclk.evaluation.probes import LinearProbe

LARGEST_TRAINING_SET = 20_000

_WIDTH = 256
_RATE = 4e-3
_DECAY = 3.0  # for up to _FEW samples; in inverse proportion to their number above
_FEW = 4_000
_MOMENTUM = 0.98  # of the running average of the parameters, which is evaluated and kept
_PATIENCE = 14  # evaluations without improvement before stopping


@dataclass(frozen=True)
class MLPProbe:
    """A linear map plus two hidden layers: three weights, the linear weight and three biases."""

    parameters: list[Tensor]

    @classmethod
    def start(cls, linear: LinearProbe, random: torch.Generator) -> MLPProbe:
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

    def copy(self) -> MLPProbe:
        """Return a detached copy."""
        return MLPProbe([parameter.detach().clone() for parameter in self.parameters])


def fit_mlp(
    features: Floats,
    target: Floats,
    validation: Floats,
    validation_target: Floats,
    start: LinearProbe,
    seed: int,
) -> MLPProbe:
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
    network = MLPProbe.start(start, random)
    decay = _DECAY * min(1.0, _FEW / len(x))
    decays = [(network.parameters[:3], decay), (network.parameters[3:], 0.0)]
    with one_thread():
        return descend(
            network, decays, (x, t), (held_x, held_t), _RATE, steps, batch, random,
            momentum=_MOMENTUM, patience=_PATIENCE, start=True,
        )  # fmt: skip
