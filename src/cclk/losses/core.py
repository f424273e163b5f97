"""The tiled core: every loss is a sum over anchors, computed some anchors at a time, with its
gradient on the way.

For a tile of anchors the scores S = x y^T / temperature are one matrix product. An objective turns
the tile into the anchors' losses and into dL/dS, from which the gradients are two more products. So
nothing of size b^2 is ever stored, every score is exponentiated once, and the backward pass has
nothing left to do but scale. Only reduction="none", whose incoming gradient is unknown beforehand,
computes the tiles again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE_ROWS, FEWEST_ROWS, TILE_SCORES = 256, 64, 2**18
"""Anchors per tile, at most and at least, and its scores: few enough for a tile to stay in cache,
enough for fast matrix products.
"""


@dataclass
class Layout:
    """Which column of the scores is what.

    Columns 0 to samples - 1 are the samples of the joined batch, each in the view opposite to the
    anchor's, then the support; with `within`, `batch` more columns follow: the samples in the
    anchor's own view.
    """

    anchors: int
    first: int
    """The sample number of the first local anchor; 0 unless batches are gathered."""
    batch: int
    support: int
    within: bool
    fixed: bool = False
    """Whether the support has no gradient."""
    samples: int = field(init=False)
    negatives: int = field(init=False)
    """How many columns are neither the anchor itself nor its positive."""

    def __post_init__(self) -> None:
        self.samples = self.batch + self.support
        self.negatives = self.samples + (self.batch - 2 if self.within else -1)

    def learned(self, columns: int) -> list[slice]:
        """Those of the columns that have a gradient."""
        if not (self.fixed and self.support):
            return [slice(0, columns)]
        return [slice(0, self.batch), slice(self.samples, columns)]

    def positive(self, tile: Tensor, start: int, stop: int) -> Tensor:
        """The entries of the anchors' positives, a view of the tile, (stop - start,)."""
        return tile[:, self.first + start : self.first + stop].diagonal()

    def own(self, tile: Tensor, start: int, stop: int) -> Tensor:
        """The entries of the anchors with themselves; only where `within`."""
        begin = self.samples + self.first
        return tile[:, begin + start : begin + stop].diagonal()

    def fill(self, tile: Tensor, start: int, stop: int, value: float) -> Tensor:
        """Overwrite the entries of the positives and of the anchors themselves."""
        self.positive(tile, start, stop).fill_(value)
        if self.within:
            self.own(tile, start, stop).fill_(value)
        return tile


@dataclass
class TileResult:
    """The result of an objective on a tile: the losses, and dL/dS = coefficient * slope, plus
    `positive_grad` at the positive.
    """

    loss: Tensor
    """(rows,)"""
    slope: Tensor
    """(rows, columns); may reuse the memory of the scores."""
    coefficient: Tensor
    """(rows,); kept apart because scaling a product's (rows, d) result is cheaper than scaling
    the slope.
    """
    positive_grad: Tensor | None = None
    """(rows,); None for 0."""
    floor_grad: Tensor | None = None
    """(rows,); dL / d floor, where the floor is -1 / temperature; None for 0."""
    clamped: Tensor | None = None
    """The number of estimates that were raised to the floor, 0-d; None for 0."""

    def times(self, incoming: Tensor) -> TileResult:
        """The result with its gradients weighted by those of the losses, (rows,)."""
        return replace(
            self,
            coefficient=self.coefficient * incoming,
            positive_grad=None if self.positive_grad is None else self.positive_grad * incoming,
            floor_grad=None if self.floor_grad is None else self.floor_grad * incoming,
        )


class Objective(Protocol):
    """An objective, as a function of a tile of scores."""

    layout: Layout

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        """Losses and slopes of anchors start to stop; may overwrite `scores`, (rows, columns)."""


class Sums(NamedTuple):
    """The losses of all anchors, and what was summed over them."""

    losses: Tensor
    """(anchors,)"""
    clamped: Tensor
    """The number of estimates that were raised to the floor, 0-d."""
    gradients: tuple[Tensor, Tensor, Tensor] | None
    """Of anchors, neighbors and the floor."""


