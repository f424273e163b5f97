"""Losses whose negatives have a weight: only columns that matter are scored.

Of an anchor with temperature t, columns with a total weight of d are dropped. As scores are at most
1/t, their share of the estimate c is at most d exp(1/t) / c. Columns are dropped as long as this is
below `TOLERANCE`, with the c that was computed. This is a bound of the error of log c, and so of
the loss of the anchor, and of the share of its gradient that is missing. Near the lower bound the
error is at most three times the tolerance, because blocks, samples and weights are dropped
separately.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from cclk.losses import core
from cclk.losses.core import Objective, Sums
from cclk.losses.objectives import WeightedNegatives
from cclk.weights import neighborhoods
from cclk.weights.neighborhoods import Neighborhoods
from cclk.weights.operators import LocalRows

TOLERANCE = {torch.float32: 1e-7, torch.float64: 1e-13}
"""The largest share of an estimate that may be dropped."""
ALL = "all pairs are computed: the objective contains all of them"
TYPICAL = -0.3
"""An estimate below exp(TYPICAL / t) is rare, and below exp(-1 / t) impossible: the columns of a
tile are first selected for the former, and again for the latter where it is needed.
"""


def runner(objective: Objective, dtype: torch.dtype) -> tuple[core.Run, str]:
    """Return what computes an objective, from all pairs or from those that matter, and why.

    Args:
        objective: The objective of one loss.
        dtype: The dtype of the embeddings.
    """
    every, layout = partial(core.run, objective), objective.layout
    if layout.samples < neighborhoods.SMALLEST:
        return every, f"all pairs are computed: fewer than {neighborhoods.SMALLEST} samples"
    if not isinstance(objective, WeightedNegatives) or objective.scores_all:
        return every, ALL
    rows = objective.weights.samples.rows
    if not isinstance(rows, LocalRows):
        return every, "all pairs are computed: every sample has a weight"
    anchors = range(layout.first, layout.first + layout.anchors)
    share = _share(TYPICAL, objective.temperature, dtype)
    tree, reason = rows.neighborhoods(anchors, share)
    return every if tree is None else partial(run, objective, tree), reason


def negligible(dtype: torch.dtype, temperature: float, samples: int) -> float:
    """Return the weight that any number of samples may have without mattering to any estimate.

    Args:
        dtype: The dtype of the weights.
        temperature: The temperature of the scores.
        samples: The number of samples.
    """
    return TOLERANCE[dtype] * math.exp(-2 / temperature) / samples


def _share(log_estimate: float, temperature: float, dtype: torch.dtype) -> float:
    """The weight that may be dropped from an anchor whose estimate is this over temperature."""
    return TOLERANCE[dtype] * math.exp(log_estimate / temperature - 1 / temperature)


def run(
    objective: WeightedNegatives,
    tree: Neighborhoods,
    anchors: Tensor,
    neighbors: Tensor,
    factor: float,
    incoming: Tensor | None,
    grad: bool,
) -> Sums:
    """Compute a `core.Run` from the columns that matter."""
    layout, temperature = objective.layout, objective.temperature
    losses, clamped = anchors.new_empty(layout.anchors), anchors.new_zeros(())
    gradients = (
        (torch.empty_like(anchors), torch.zeros_like(neighbors), neighbors.new_zeros(()))
        if grad
        else None
    )
    for number, tile in enumerate(tree.tiles):
        here = tile - layout.first
        rows = anchors.index_select(0, here).mul_(factor)
        positives = neighbors.index_select(0, tile)
        for log_estimate in (TYPICAL, -1.0):
            share = _share(log_estimate, temperature, rows.dtype)
            columns, weights, dropped = objective.weights.near(tree, number, share)
            candidates = neighbors.index_select(0, columns)  # several times faster than []
            result, cond = objective.contrast(
                (rows * positives).sum(dim=1), (candidates @ rows.T).T, weights
            )
            limit = math.log(TOLERANCE[rows.dtype]) - 1 / temperature + cond.log.double()
            if bool((dropped.log() <= limit).all()):
                break
        losses.index_copy_(0, here, result.loss)
        if result.clamped is not None:
            clamped += result.clamped
        if gradients is None:
            continue
        of_anchors, of_neighbors, of_floor = gradients
        if incoming is not None:
            result = result.times(incoming[here])
        coefficient, positive_grad = result.coefficient[:, None], result.positive_grad
        local = (result.slope @ candidates).mul_(coefficient * factor)
        slope = result.slope
        if layout.fixed and layout.support:  # samples of the support have no gradient
            learned = ((columns < layout.batch) | (columns >= layout.samples)).nonzero()[:, 0]
            columns, slope = columns[learned], slope.index_select(1, learned)
        of_neighbors.index_add_(0, columns, slope.T @ (rows * coefficient))
        if positive_grad is not None:
            local.addcmul_(positives, positive_grad[:, None], value=factor)
            of_neighbors.index_add_(0, tile, rows * positive_grad[:, None])
        of_anchors.index_copy_(0, here, local)
        if result.floor_grad is not None:
            of_floor += result.floor_grad.sum()
    return Sums(losses, clamped, gradients)
