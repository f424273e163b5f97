"""The input of a loss: checked, scaled to unit length, gathered over processes, and arranged in
one or two directions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cclk import _distributed as distributed
from cclk.condition import Condition, as_condition
from cclk.errors import DataError
from cclk.losses.autograd import AutogradObjective
from cclk.losses.core import Contrast, Layout, Run
from cclk.losses.options import Options, Support

SHORTEST = 1e-15
"""Shorter rows are divided by their largest value before their norm is computed."""


class Direction(NamedTuple):
    """The samples of one view as anchors, those of the other view as their neighbors."""

    anchors: Tensor
    """Unit embeddings of the local anchors, (n, d)."""
    neighbors: Tensor
    """Unit embeddings of all columns, (columns, d)."""


class Batch:
    """A checked batch, and the joined batch of all processes.

    Args:
        x: Embeddings of one view, (b, d).
        y: Embeddings of the other view, (b, d).
        support: Embeddings of further candidates, (q, d), and their condition.
        options: The options of the loss.
        temperature: The temperature; a tensor if it is learned.
        double_from: Compute in float64 if the joined batch has this many samples or more.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        support: Support | None,
        options: Options,
        temperature: float | Tensor,
        double_from: float,
    ) -> None:
        self.options, self.temperature = options, temperature
        self.joins = options.gather_distributed and distributed.active()
        """Whether this is the batch of several processes."""
        if support is not None and not (isinstance(support, tuple) and len(support) == 2):
            raise DataError(
                "support must be a pair (y_extra, condition_extra): embeddings (q, d) and their"
                " condition, q rows"
            )
        self.views, self.support = (x, y), support
        extra = None if support is None else support[0]
        _check_embeddings(x, y, extra, alone=not self.joins)
        self.counts = distributed.sizes(len(x), x.device) if self.joins else [len(x)]
        self.size = sum(self.counts)
        if self.size < 2:
            raise DataError(
                f"x has {self.size} rows over all processes: a contrastive loss needs at least 2"
                " samples"
            )
        self.result_dtype = torch.float64 if torch.float64 in (x.dtype, y.dtype) else torch.float32
        self.dtype = torch.float64 if self.size >= double_from else self.result_dtype
        self.x, self.y = unit(x, "x", self.dtype), unit(y, "y", self.dtype)
        self.extra = None if extra is None else unit(extra, "support[0]", self.dtype)
        self.layout = Layout(
            len(x),
            sum(self.counts[: torch.distributed.get_rank()]) if self.joins else 0,
            self.size,
            0 if extra is None else len(extra),
            options.views == "all",
            fixed=extra is not None and not extra.requires_grad,
        )

    def table(self, condition: object, support: object = None) -> Condition:
        """The condition of the joined batch and its support.

        Args:
            condition: That of the local samples.
            support: That of the support; by default what was passed with it.
        """
        table = as_condition(condition, device=self.x.device)
        if len(table) != len(self.x):
            raise DataError(
                f"condition has {len(table)} rows but x has {len(self.x)}: every sample needs one"
                " row"
            )
        if self.joins:
            joined = distributed.gather(table.values, self.counts)
            table = Condition(joined, table.columns, table.dtype)
        if self.support is None:
            return table
        extra = self.support[1] if support is None else support
        more = as_condition(extra, name="support[1]", device=self.x.device)
        if len(more) != self.layout.support:
            raise DataError(
                f"support[1] has {len(more)} rows but support[0] has {self.layout.support}: each"
                " extra neighbor needs its condition"
            )
        return table.join(more)

    def directions(self) -> list[Direction]:
        """x as anchors, and, if the loss is symmetric, y as anchors too."""
        within, symmetric = self.layout.within, self.options.symmetric
        x, y = self.x, self.y
        if self.joins and (within or symmetric):  # both views in one message
            views = distributed.gather(torch.cat([x, y], dim=1), self.counts)
            x, y = (view.contiguous() for view in torch.split(views, x.shape[1], dim=1))
        elif self.joins:
            y = distributed.gather(y, self.counts)
        directions = []
        for anchors, others, own in ((self.x, y, x), (self.y, x, y))[: 1 + symmetric]:
            extra = [] if self.extra is None else [self.extra]
            columns = [others, *extra, *([own] if within else [])]
            directions.append(
                Direction(anchors, torch.cat(columns) if len(columns) > 1 else others)
            )
        return directions

    def contrast(self, direction: Direction, run: Run | AutogradObjective) -> tuple[Tensor, Tensor]:
        """The loss of the local anchors of one direction, their share of the loss or one by one
        with reduction="none"; and the number of estimates that were raised to their floor.
        """
        anchors, neighbors = direction
        temperature, share = self.temperature, None
        if self.options.reduction != "none":
            samples = self.size if self.options.reduction == "mean" else 1
            share = 1 / ((2 if self.options.symmetric else 1) * samples)
        if isinstance(run, AutogradObjective):
            losses = run.losses(anchors / temperature, neighbors)
            loss = losses if share is None else losses.sum() * share
            return loss, losses.new_zeros(())
        floor = None
        if isinstance(temperature, Tensor):
            anchors, factor = anchors / temperature, 1.0
            if temperature.requires_grad:
                floor = -1 / temperature.to(self.dtype)
        else:
            factor = 1 / temperature
        grad = torch.is_grad_enabled() and (
            anchors.requires_grad or neighbors.requires_grad or floor is not None
        )
        result: tuple[Tensor, Tensor] = Contrast.apply(  # type: ignore[no-untyped-call]
            anchors, neighbors, floor, run, factor, share, grad
        )
        return result

    def reduce(self, losses: Sequence[Tensor]) -> Tensor:
        """The loss of the joined batch from its directions, as the reduction specifies."""
        loss = losses[0] if len(losses) == 1 else losses[0] + losses[1]
        if self.options.reduction == "none":
            loss = loss / len(losses)
        elif self.joins:
            loss = distributed.total(loss)
        return loss.to(self.result_dtype)


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
    least, most = map(float, norms.aminmax()) if len(rows) else (1.0, 1.0)
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
