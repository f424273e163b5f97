"""From what the caller passes to what the core takes: checks, unit length, other processes'
samples, the two directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cclk.condition import Condition
from cclk.losses import distributed
from cclk.losses.core import Contrast, Layout, Objective
from cclk.losses.options import Options


@dataclass(frozen=True)
class Direction:
    """One view's samples as anchors, the other view's as their neighbors."""

    anchors: Tensor
    """Unit embeddings of the local anchors, (n, d)."""
    neighbors: Tensor
    """Unit embeddings of all columns, (columns, d)."""
    layout: Layout
    swapped: bool
    """False where x is the anchor, True where y is."""


class Batch:
    """A checked batch: the local embeddings, and the joined batch of all processes.

    Args:
        precise: Compute in float64, whatever the dtype of the embeddings.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        support: Tensor | None,
        options: Options,
        *,
        precise: bool = False,
    ) -> None:
        self.options = options
        self.joins = options.gather_distributed and distributed.active()
        _check_embeddings(x, y, support, alone=not self.joins)
        self.result_dtype = torch.float64 if torch.float64 in (x.dtype, y.dtype) else torch.float32
        self.dtype = torch.float64 if precise else self.result_dtype
        self.device = x.device
        self.local = len(x)
        self.x, self.y = unit(x, "x", self.dtype), unit(y, "y", self.dtype)
        self.support = None if support is None else unit(support, "support[0]", self.dtype)
        self.counts = distributed.sizes(self.local, x.device) if self.joins else [self.local]
        self.size = sum(self.counts)
        if self.size < 2:
            raise ValueError(
                f"x has {self.size} rows over all processes: a contrastive loss needs at least 2"
                " samples"
            )
        self.first = sum(self.counts[: torch.distributed.get_rank()]) if self.joins else 0

    def join(self, local: Tensor) -> Tensor:
        """A tensor with a row per local sample, joined over all processes."""
        return distributed.gather(local, self.counts) if self.joins else local

    def join_condition(self, condition: Condition) -> Condition:
        """The condition of the joined batch."""
        if not self.joins:
            return condition
        return Condition(self.join(condition.values), condition.columns, condition.dtype)

    def directions(self) -> Iterator[Direction]:
        """x as anchors, and, if the loss is symmetric, y as anchors too."""
        options = self.options
        within = options.views == "all"
        support = 0 if self.support is None else len(self.support)
        layout = Layout(self.local, self.first, self.size, support, within)
        all_y = self.join(self.y)
        all_x = self.join(self.x) if within or options.symmetric else None
        yield Direction(self.x, self._columns(all_y, all_x), layout, swapped=False)
        if options.symmetric:
            assert all_x is not None
            yield Direction(self.y, self._columns(all_x, all_y), layout, swapped=True)

    def _columns(self, across: Tensor, within: Tensor | None) -> Tensor:
        parts = [across]
        if self.support is not None:
            parts.append(self.support)
        if self.options.views == "all" and within is not None:
            parts.append(within)
        return torch.cat(parts) if len(parts) > 1 else across

    def without_autocast(self) -> AbstractContextManager[object]:
        """Matrix products inside run in the dtype of the batch."""
        device = self.device.type
        return (
            torch.autocast(device, enabled=False)
            if torch.is_autocast_enabled(device)
            else nullcontext()
        )

    def contrast(self, direction: Direction, objective: Objective) -> Tensor:
        """The loss of the local anchors of one direction: their sum, or one by one with
        reduction="none".
        """
        temperature = self.options.temperature
        learned = isinstance(temperature, Tensor) and temperature.requires_grad
        grad = torch.is_grad_enabled() and (
            direction.anchors.requires_grad or direction.neighbors.requires_grad or learned
        )
        floor = (
            -1 / temperature.to(self.dtype) if isinstance(temperature, Tensor) and learned else None
        )
        scaled = direction.anchors / temperature
        share: Tensor = Contrast.apply(  # type: ignore[no-untyped-call]
            scaled, direction.neighbors, floor, objective, self.options.reduction != "none", grad
        )
        return share

    def reduce(self, shares: list[Tensor]) -> Tensor:
        """The loss of the joined batch from its directions: the mean over anchors, or as
        `reduction` says.
        """
        loss = shares[0] if len(shares) == 1 else (shares[0] + shares[1]) / 2
        if self.options.reduction == "mean":
            loss = loss / self.size
        if self.joins and self.options.reduction != "none":
            loss = distributed.total(loss)
        return loss.to(self.result_dtype)


def _check_embeddings(x: Tensor, y: Tensor, support: Tensor | None, alone: bool) -> None:
    for name, tensor in (("x", x), ("y", y), ("support[0]", support)):
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise ValueError(
                f"{name} is a {type(tensor).__name__}: embeddings must be a torch tensor of shape"
                " (b, d)"
            )
        if tensor.ndim != 2 or tensor.shape[1] == 0:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}: embeddings must have shape (b, d)"
            )
        if not tensor.is_floating_point():
            raise ValueError(f"{name} has dtype {tensor.dtype}: embeddings must be floating point")
        if tensor.device != x.device:
            raise ValueError(
                f"{name} is on {tensor.device} but x is on {x.device}: move them to one device"
            )
        if tensor.shape[1] != x.shape[1]:
            raise ValueError(
                f"{name} has width {tensor.shape[1]} but x has {x.shape[1]}: both views need the"
                " same width"
            )
    if x.device.type == "mps":
        raise ValueError(
            "x is on mps, which has no float64: move embeddings and condition to the CPU for the"
            " loss, loss(x.cpu(), y.cpu(), ...)"
        )
    if len(y) != len(x):
        raise ValueError(
            f"y has {len(y)} rows but x has {len(x)}: row i of both must be views of the same"
            " sample"
        )
    if alone and len(x) < 2:
        last = (
            "; if this is the last batch of an epoch, pass drop_last=True to the DataLoader"
            if len(x) == 1
            else ""
        )
        raise ValueError(f"x has {len(x)} rows: a contrastive loss needs at least 2 samples{last}")


def unit(x: Tensor, name: str, dtype: torch.dtype) -> Tensor:
    """Rows of length 1, checked to be finite."""
    converted = x.to(dtype)
    norms = torch.linalg.vector_norm(converted.detach(), dim=1, keepdim=True)
    if not math.isfinite(float(norms.sum())):
        # Either a bad value, or good ones so large that their squares overflow.
        bad = ~converted.detach().isfinite()
        if bad.any():
            row = int(bad.any(dim=1).nonzero()[0])
            raise ValueError(
                f"{name} has {int(bad.sum())} values that are NaN or infinite, the first in row"
                f" {row}: the network has diverged, or its input is bad"
            )
        converted = converted / converted.detach().abs().amax(dim=1, keepdim=True).clamp_min(1.0)
        norms = torch.linalg.vector_norm(converted.detach(), dim=1, keepdim=True)
    result: Tensor = _Unit.apply(converted, norms)  # type: ignore[no-untyped-call]
    return result


class _Unit(torch.autograd.Function):
    """x / |x|; a row of zeros stays, with gradient 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, norms: Tensor) -> Tensor:
        inverse = norms.reciprocal().masked_fill_(norms < 1e-30, 0.0)
        unit = x * inverse
        ctx.save_for_backward(unit, inverse)
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor, None]:
        unit, inverse = ctx.saved_tensors
        along = (incoming * unit).sum(dim=1, keepdim=True)
        return torch.addcmul(incoming, unit, along, value=-1).mul_(inverse), None
