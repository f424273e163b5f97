"""Optimizers by name or import path, LARS, and the learning rate as a function of the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cclk.errors import SettingsError
from cclk.registry import OPTIMIZERS

BASE_BATCH = 256
"""The batch size to which the base learning rate applies."""


class LARS(Optimizer):
    r"""Layer-wise adaptive rate scaling, with the learning rate inside the momentum buffer.

    .. math:: v \leftarrow \mu v + \mathrm{lr}\, \lambda\, (g + \beta w), \quad
              w \leftarrow w - v, \quad \lambda = \eta \frac{|w|}{|g| + \beta |w|}

    A change of the learning rate therefore acts on the new gradient only, not on the gradients in
    the buffer. Parameters with at most one dimension (biases, norm layers) have
    :math:`\lambda = 1` and no decay; :math:`\lambda` is also 1 where it would be 0 or 0 / 0.

    Args:
        params: Parameters, or groups of them.
        lr: Learning rate.
        momentum: :math:`\mu`.
        weight_decay: :math:`\beta`.
        trust_coefficient: :math:`\eta`.

    Reference:
        You et al., Large Batch Training of Convolutional Networks, 2017.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 1e-3,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "weight_decay": weight_decay,
                "trust_coefficient": trust_coefficient,
            },
        )

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)
        return loss

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        step = gradient
        rate: Tensor | float = group["lr"]
        if weight.dim() > 1:
            step = gradient.add(weight, alpha=group["weight_decay"])
            size = weight.norm()
            below = gradient.norm() + group["weight_decay"] * size
            trust = group["trust_coefficient"] * size / below
            rate = rate * torch.where((size > 0) & (below > 0), trust, 1.0)
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        weight.sub_(state["momentum_buffer"].mul_(group["momentum"]).add_(step * rate))


def build_optimizer(
    name: str,
    parameters: nn.Module | Iterable[Tensor],
    lr: float,
    *,
    weight_decay: float = 0.0,
    momentum: float = 0.9,
) -> Optimizer:
    """Build an optimizer.

    Adam adds the decay to the gradient, AdamW does not. An import path "package.module:Optimizer"
    is called as `Optimizer(params=groups, lr=lr)`, and with `momentum` and `fused=True` if it has
    parameters of these names.

    Args:
        name: Name or import path of the optimizer.
        parameters: A module, or its parameters.
        lr: Learning rate.
        weight_decay: Decay of parameters with two dimensions or more; biases and norm layers are
            not decayed.
        momentum: Momentum of the optimizers that have it ("lars" and "sgd").
    """
    for option, value, limit in (
        ("lr", lr, math.inf),
        ("weight_decay", weight_decay, math.inf),
        ("momentum", momentum, 1),
    ):
        if not 0 <= value < limit:
            raise SettingsError(f"{option} is {value}: it must be at least 0 and less than {limit}")
    if isinstance(parameters, nn.Module):
        parameters = parameters.parameters()
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    split = (
        ([parameter for parameter in trained if parameter.dim() > 1], weight_decay),
        ([parameter for parameter in trained if parameter.dim() <= 1], 0.0),
    )
    groups = [{"params": members, "weight_decay": decay} for members, decay in split if members]
    if not groups:
        raise SettingsError("there is nothing to train: no parameter requires a gradient")
    arguments = {"params": groups, "lr": lr, "momentum": momentum, "fused": True}
    optimizer = OPTIMIZERS.create(name, arguments)
    if not isinstance(optimizer, Optimizer):
        raise SettingsError(
            f"the optimizer {name!r} is a {type(optimizer).__name__}: it must be a"
            " torch.optim.Optimizer"
        )
    return optimizer


def learning_rate(
    step: int,
    total: int,
    *,
    base_lr: float,
    batch_size: int = BASE_BATCH,
    warmup_steps: int = 0,
    scale_by_batch: bool = True,
) -> float:
    """Return the learning rate of a step: a linear warmup, then half a cosine down to 0.

    Args:
        step: Number of the step, from 0.
        total: Number of steps of the run.
        base_lr: Highest learning rate.
        batch_size: Samples per step.
        warmup_steps: Number of steps of the warmup.
        scale_by_batch: Multiply `base_lr` by batch_size / 256.

    Example:
        >>> [round(learning_rate(step, 6, base_lr=1.0, warmup_steps=2), 3) for step in range(7)]
        [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if step < 0 or warmup_steps < 0 or total < 1:
        raise ValueError(
            f"step {step}, total {total}, warmup_steps {warmup_steps}: steps start at 0, and a run"
            " has at least one"
        )
    peak = base_lr * batch_size / BASE_BATCH if scale_by_batch else base_lr
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    done = min(1.0, (step - warmup_steps) / max(1, total - warmup_steps))
    return peak * 0.5 * (1 + math.cos(math.pi * done))
