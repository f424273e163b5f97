"""The non-linear probe: what a small network can read out of a representation.

    prediction = linear probe + two hidden layers of 256 ReLU units

The network starts as the linear probe (its last layer starts at 0) and is kept only as far as it
does better on the validation split. So a leak that it finds is at least the linear one, up to the
difference between the validation and the test split.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cclk.evaluation.feature_splits import Floats, Integers
from cclk.evaluation.one_thread import one_thread
from cclk.evaluation.probes import Linear

Task = Literal["regression", "classification"]

LARGEST_TRAINING_SET = 20_000

_WIDTH = 256
_RATE = 4e-3
_DECAY = 3.0  # for few samples; less for more
_FEW = 4_000
_WARM_UP = 50  # steps
_MEMORY = 0.98  # of the running average of the parameters, which is what is kept
_LOOKS = 40  # how often the validation split is looked at
_PATIENCE = 14  # looks without a better one before stopping


def fit_network(
    features: Floats,
    target: Floats | Integers,
    validation: Floats,
    validation_target: Floats | Integers,
    start: Linear,
    task: Task,
    seed: int,
) -> Network:
    """Train the probe with AdamW, a cosine schedule and early stopping. Deterministic from the
    seed.

    Args:
        target: (n, k) standardized numbers for regression, (n,) class numbers for classification.
        start: the linear probe of the same target.
    """
    measure: Callable[[Tensor, Tensor], Tensor] = (
        F.mse_loss if task == "regression" else F.cross_entropy
    )
    kind = torch.float32 if task == "regression" else torch.int64
    x, held_x = torch.from_numpy(features), torch.from_numpy(validation)
    t, held_t = torch.from_numpy(target).to(kind), torch.from_numpy(validation_target).to(kind)
    random = torch.Generator().manual_seed(seed)
    batch = 256 if len(x) > _FEW else 128
    steps = min(2_000, max(600, 60 * len(x) // batch))
    network = Network(start, random)
    weights = [network.first, network.second, network.third]
    groups = [
        {"params": weights, "weight_decay": _DECAY * min(1.0, _FEW / len(x))},
        {"params": [*network.biases, network.skip], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=_RATE, fused=True)
    average = network.copy()

    def error() -> float:
        with torch.no_grad():
            return float(measure(average.score(held_x), held_t))

    with one_thread():
        best, best_error, stale = average.copy(), error(), 0
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = (
                    _RATE
                    * min(1.0, (step + 1) / _WARM_UP)
                    * 0.5
                    * (1.0 + math.cos(math.pi * step / steps))
                )
            rows = torch.randint(len(x), (min(batch, len(x)),), generator=random)
            optimizer.zero_grad()
            measure(network.score(x[rows]), t[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            with torch.no_grad():
                torch._foreach_lerp_(average.parameters(), network.parameters(), 1.0 - _MEMORY)
            if (step + 1) % (steps // _LOOKS) == 0:
                now = error()
                stale = 0 if now < best_error else stale + 1
                if now < best_error:
                    best, best_error = average.copy(), now
                if stale >= _PATIENCE:
                    break
    return best


class Network:
    """A linear map with two hidden layers beside it."""

    def __init__(self, start: Linear, random: torch.Generator) -> None:
        inputs, outputs = start.weight.shape
        self.first = _draw(inputs, _WIDTH, random)
        self.second = _draw(_WIDTH, _WIDTH, random)
        self.third = torch.zeros(_WIDTH, outputs, requires_grad=True)
        self.skip = torch.as_tensor(start.weight, dtype=torch.float32).clone().requires_grad_()
        last = torch.as_tensor(start.bias, dtype=torch.float32).clone()
        self.biases = [
            torch.zeros(_WIDTH, requires_grad=True),
            torch.zeros(_WIDTH, requires_grad=True),
            last.requires_grad_(),
        ]

    def score(self, x: Tensor) -> Tensor:
        """The (n, k) predictions or class scores."""
        hidden = torch.addmm(self.biases[0], x, self.first).relu()
        hidden = torch.addmm(self.biases[1], hidden, self.second).relu()
        return torch.addmm(self.biases[2], x, self.skip) + hidden @ self.third

    def __call__(self, features: Floats) -> Floats:
        with torch.no_grad(), one_thread():
            answer: Floats = self.score(torch.from_numpy(features)).numpy()
        return answer

    def copy(self) -> Network:
        """The same network with parameters of its own, for keeping."""
        twin = copy.copy(self)
        twin.first, twin.second, twin.third, twin.skip = (
            p.detach().clone() for p in (self.first, self.second, self.third, self.skip)
        )
        twin.biases = [bias.detach().clone() for bias in self.biases]
        return twin

    def parameters(self) -> list[Tensor]:
        """All parameters, in a fixed order."""
        return [self.first, self.second, self.third, self.skip, *self.biases]


def _draw(inputs: int, outputs: int, random: torch.Generator) -> Tensor:
    """He initialization."""
    return (
        torch.randn(inputs, outputs, generator=random) * math.sqrt(2.0 / inputs)
    ).requires_grad_()
