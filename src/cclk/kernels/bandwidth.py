"""Length scales fitted to the data: by the number of effective neighbors ("auto") or the median
distance ("median").

An anchor i of a batch weighs the others by v_j = k(z_j, z_i); its number of effective neighbors is
(sum_j v_j)^2 / sum_j v_j^2. If the kernel is too narrow, anchors have no neighbors; if it is too
wide, the kernel does not condition at all. "auto" searches the scale at which the median anchor of
a batch has a few, so it does not depend on the units of the condition, nor on its width.

Columns may have unlike units (an income of 0 to 100,000 beside a rate of 0 to 1), so each has a
scale of its own: its median distance, times one factor that all columns share. What counts as one
column is said in `Condition.widths`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from cclk.condition import Columns, Condition
from cclk.eager import eager

if TYPE_CHECKING:
    from cclk.kernels.base import Kernel

_BATCHES, _ANCHORS, _STEPS = 4, 128, 40

Scale = float | tuple[float, ...]
"""One length scale, or one for each column."""


class HasLengthScale:
    """What a kernel with a length scale has; `length_scale_` is its value, None before it is
    fitted.
    """

    length_scale: Scale | str
    neighbors: float
    columns: Columns | None
    length_scale_: Scale | None


def is_fittable(kernel: object) -> TypeGuard[HasLengthScale]:
    """Whether the kernel has a length scale that is fitted to the data."""
    return isinstance(kernel, HasLengthScale) and isinstance(kernel.length_scale, str)


def effective_neighbors(weights: Tensor) -> Tensor:
    """(sum w)^2 / sum w^2 of each row of non-negative weights; 0 for a row without any."""
    # Divided by the largest first: weights near the smallest representable number would square to
    # 0.
    top = weights.amax(dim=1, keepdim=True)
    unit = weights / top.where(top > 0, 1.0)
    return unit.sum(dim=1).square() / unit.square().sum(dim=1).clamp_min(
        torch.finfo(weights.dtype).tiny
    )


def divisor(scale: Scale, condition: Condition, columns: Columns | None) -> Tensor | float:
    """What the selected values are divided by: a number, or a row with one number per value."""
    if not isinstance(scale, tuple):
        return scale
    widths = condition.widths(columns)
    if len(widths) != len(scale):
        raise ValueError(
            f"length_scale has {len(scale)} numbers, but the kernel is on {len(widths)} columns: it"
            " needs one number for each"
        )
    each = torch.tensor(scale, dtype=torch.float64, device=condition.values.device)
    return each.repeat_interleave(torch.tensor(widths, device=each.device))


@eager
def fit(kernel: Kernel, condition: Condition, batch_size: int) -> None:
    """Fit the "auto" and "median" scales of a whole expression.

    Each column starts at its median distance. A "median" kernel is then scaled so that its median
    distance over all its columns is 1. The "auto" ones share one factor, at which the whole kernel
    - products with other columns included - leaves the median anchor its neighbors.
    """
    waiting = [leaf for leaf in kernel.leaves() if is_fittable(leaf)]
    if not waiting:
        return
    if len(condition) < 2:
        raise ValueError(
            f"condition has {len(condition)} rows: fitting {kernel!r} needs at least 2"
        )
    if batch_size < 2:
        raise ValueError(
            f"batch_size is {batch_size}: an anchor needs at least one other sample in its batch"
        )
    batches = _draw(condition, batch_size)
    for leaf in waiting:
        start = _column_scales(batches, leaf.columns)
        leaf.length_scale_ = _times(start, _median_distance(batches, leaf.columns, start))
    auto = [leaf for leaf in waiting if leaf.length_scale == "auto"]
    if not auto:
        return
    starts = [leaf.length_scale_ or 1.0 for leaf in auto]
    # Where equal values alone give neighbors enough, a rare value must still see the next one.
    least = [
        0.3 * _step(batches, leaf.columns, start) for leaf, start in zip(auto, starts, strict=True)
    ]
    wanted = min(max(leaf.neighbors for leaf in auto), 0.9 * (min(map(len, batches)) - 1))

    def neighbors(log_factor: float) -> float:
        factor = 10.0**log_factor
        for leaf, start, bound in zip(auto, starts, least, strict=True):
            leaf.length_scale_ = _times(start, max(factor, bound))
        return float(torch.cat([_neighbors_in(kernel, batch) for batch in batches]).median())

    low, high = -9.0, 3.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if neighbors(middle) < wanted else (low, middle)
    neighbors(high)


def _times(scale: Scale, factor: float) -> Scale:
    return tuple(each * factor for each in scale) if isinstance(scale, tuple) else scale * factor


def _neighbors_in(kernel: Kernel, batch: Condition) -> Tensor:
    anchors = batch.rows(slice(0, _ANCHORS))
    weights = kernel.evaluate(anchors, batch).clamp_min(0)
    weights.diagonal().zero_()
    return effective_neighbors(weights)


def _draw(condition: Condition, batch_size: int) -> list[Condition]:
    """A few batches, the same ones each time: fitting must not depend on anyone's random state."""
    if len(condition) <= batch_size:
        return [condition]
    generator = torch.Generator().manual_seed(0)
    draws = [
        torch.randperm(len(condition), generator=generator)[:batch_size] for _ in range(_BATCHES)
    ]
    return [condition.rows(draw.to(condition.values.device)) for draw in draws]


def _column_scales(batches: list[Condition], columns: Columns | None) -> Scale:
    """The median distance of each column alone; 1 where there is one column, whose scale is then
    found as a whole.
    """
    widths = batches[0].widths(columns)
    if len(widths) == 1:
        return 1.0
    parts = [torch.split(batch.select(columns), widths, dim=1) for batch in batches]
    return tuple(
        _median_positive(torch.cat([_distances(part).flatten() for part in column]))
        for column in zip(*parts, strict=True)
    )


def _median_distance(batches: list[Condition], columns: Columns | None, scale: Scale) -> float:
    """The median distance between different values in units of the scale; 1 for a constant
    condition, which has none.
    """
    return _median_positive(
        torch.cat([_scaled_distances(batch, columns, scale).flatten() for batch in batches])
    )


def _step(batches: list[Condition], columns: Columns | None, scale: Scale) -> float:
    """The typical distance from a value to the nearest different one, in units of the scale."""
    distances = [_scaled_distances(batch, columns, scale) for batch in batches]
    nearest = torch.cat([d.where(d > 0, torch.inf).amin(dim=1) for d in distances])
    nearest = nearest[nearest.isfinite()]
    return float(nearest.median()) if len(nearest) else 0.0


def _scaled_distances(batch: Condition, columns: Columns | None, scale: Scale) -> Tensor:
    return _distances(batch.select(columns) / divisor(scale, batch, columns))


def _distances(values: Tensor) -> Tensor:
    return torch.cdist(values[:_ANCHORS], values, compute_mode="donot_use_mm_for_euclid_dist")


def _median_positive(distances: Tensor) -> float:
    """The median of the positive distances; 1 if there are none."""
    positive = distances[distances > 0]
    return float(positive.median()) if len(positive) else 1.0
