"""The input of a loss: checked, scaled to unit length, gathered over processes, and arranged in
one or two directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cclk import _distributed as distributed
from cclk.condition import Condition
from cclk.errors import DataError
from cclk.losses import sparse
from cclk.losses.autograd import AutogradObjective
from cclk.losses.contrast import Contrast
from cclk.losses.core import Layout, Objective
from cclk.losses.options import Options

SHORTEST = 1e-15
"""Shorter rows are divided by their largest value before their norm is computed."""


class Direction(NamedTuple):
    """The samples of one view as anchors, those of the other view as their neighbors."""

    anchors: Tensor
    """Unit embeddings of the local anchors, (n, d)."""
    neighbors: Tensor
    """Unit embeddings of all columns, (columns, d)."""
    layout: Layout


class Batch:
    """A checked batch: its rows, the anchors among them, and the joined batch of all processes.

    Args:
        x: Embeddings of one view, (b, d).
        y: Embeddings of the other view, (b, d).
        support: Embeddings of further candidates, (q, d).
        options: The options of the loss.
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
        self.several = options.gather_distributed and distributed.active()
        """Whether this is the batch of several processes."""
        _check_embeddings(x, y, support, alone=not self.several)
        self.result_dtype = torch.float64 if torch.float64 in (x.dtype, y.dtype) else torch.float32
        self.dtype = torch.float64 if precise else self.result_dtype
        self.device = x.device
        self.rows = len(x)
        self.x, self.y = unit(x, "x", self.dtype), unit(y, "y", self.dtype)
        self.support = None if support is None else unit(support, "support[0]", self.dtype)
        self.counts = [self.rows]
        if self.several:
            self.counts = distributed.sizes(self.rows, x.device)
        self.size = sum(self.counts)
        if self.size < 2:
            raise DataError(
                f"x has {self.size} rows over all processes: a contrastive loss needs at least 2"
                " samples"
            )
        rank = torch.distributed.get_rank() if self.several else 0
        self.first, self.local = sum(self.counts[:rank]), self.counts[rank]

    def join(self, local: Tensor) -> Tensor:
        """The rows of all processes."""
        return distributed.gather(local, self.counts) if self.several else local

    def join_condition(self, condition: Condition) -> Condition:
        """The condition of the joined batch from that of the rows of this process."""
        if not self.several:
            return condition
        return Condition(self.join(condition.values), condition.columns, condition.dtype)

    def directions(self) -> list[Direction]:
        """x as anchors, and, if the loss is symmetric, y as anchors too."""
        within, symmetric = self.options.views == "all", self.options.symmetric
        support = [] if self.support is None else [self.support]
        layout = Layout(
            self.local,
            self.first,
            self.size,
            sum(map(len, support)),
            within,
            fixed=not any(part.requires_grad for part in support),
        )
        x, y = self.x, self.y
        if self.several and (within or symmetric):  # both views in one message
            views = self.join(torch.cat([x, y], dim=1))
            x, y = (view.contiguous() for view in torch.split(views, x.shape[1], dim=1))
        elif self.several:
            y = self.join(y)
        directions = [Direction(self.x, _cat([y, *support, *([x] if within else [])]), layout)]
        if symmetric:
            directions.append(
                Direction(self.y, _cat([x, *support, *([y] if within else [])]), layout)
            )
        return directions

    def without_autocast(self) -> AbstractContextManager[object]:
        """Keep matrix products in the dtype of the batch."""
        device = self.device.type
        return (
            torch.autocast(device, enabled=False)
            if torch.is_autocast_enabled(device)
            else nullcontext()
        )

    def contrast(self, direction: Direction, objective: Objective | AutogradObjective) -> Tensor:
        """The loss of the local anchors of one direction: their share of the loss, or one by one
        with reduction="none".
        """
        anchors, neighbors, _ = direction
        learned, share = self.options.learned, self._share()
        if isinstance(objective, AutogradObjective):
            temperature = self.options.scale if learned is None else learned
            losses = objective.losses(anchors / temperature, neighbors)
            return losses if share is None else losses.sum() * share
        floor, factor = None, 1 / self.options.scale
        if learned is not None:
            anchors, factor = anchors / learned, 1.0
            if learned.requires_grad:
                floor = -1 / learned.to(self.dtype)
        grad = torch.is_grad_enabled() and (
            anchors.requires_grad or neighbors.requires_grad or floor is not None
        )
        result: Tensor = Contrast.apply(  # type: ignore[no-untyped-call]
            anchors, neighbors, floor, objective, factor, share, grad
        )
        return result

    def _share(self) -> float | None:
        """The factor of the loss of an anchor in the loss of the batch; None for one by one."""
        if self.options.reduction == "none":
            return None
        samples = self.size if self.options.reduction == "mean" else 1
        return 1 / ((2 if self.options.symmetric else 1) * samples)

    def reduce(self, shares: list[Tensor]) -> Tensor:
        """The loss of the joined batch from its directions, as the reduction specifies."""
        loss = shares[0] if len(shares) == 1 else shares[0] + shares[1]
        if self.options.reduction == "none":
            loss = loss / len(shares)
        if self.several and self.options.reduction != "none":
            loss = distributed.total(loss)
        return loss.to(self.result_dtype)

    def loss(self, make: Callable[[Layout], Objective]) -> Tensor:
        """The loss of an objective without a kernel."""
        with self.without_autocast():
            directions = self.directions()
            objectives = [make(each.layout) for each in directions]
            sparse.prepare(objectives, self.dtype)
            return self.reduce(list(map(self.contrast, directions, objectives)))


