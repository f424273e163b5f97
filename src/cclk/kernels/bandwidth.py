"""Length scales fitted to the data: by the number of effective partners ("auto") or the median distance ("median").

An anchor i of a batch weighs the others by v_j = k(z_j, z_i); its number of effective partners is (sum_j v_j)^2 / sum_j v_j^2. Too
narrow a kernel leaves nobody, too wide a kernel everybody, which is no condition at all. "auto" searches the scale at which
the median anchor of a batch has a few, so it does not depend on the units of the condition, and not on its width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from cclk.condition import Columns, Condition

if TYPE_CHECKING:
    from cclk.kernels.base import Kernel

_BATCHES, _ANCHORS, _STEPS = 4, 128, 40


class HasLengthScale:
    """What a kernel with a length scale has; `scale` is its value, None while it waits to be fitted."""

    length_scale: float | str
    partners: float
    columns: Columns | None
    scale: float | None


def is_fittable(kernel: object) -> TypeGuard[HasLengthScale]:
    """Whether the kernel has a length scale that is fitted to the data."""
    return isinstance(kernel, HasLengthScale) and isinstance(kernel.length_scale, str)


def effective_partners(weights: Tensor) -> Tensor:
    """(sum w)^2 / sum w^2 of each row of non-negative weights; 0 for a row without any."""
    # Divided by the largest first: weights near the smallest representable number would square to 0.
    top = weights.amax(dim=1, keepdim=True)
    unit = weights / top.where(top > 0, 1.0)
    return unit.sum(dim=1).square() / unit.square().sum(dim=1).clamp_min(torch.finfo(weights.dtype).tiny)


def fit(kernel: Kernel, condition: Condition, batch_size: int) -> None:
    """Fit the "auto" and "median" scales of a whole expression.

    Each scale starts at the median distance on its own columns. The "auto" ones then share one factor, chosen so that the
    whole kernel - products with other columns included - leaves the median anchor its partners.
    """
    waiting = [leaf for leaf in kernel.leaves() if is_fittable(leaf)]
    if not waiting:
        return
    if len(condition) < 2:
        raise ValueError(f"condition has {len(condition)} rows: fitting {kernel!r} needs at least 2")
    if batch_size < 2:
        raise ValueError(f"batch_size is {batch_size}: an anchor needs at least one other sample in its batch")
    batches = _draw(condition, batch_size)
    for leaf in waiting:
        leaf.scale = _median_distance(batches, leaf.columns)
    auto = [leaf for leaf in waiting if leaf.length_scale == "auto"]
    if not auto:
        return
    start = [leaf.scale or 1.0 for leaf in auto]
    # Where equal outcomes alone give partners enough, a rare outcome must still see the next one.
    least = [0.3 * _step(batches, leaf.columns) for leaf in auto]
    wanted = min(max(leaf.partners for leaf in auto), 0.9 * (min(map(len, batches)) - 1))

    def partners(log_factor: float) -> float:
        factor = 10.0**log_factor
        for leaf, scale, bound in zip(auto, start, least, strict=True):
            leaf.scale = max(scale * factor, bound)
        return float(torch.cat([_partners_in(kernel, batch) for batch in batches]).median())

    low, high = -9.0, 3.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if partners(middle) < wanted else (low, middle)
    partners(high)


def _partners_in(kernel: Kernel, batch: Condition) -> Tensor:
    anchors = batch.rows(slice(0, _ANCHORS))
    weights = kernel.evaluate(anchors, batch).clamp_min(0)
    weights.diagonal().zero_()
    return effective_partners(weights)


def _draw(condition: Condition, batch_size: int) -> list[Condition]:
    """A few batches, the same ones each time: fitting must not depend on anyone's random state."""
    if len(condition) <= batch_size:
        return [condition]
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randperm(len(condition), generator=generator)[:batch_size] for _ in range(_BATCHES)]
    return [condition.rows(draw.to(condition.values.device)) for draw in draws]


def _median_distance(batches: list[Condition], columns: Columns | None) -> float:
    """The median distance between different outcomes; 1 for a constant column, which has no scale of its own."""
    distances = torch.cat([_distances(batch, columns).flatten() for batch in batches])
    return _median(distances[distances > 0], otherwise=1.0)


def _step(batches: list[Condition], columns: Columns | None) -> float:
    """The typical distance from an outcome to the nearest different one."""
    distances = [_distances(batch, columns) for batch in batches]
    nearest = torch.cat([d.where(d > 0, torch.inf).amin(dim=1) for d in distances])
    return _median(nearest[nearest.isfinite()], otherwise=0.0)


def _distances(batch: Condition, columns: Columns | None) -> Tensor:
    values = batch.select(columns)
    return torch.cdist(values[:_ANCHORS], values, compute_mode="donot_use_mm_for_euclid_dist")


def _median(values: Tensor, otherwise: float) -> float:
    return float(values.median()) if len(values) else otherwise
