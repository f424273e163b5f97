"""Optimizers by name, LARS, and the learning rate as a function of the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

OPTIMIZERS = ("lars", "adam", "adamw", "sgd")

# The batch size at which the base learning rate holds.
BASE_BATCH = 256


class LARS(Optimizer):
    r"""Layer-wise adaptive rates (You et al. 2017), the learning rate inside the momentum buffer:

    .. math:: v \leftarrow \mu v + \mathrm{lr}\, \lambda\, (g + \beta w), \quad w \leftarrow w - v,
    \quad
              \lambda = \eta \frac{|w|}{|g| + \beta |w|}

    A change of the learning rate thus acts on the new gradient only, not on what the buffer has
    gathered. Parameters with at most one dimension (biases, norm layers) have :math:`\lambda = 1`
    and no decay; :math:`\lambda` is 1 as well where it would be 0 or 0 / 0.
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
            weights = [p for p in group["params"] if p.grad is not None]
            adapted = [p for p in weights if p.dim() > 1]
            plain = [p for p in weights if p.dim() <= 1]
            if adapted:
                self._update(adapted, self._adapted_steps(adapted, group), group["momentum"])
            if plain:
                self._update(
                    plain,
                    torch._foreach_mul([p.grad for p in plain], group["lr"]),
                    group["momentum"],
                )
        return loss

    @staticmethod
    def _adapted_steps(weights: list[Tensor], group: dict[str, Any]) -> tuple[Tensor, ...]:
        gradients = [p.grad for p in weights if p.grad is not None]
        size, slope = (
            torch.stack(torch._foreach_norm(weights)),
            torch.stack(torch._foreach_norm(gradients)),
        )
        below = slope + group["weight_decay"] * size
        trust = torch.where(
            (size > 0) & (below > 0), group["trust_coefficient"] * size / below, 1.0
        )
        steps = torch._foreach_add(gradients, weights, alpha=group["weight_decay"])
        torch._foreach_mul_(steps, (group["lr"] * trust).unbind())
        return steps

    def _update(self, weights: list[Tensor], steps: tuple[Tensor, ...], momentum: float) -> None:
        buffers = []
        for weight in weights:
            if "momentum_buffer" not in self.state[weight]:
                self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
            buffers.append(self.state[weight]["momentum_buffer"])
        torch._foreach_mul_(buffers, momentum)
        torch._foreach_add_(buffers, steps)
        torch._foreach_sub_(weights, buffers)


def build_optimizer(
    name: str,
    parameters: nn.Module | Iterable[Tensor],
    lr: float,
    *,
    weight_decay: float = 0.0,
    momentum: float = 0.9,
) -> Optimizer:
    """The optimizer of that name; biases and norm layers (at most one dimension) are never decayed.

    `momentum` serves "lars" and "sgd". Adam's decay is added to the gradient, AdamW's is not.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {name!r}: choose one of {', '.join(OPTIMIZERS)}")
    if not 0 <= lr < math.inf:
        raise ValueError(f"lr is {lr}: a learning rate is 0 or more")
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay is {weight_decay}: it is 0 or more")
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum is {momentum}: it is at least 0 and less than 1")
    every = [
        p
        for p in (parameters.parameters() if isinstance(parameters, nn.Module) else parameters)
        if p.requires_grad
    ]
    split = (
        ([p for p in every if p.dim() > 1], weight_decay),
        (
            [p for p in every if p.dim() <= 1],
            0.0,
        ),
    )
    groups = [{"params": members, "weight_decay": decay} for members, decay in split if members]
    if not groups:
        raise ValueError("there is nothing to train: no parameter requires a gradient")
    match name:
        case "lars":
            return LARS(groups, lr, momentum=momentum)
        case "adam":
            return Adam(groups, lr, fused=True)
        case "adamw":
            return AdamW(groups, lr, fused=True)
    return SGD(groups, lr, momentum=momentum, fused=True)


def learning_rate(
    step: int,
    total: int,
    *,
    base_lr: float,
    batch_size: int = BASE_BATCH,
    warmup_steps: int = 0,
    scale_by_batch: bool = True,
) -> float:
    """The learning rate of step 0, 1, .. total - 1: a linear ramp over `warmup_steps`, then half
    a cosine down to 0.

    With `scale_by_batch`, `base_lr` is that of a batch of 256 and grows in proportion to the batch.

    >>> [round(learning_rate(step, 6, base_lr=1.0, warmup_steps=2), 3) for step in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if step < 0 or warmup_steps < 0 or total < 1:
        raise ValueError(
            f"step {step}, total {total}, warmup_steps {warmup_steps}: steps begin at 0 and a run"
            " has at least one"
        )
    peak = base_lr * batch_size / BASE_BATCH if scale_by_batch else base_lr
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    done = min(1.0, (step - warmup_steps) / max(1, total - warmup_steps))
    return peak * 0.5 * (1 + math.cos(math.pi * done))