def _cat(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _check_embeddings(x: Tensor, y: Tensor, support: Tensor | None, alone: bool) -> None:
    for name, tensor in (("x", x), ("y", y), ("support[0]", support)):
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise DataError(
                f"{name} is a {type(tensor).__name__}: embeddings must be a torch tensor of shape"
                " (b, d)"
            )
        if tensor.ndim != 2 or tensor.shape[1] == 0:
            raise DataError(
                f"{name} has shape {tuple(tensor.shape)}: embeddings must have shape (b, d)"
            )
        if not tensor.is_floating_point():
            raise DataError(f"{name} has dtype {tensor.dtype}: embeddings must be floating point")
        if tensor.device != x.device:
            raise DataError(
                f"{name} is on {tensor.device} but x is on {x.device}: move them to one device"
            )
        if tensor.shape[1] != x.shape[1]:
            raise DataError(
                f"{name} has width {tensor.shape[1]} but x has {x.shape[1]}: both views need the"
                " same width"
            )
    if x.device.type == "mps":
        raise DataError(
            "x is on mps, which has no float64: move embeddings and condition to the CPU for the"
            " loss, loss(x.cpu(), y.cpu(), ...)"
        )
    if len(y) != len(x):
        raise DataError(
            f"y has {len(y)} rows but x has {len(x)}: row i of both must be views of the same"
            " sample"
        )
    if alone and len(x) < 2:
        last = (
            "; if this is the last batch of an epoch, pass drop_last=True to the DataLoader"
            if len(x) == 1
            else ""
        )
        raise DataError(f"x has {len(x)} rows: a contrastive loss needs at least 2 samples{last}")


def unit(x: Tensor, name: str, dtype: torch.dtype) -> Tensor:
    """Scale rows to unit length in a dtype, and check that they are finite."""
    rows, scale = x.detach().to(dtype), None
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    least, most = (float(norm) for norm in norms.aminmax()) if len(rows) else (1.0, 1.0)
    if not (least >= SHORTEST and most < math.inf):
        # Either a value is NaN or infinite, or the squares of values overflow or underflow.
        bad = ~rows.isfinite()
        if bad.any():
            row = int(bad.any(dim=1).nonzero()[0])
            raise DataError(
                f"{name} has {int(bad.sum())} values that are NaN or infinite, the first in row"
                f" {row}: lower the learning rate if the network has diverged, or check its input"
            )
        largest = rows.abs().amax(dim=1, keepdim=True)
        ordinary = (norms >= SHORTEST) & norms.isfinite() | (largest == 0)
        scale = largest.where(~ordinary, 1.0)
        rows = rows / scale
        norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    result: Tensor = _Unit.apply(x, rows, norms, scale)  # type: ignore[no-untyped-call]
    return result


class _Unit(torch.autograd.Function):
    """x / |x| from rows = x / scale and their norms; a row of zeros stays, with gradient 0.

    The gradient is finite: where it exceeds half the largest number of the dtype of x, or of
    float32, it is that half: the gradients of both views add up if they are x and x, or x.double().
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, norms: Tensor, scale: Tensor | None) -> Tensor:
        inverse = norms.reciprocal().masked_fill_(norms == 0, 0.0)
        unit = rows * inverse
        ctx.save_for_backward(unit, inverse, scale)
        ctx.dtype = x.dtype
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor, None, None, None]:
        unit, inverse, scale = ctx.saved_tensors
        along = (incoming * unit).sum(dim=1, keepdim=True)
        gradient = torch.addcmul(incoming, unit, along, value=-1).mul_(inverse)
        if scale is not None:
            gradient.div_(scale)
        if scale is not None or ctx.dtype == torch.float16:
            largest = min(torch.finfo(ctx.dtype).max, torch.finfo(torch.float32).max) / 2
            gradient.clamp_(-largest, largest)
        return gradient.to(ctx.dtype), None, None, None
