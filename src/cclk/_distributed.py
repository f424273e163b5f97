"""Gathering of the batches of all processes, with gradients that are exact after the usual
averaging over processes.

DistributedDataParallel averages parameter gradients over the processes. The loss of the joined
batch is the same number on every process, and its gradient reaches each process's own embeddings
multiplied by the number of processes, so that the average is the gradient that one process would
compute on the joined batch.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


def active() -> bool:
    """Whether this is one of several processes."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def sizes(local: int, device: torch.device) -> list[int]:
    """The number of samples of each process."""
    mine = torch.tensor([local], device=device)
    counts = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, mine)
    return [int(count) for count in counts]


def gather(tensor: Tensor, counts: list[int]) -> Tensor:
    """The rows of all processes in the order of their ranks, (sum of counts, ...)."""
    joined: Tensor = _Gather.apply(tensor, counts)  # type: ignore[no-untyped-call]
    return joined


def total(loss: Tensor) -> Tensor:
    """The sum of the loss over processes, with gradients that are to be averaged over processes."""
    joined: Tensor = _Total.apply(loss)  # type: ignore[no-untyped-call]
    return joined


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        # Collectives need equal shapes, so every process pads to the largest count.
        padded = tensor.new_zeros(max(counts), *tensor.shape[1:])
        padded[: len(tensor)] = tensor
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor, None]:
        # Each process receives the gradients of its own rows only, from all others.
        own = ctx.counts[dist.get_rank()]
        parts = incoming.new_empty(len(ctx.counts) * own, *incoming.shape[1:])
        dist.all_to_all_single(
            parts, incoming.contiguous(), [own] * len(ctx.counts), list(ctx.counts)
        )
        return parts.view(len(ctx.counts), own, *incoming.shape[1:]).sum(dim=0), None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss: Tensor) -> Tensor:
        summed = loss.clone()
        dist.all_reduce(summed)
        return summed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> Tensor:
        return incoming * dist.get_world_size()