Run = Callable[[Tensor, Tensor, float, Tensor | None, bool], Sums]
"""The losses of all anchors from (anchors, neighbors, factor, incoming, grad), and, if `grad`, the
gradients of their sum weighted by `incoming`. Scores are products of both times `factor`.
"""


def run(
    objective: Objective,
    anchors: Tensor,
    neighbors: Tensor,
    factor: float,
    incoming: Tensor | None,
    grad: bool,
) -> Sums:
    """Compute a `Run` from all columns."""
    layout = objective.layout
    columns = neighbors.shape[0]
    size = min(TILE_ROWS, max(1, layout.anchors))  # a process may have none
    if neighbors.device.type == "cpu":
        size = min(size, max(FEWEST_ROWS, TILE_SCORES // columns))
    buffer = neighbors.new_empty(size, columns)
    losses, clamped = [neighbors.new_empty(0)], neighbors.new_zeros(())
    gradients = (
        (torch.empty_like(anchors), torch.zeros_like(neighbors), neighbors.new_zeros(()))
        if grad
        else None
    )
    learned = layout.learned(columns)
    for start in range(0, layout.anchors, size):
        stop = min(start + size, layout.anchors)
        rows = anchors[start:stop] * factor
        scores = torch.mm(rows, neighbors.T, out=buffer[: stop - start])
        result = objective.tile(scores, start, stop)
        losses.append(result.loss)
        if result.clamped is not None:
            clamped += result.clamped
        if gradients is None:
            continue
        of_anchors, of_neighbors, of_floor = gradients
        if incoming is not None:
            result = result.times(incoming[start:stop])
        coefficient, positive_grad = result.coefficient[:, None], result.positive_grad
        local = torch.mm(result.slope, neighbors, out=of_anchors[start:stop])
        local.mul_(coefficient * factor)
        weighted = rows * coefficient
        for part in learned:
            of_neighbors[part].addmm_(result.slope[:, part].T, weighted)
        if positive_grad is not None:
            positives = slice(layout.first + start, layout.first + stop)
            local.addcmul_(neighbors[positives], positive_grad[:, None], value=factor)
            of_neighbors[positives].addcmul_(rows, positive_grad[:, None])
        if result.floor_grad is not None:
            of_floor += result.floor_grad.sum()
    return Sums(torch.cat(losses), clamped, gradients)


class Contrast(torch.autograd.Function):
    """Losses of unit anchors (n, d) against unit neighbors (columns, d): `share` times their sum,
    or one by one if it is None; and the number of clamped estimates.

    Scores are cosines times `factor`. If the temperature is learned, the anchors are already
    divided by it, the factor is 1, and `floor` is -1 / temperature; otherwise `floor` is None.
    """

    @staticmethod
    def forward(
        ctx: Any,
        anchors: Tensor,
        neighbors: Tensor,
        floor: Tensor | None,
        run: Run,
        factor: float,
        share: float | None,
        grad: bool,
    ) -> tuple[Tensor, Tensor]:
        ctx.run, ctx.factor, ctx.share = run, factor, share
        ctx.learns_floor = floor is not None
        losses, clamped, gradients = run(
            anchors, neighbors, factor, None, grad and share is not None
        )
        ctx.mark_non_differentiable(clamped)
        if share is None:
            if grad:
                ctx.save_for_backward(anchors, neighbors)
            return losses, clamped
        if gradients is not None:
            for gradient in gradients:
                gradient.mul_(share)
            ctx.save_for_backward(*gradients)
        return losses.sum() * share, clamped

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.share is None:
            anchors, neighbors = ctx.saved_tensors
            gradients = ctx.run(anchors, neighbors, ctx.factor, incoming, True).gradients
            assert gradients is not None
        else:
            gradients = ctx.saved_tensors
            if not _is_one(incoming):  # `loss.backward()` passes 1: no copies of the gradients then
                gradients = tuple(saved * incoming for saved in gradients)
        of_anchors, of_neighbors, of_floor = gradients
        return of_anchors, of_neighbors, of_floor if ctx.learns_floor else None, *[None] * 4


def _is_one(incoming: Tensor) -> bool:
    """Whether a number is 1; False on a GPU, which would have to wait."""
    try:
        return incoming.device.type == "cpu" and float(incoming) == 1.0
    except RuntimeError:  # `is_grads_batched`: several numbers
        return False
