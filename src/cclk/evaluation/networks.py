"""Networks of the panel: two hidden layers, trained until the validation error stops falling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from cclk.evaluation.feature_splits import Floats

_WIDTH = 256
_DECAY = 1e-2  # AdamW
_WARMUP = 50  # steps
_MOMENTUM = 0.99  # of the running average of the parameters, which is evaluated and kept
_EPOCHS = 40
_STEPS = (160, 1_600)  # at least and at most
_EVALUATIONS = 40  # on the validation split
_PATIENCE = 8  # evaluations without improvement before stopping


class Probe(Protocol):
    """A network with a list of parameters."""

    @property
    def parameters(self) -> list[Tensor]: ...
    def score(self, x: Tensor) -> Tensor: ...
    def copy(self) -> Self: ...


Fitted = TypeVar("Fitted", bound=Probe)


@dataclass(frozen=True)
class Network:
    """Weights and biases of two hidden layers of ReLU units and a linear output."""

    parameters: list[Tensor]

    @classmethod
    def start(cls, inputs: int, outputs: int, random: torch.Generator) -> Network:
        """Return a network with random weights."""
        parameters = []
        for rows, columns in ((inputs, _WIDTH), (_WIDTH, _WIDTH), (_WIDTH, outputs)):
            weight = torch.randn(rows, columns, generator=random) * math.sqrt(2.0 / rows)
            parameters += [weight.requires_grad_(), torch.zeros(columns, requires_grad=True)]
        return cls(parameters)

    def score(self, x: Tensor) -> Tensor:
        """Return the (n, k) predictions."""
        first, first_bias, second, second_bias, third, third_bias = self.parameters
        hidden = torch.addmm(first_bias, x, first).relu()
        hidden = torch.addmm(second_bias, hidden, second).relu()
        return torch.addmm(third_bias, hidden, third)

    @torch.no_grad()
    def __call__(self, features: Floats) -> Floats:
        predictions: Floats = self.score(torch.from_numpy(features)).numpy()
        return predictions

    def copy(self) -> Network:
        """Return a detached copy."""
        return Network([parameter.detach().clone() for parameter in self.parameters])


@torch.inference_mode(False)
@torch.enable_grad()  # features are often computed and measured in one block without gradients
def fit_network(
    features: Floats,
    target: Floats,
    validation: Floats,
    validation_target: Floats,
    rate: float,
    seed: int,
) -> Network:
    """Minimize the squared error with AdamW and a cosine schedule; deterministic.

    Args:
        features: (n, d) float32, of variance 1.
        target: (n, k).
        validation: features of the validation split, which decide when to stop.
        validation_target: their targets.
        rate: the largest learning rate.
        seed: seed of the initialization and the batches.
    """
    x, held = torch.from_numpy(features), torch.from_numpy(validation)
    t, held_t = torch.from_numpy(target).float(), torch.from_numpy(validation_target).float()
    random = torch.Generator().manual_seed(seed)
    batch = min(256, max(16, len(x) // 8))
    steps = min(_STEPS[1], max(_STEPS[0], _EPOCHS * len(x) // batch))
    network = Network.start(x.shape[1], t.shape[1], random)
    decays = [(network.parameters[::2], _DECAY), (network.parameters[1::2], 0.0)]
    return descend(
        network, decays, (x, t), (held, held_t), rate, steps, batch, random,
        momentum=_MOMENTUM, patience=_PATIENCE,
    )  # fmt: skip


def descend(
    network: Fitted,
    decays: list[tuple[list[Tensor], float]],
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    rate: float,
    steps: int,
    batch: int,
    random: torch.Generator,
    *,
    momentum: float,
    patience: int,
    start: bool = False,
) -> Fitted:
    """Minimize the squared error of a network, and return the best running average of it.

    Args:
        network: The network at its start; its parameters change.
        decays: Its parameters, in groups, and the weight decay of each group.
        train: Features and targets.
        validation: Features and targets, which decide when to stop and what to return.
        rate: The largest learning rate, after a warmup and before a cosine.
        steps: The largest number of steps.
        batch: Samples per step.
        random: Draws the batches.
        momentum: Of the running average of the parameters.
        patience: Evaluations without improvement before stopping.
        start: Whether the network at its start may be returned.
    """
    x, t = train
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in decays]
    optimizer = torch.optim.AdamW(groups, lr=rate, fused=True)
    average = network.copy()

    @torch.no_grad()
    def error() -> float:
        return float(F.mse_loss(average.score(validation[0]), validation[1]))

    best, best_error, stale = average.copy(), error() if start else math.inf, 0
    for step in range(steps):
        ramp = min(1.0, (step + 1) / _WARMUP)
        for group in optimizer.param_groups:
            group["lr"] = rate * ramp * 0.5 * (1.0 + math.cos(math.pi * step / steps))
        rows = torch.randint(len(x), (min(batch, len(x)),), generator=random)
        optimizer.zero_grad()
        F.mse_loss(network.score(x[rows]), t[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(average.parameters, network.parameters, 1.0 - momentum)
        if (step + 1) % (steps // _EVALUATIONS) == 0:
            now = error()
            stale = 0 if now < best_error else stale + 1
            if now < best_error:
                best, best_error = average.copy(), now
            if stale >= patience:
                break
    return best
