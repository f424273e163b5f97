"""Length scales fitted to the data, "auto" by the number of neighbors, "median" by distance.

An anchor i of a batch weights the others by v_j = k(z_j, z_i); its effective number of neighbors is
(sum_j v_j)^2 / sum_j v_j^2. If the kernel is too narrow, anchors have no neighbors; if it is too
wide, the loss degenerates to InfoNCE. "auto" searches the scale at which the median anchor of a
batch has a few, so it depends neither on the units of the condition nor on its width.

Columns may have different units (an income of 0 to 100,000 beside a rate of 0 to 1), so each has
its own scale: its median distance, times one factor that all columns share. `Condition.widths`
defines what counts as one column.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from cclk._eager import eager
from cclk.condition import Columns, Condition
from cclk.errors import CclkError

if TYPE_CHECKING:
    from cclk.kernels.base import Kernel

_BATCHES, _ANCHORS, _STEPS = 4, 128, 40
_SMALLEST = 1e-290
"""Smaller distances count as 0: length scales that are fractions of them would underflow."""

Scale = float | tuple[float, ...]
"""One length scale, or one for each column."""


class HasLengthScale:
    """The attributes of a kernel with a length scale."""

    length_scale: Scale | str
    neighbors: float
    columns: Columns | None
    length_scale_: Scale | None
    """The fitted value; None before the fit."""


def scaled_leaves(kernel: Kernel) -> list[HasLengthScale]:
    """Return the elementary kernels that have a length scale."""
    return [leaf for leaf in kernel.leaves() if isinstance(leaf, HasLengthScale)]


def is_fittable(kernel: object) -> TypeGuard[HasLengthScale]:
    """Whether the kernel has a length scale that is fitted to the data."""
    return isinstance(kernel, HasLengthScale) and isinstance(kernel.length_scale, str)


def effective_neighbors(weights: Tensor) -> Tensor:
    """Compute (sum w)^2 / sum w^2 of each row of non-negative weights; 0 for a row of zeros."""
    # Divide by the largest weight first: the square of a tiny weight would underflow.
    top = weights.amax(dim=1, keepdim=True)
    unit = weights / top.where(top > 0, 1.0)
    tiny = torch.finfo(weights.dtype).tiny
    return unit.sum(dim=1).square() / unit.square().sum(dim=1).clamp_min(tiny)


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Compute Euclidean distances by differences: exact where the expanded square would cancel."""
    if a.shape[1] == 1:
        return (a - b.T).abs_()  # the square of a small difference underflows
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def divisor(scale: Scale, condition: Condition, columns: Columns | None) -> Tensor | float:
    """Return the scale as a number, or as a row with one number for each selected value."""
    if not isinstance(scale, tuple):
        return scale
    widths = condition.widths(columns)
    if len(widths) != len(scale):
        raise CclkError(
            f"length_scale has {len(scale)} numbers, but the kernel is on {len(widths)} columns:"
            " pass one number for each"
        )
    return _row(scale, tuple(widths), condition.values.device)


@lru_cache(maxsize=64)
def _row(scale: tuple[float, ...], widths: tuple[int, ...], device: torch.device) -> Tensor:
    """Each number as many times as its column is wide."""
    each = torch.tensor(scale, dtype=torch.float64, device=device)
    return each.repeat_interleave(torch.tensor(widths, device=device))


@eager
def fit(kernel: Kernel, condition: Condition, batch_size: int) -> None:
    """Fit the "auto" and "median" scales of an expression.

    Each column starts at its median distance. A "median" kernel is then scaled so that its median
    distance over all its columns is 1. The "auto" kernels share one factor, at which the median
    anchor has its neighbors under the full expression, including products with other columns.
    """
    leaves = [leaf for leaf in scaled_leaves(kernel) if is_fittable(leaf)]
    if not leaves:
        return
    if len(condition) < 2:
        raise CclkError(f"condition has {len(condition)} rows: fitting {kernel!r} needs at least 2")
    if batch_size < 2:
        raise CclkError(
            f"batch_size is {batch_size}: an anchor needs at least one other sample in its batch"
        )
    batches = _draw(condition, batch_size)
    for leaf in leaves:
        start = _column_scales(batches, leaf.columns)
        leaf.length_scale_ = _times(start, _median_positive(_scaled(batches, leaf.columns, start)))
    auto = [leaf for leaf in leaves if leaf.length_scale == "auto"]
    if not auto:
        return
    starts = [leaf.length_scale_ or 1.0 for leaf in auto]
    # If equal values alone are neighbors enough, a rare value must still reach the next one.
    bounds = [
        0.3 * _step(batches, leaf.columns, start) for leaf, start in zip(auto, starts, strict=True)
    ]
    target = min(max(leaf.neighbors for leaf in auto), 0.9 * (min(map(len, batches)) - 1))

    def median_neighbors(log_factor: float) -> float:
        for leaf, start, bound in zip(auto, starts, bounds, strict=True):
            leaf.length_scale_ = _times(start, max(bound, 10.0**log_factor))
        return float(torch.cat([_neighbors_in(kernel, batch) for batch in batches]).median())

    low, high = -9.0, 3.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if median_neighbors(middle) < target else (low, middle)
    median_neighbors(high)


def _times(scale: Scale, factor: float) -> Scale:
    return tuple(each * factor for each in scale) if isinstance(scale, tuple) else scale * factor


def _neighbors_in(kernel: Kernel, batch: Condition) -> Tensor:
    weights = kernel.evaluate(batch.rows(slice(0, _ANCHORS)), batch).clamp_min(0)
    weights.diagonal().zero_()
    return effective_neighbors(weights)


def _draw(condition: Condition, batch_size: int) -> list[Condition]:
    """Draw a few batches, always the same ones: a fit must not depend on the global RNG state."""
    if len(condition) <= batch_size:
        return [condition]
    generator = torch.Generator().manual_seed(0)
    draws = (torch.randperm(len(condition), generator=generator) for _ in range(_BATCHES))
    return [condition.rows(draw[:batch_size].to(condition.values.device)) for draw in draws]


def _column_scales(batches: list[Condition], columns: Columns | None) -> Scale:
    """Return the median distance of each column alone; 1 for a single column."""
    widths = batches[0].widths(columns)
    if len(widths) == 1:
        return 1.0
    parts = [torch.split(batch.select(columns), widths, dim=1) for batch in batches]
    return tuple(_median_positive(column) for column in zip(*parts, strict=True))


def _step(batches: list[Condition], columns: Columns | None, scale: Scale) -> float:
    """Return the typical distance from a value to the nearest different one; 0 if constant."""
    nearest = torch.cat(
        [
            distance.where(distance > 0, torch.inf).amin(dim=1)
            for distance in map(_to_anchors, _scaled(batches, columns, scale))
        ]
    )
    nearest = nearest[nearest.isfinite()]
    return float(nearest.median()) if len(nearest) else 0.0


def _scaled(batches: list[Condition], columns: Columns | None, scale: Scale) -> list[Tensor]:
    return [batch.select(columns) / divisor(scale, batch, columns) for batch in batches]


def _to_anchors(values: Tensor) -> Tensor:
    return distances(values[:_ANCHORS], values)


def _median_positive(tables: Iterable[Tensor]) -> float:
    """Return the median positive distance within the tables; 1 if there is none."""
    values = torch.cat([_to_anchors(table).flatten() for table in tables])
    positive = values[values > _SMALLEST]
    return float(positive.median()) if len(positive) else 1.0
