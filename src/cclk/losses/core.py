"""The tiled core: every loss is a sum over anchors, computed some anchors at a time, with its
gradient on the way.

For a tile of anchors the scores S = x y^T / temperature are one matrix product. An objective turns
the tile into the anchors' losses and into dL/dS, from which the gradients are two more products. So
nothing of size b^2 is ever stored, every score is exponentiated once, and the backward pass has
nothing left to do but scale. Only reduction="none", whose incoming gradient is unknown beforehand,
computes the tiles again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

TILE_ROWS, FEWEST_ROWS, TILE_SCORES = 256, 64, 2**18
"""Anchors per tile, at most and at least, and its scores: few enough for a tile to stay in cache,
enough for fast matrix products.
"""
LARGEST_UNSHIFTED = {torch.float32: 30.0, torch.float64: 300.0}
"""Scores up to this size can be exponentiated as they are; larger ones after subtracting their
row's largest.
"""


Gradients = tuple[Tensor, Tensor, Tensor]
"""Of anchors, neighbors and the floor."""


@dataclass(frozen=True)
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

    @property
    def samples(self) -> int:
        return self.batch + self.support

    @property
    def columns(self) -> int:
        return self.samples + (self.batch if self.within else 0)

    @property
    def negatives(self) -> int:
        """How many columns are neither the anchor itself nor its positive."""
        return self.columns - (2 if self.within else 1)

    def learned(self) -> list[slice]:
        """Columns that have a gradient."""
        if not (self.fixed and self.support):
            return [slice(0, self.columns)]
        within = [slice(self.samples, self.columns)] if self.within else []
        return [slice(0, self.batch), *within]

    def positive(self, tile: Tensor, start: int, stop: int) -> Tensor:
        """The entries of the anchors' positives, a view of the tile, (stop - start,)."""
        return tile[:, self.first + start : self.first + stop].diagonal()

    def own(self, tile: Tensor, start: int, stop: int) -> Tensor:
        """The entries of the anchors with themselves; only where `within`."""
        begin = self.samples + self.first
        return tile[:, begin + start : begin + stop].diagonal()

    def fill(self, tile: Tensor, start: int, stop: int, value: float) -> None:
        """Overwrite the entries of the positives and of the anchors themselves."""
        self.positive(tile, start, stop).fill_(value)
        if self.within:
            self.own(tile, start, stop).fill_(value)


@dataclass
class TileResult:
    """The result of an objective on a tile: the losses, and dL/dS = coefficient * slope + pull
    at the positive.
    """

    loss: Tensor
    """(rows,)"""
    slope: Tensor
    """(rows, columns); may reuse the memory of the scores."""
    coefficient: Tensor
    """(rows,); kept apart because scaling a product's (rows, d) result is cheaper than scaling
    the slope.
    """
    pull: Tensor | None = None
    """(rows,); None for 0."""
    of_floor: Tensor | None = None
    """(rows,); dL / d floor, where the floor is -1 / temperature; None for 0."""

    def times(self, incoming: Tensor | None) -> TileResult:
        """The result with its gradients weighted by those of the losses, (rows,); None for 1."""
        if incoming is None:
            return self
        return replace(
            self,
            coefficient=self.coefficient * incoming,
            pull=None if self.pull is None else self.pull * incoming,
            of_floor=None if self.of_floor is None else self.of_floor * incoming,
        )


class Objective(Protocol):
    """An objective, as a function of a tile of scores."""

    layout: Layout

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        """Losses and slopes of anchors start to stop; may overwrite `scores`, (rows, columns)."""


def run(
    anchors: Tensor,
    neighbors: Tensor,
    objective: Objective,
    factor: float,
    incoming: Tensor | None,
    grad: bool,
) -> tuple[Tensor, Gradients | None]:
    """The losses of all anchors, and, if `grad`, the gradients of their sum (weighted by
    `incoming`). Scores are the products of anchors and neighbors times `factor`.
    """
    layout = objective.layout
    columns = neighbors.shape[0]
    size = min(TILE_ROWS, max(1, layout.anchors))  # a process may have none
    if neighbors.device.type == "cpu":
        size = min(size, max(FEWEST_ROWS, TILE_SCORES // columns))
    buffer = neighbors.new_empty(size, columns)
    losses = []
    gradients = (
        (torch.empty_like(anchors), torch.zeros_like(neighbors), neighbors.new_zeros(()))
        if grad
        else None
    )
    learned = layout.learned()
    for start in range(0, layout.anchors, size):
        stop = min(start + size, layout.anchors)
        rows = anchors[start:stop] * factor
        scores = torch.mm(rows, neighbors.T, out=buffer[: stop - start])
        result = objective.tile(scores, start, stop)
        losses.append(result.loss)
        if gradients is None:
            continue
        of_anchors, of_neighbors, of_floor = gradients
        result = result.times(None if incoming is None else incoming[start:stop])
        coefficient, pull, floored = result.coefficient[:, None], result.pull, result.of_floor
        local = torch.mm(result.slope, neighbors, out=of_anchors[start:stop])
        local.mul_(coefficient * factor)
        weighted = rows * coefficient
        for part in learned:
            of_neighbors[part].addmm_(result.slope[:, part].T, weighted)
        if pull is not None:
            positives = slice(layout.first + start, layout.first + stop)
            local.addcmul_(neighbors[positives], pull[:, None], value=factor)
            of_neighbors[positives].addcmul_(rows, pull[:, None])
        if floored is not None:
            of_floor += floored.sum()
    return torch.cat([neighbors.new_empty(0), *losses]), gradients


def in_range(dtype: torch.dtype, temperature: float) -> bool:
    """Whether any score at this temperature can be exponentiated as it is."""
    return 1 / temperature <= LARGEST_UNSHIFTED[dtype]


def exponentiate(scores: Tensor, temperature: float) -> tuple[Tensor, Tensor | None]:
    """exp(scores - shift), which overwrites the scores, and the shift (rows, 1); None if they are
    in range without a shift.
    """
    if in_range(scores.dtype, temperature):
        return scores.exp_(), None
    shift = scores.amax(dim=1, keepdim=True)
    return scores.sub_(shift).exp_(), shift
