"""Losses whose negatives have a weight: only columns that matter are scored.

Of an anchor with temperature t, columns with a total weight of d are dropped. As scores are at most
1/t, their share of the estimate c is at most d exp(1/t) / c. Columns are dropped as long as this is
below `TOLERANCE`, with the c that was computed. This is a bound of the error of log c, and so of
the loss of the anchor, and of the share of its gradient that is missing. An estimate that is nearly
as small as any can be may miss three times as much: as a block, as a sample, and as a weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from cclk.losses.core import Gradients
from cclk.losses.objectives import WeightedNegatives
from cclk.operator.neighborhoods import Neighborhoods
from cclk.operator.operators import LocalRows

TOLERANCE = {torch.float32: 1e-7, torch.float64: 1e-13}
"""The largest share of an estimate that may be dropped."""
TYPICAL = -0.3
"""An estimate below exp(TYPICAL / t) is rare, and below exp(-1 / t) impossible: the columns of a
tile are first selected for the former, and again for the latter where it is needed.
"""


def prepare(objectives: Sequence[object], dtype: torch.dtype) -> str:
    """Find the neighborhoods of objectives that have some, and return what is computed and why.

    Args:
        objectives: Objectives of one loss; those of the same weights share their neighborhoods.
        dtype: The dtype of the embeddings.
    """
    shared: dict[int, tuple[Neighborhoods | None, str]] = {}
    for objective in objectives:
        if not isinstance(objective, WeightedNegatives) or objective.scores_all:
            return "all pairs are computed: the objective contains all of them"
        rows, layout = objective.weights.rows, objective.layout
        if not isinstance(rows, LocalRows):
            return "all pairs are computed: every sample has a weight"
        if id(rows) not in shared:
            anchors = range(layout.first, layout.first + layout.anchors)
            share = _share(objective, TYPICAL / objective.temperature, dtype)
            shared[id(rows)] = rows.neighborhoods(anchors, share)
        objective.neighborhoods, reason = shared[id(rows)]
    return reason


def negligible(dtype: torch.dtype, temperature: float, samples: int) -> float:
    """Return the weight that any number of samples may have without mattering to any estimate.

    Args:
        dtype: The dtype of the weights.
        temperature: The temperature of the scores.
        samples: The number of samples.
    """
    return TOLERANCE[dtype] * math.exp(-2 / temperature) / samples


def _share(objective: WeightedNegatives, log_estimate: float, dtype: torch.dtype) -> float:
    """The weight that may be dropped from an anchor with this estimate."""
    return TOLERANCE[dtype] * math.exp(log_estimate - 1 / objective.temperature)


def run(
    anchors: Tensor,
    neighbors: Tensor,
    objective: WeightedNegatives,
    neighborhoods: Neighborhoods,
    factor: float,
    incoming: Tensor | None,
    grad: bool,
) -> tuple[Tensor, Gradients | None]:
    """The losses of all anchors, and, if `grad`, the gradients of their sum (weighted by
    `incoming`), as `core.run` computes them from all columns.
    """
    layout, temperature = objective.layout, objective.temperature
    losses = anchors.new_empty(layout.anchors)
    gradients = (
        (torch.empty_like(anchors), torch.zeros_like(neighbors), neighbors.new_zeros(()))
        if grad
        else None
    )
    for number, tile in enumerate(neighborhoods.tiles):
        here = tile - layout.first
        rows = anchors.index_select(0, here).mul_(factor)
        positives = neighbors.index_select(0, tile)
        for log_estimate in (TYPICAL / temperature, -1 / temperature):
            share = _share(objective, log_estimate, rows.dtype)
            columns, weights, dropped = objective.weights.near(neighborhoods, number, share)
            candidates = neighbors.index_select(0, columns)  # several times faster than []
            result, cond = objective.contrast(
                (rows * positives).sum(dim=1), (candidates @ rows.T).T, weights
            )
            limit = math.log(TOLERANCE[rows.dtype]) - 1 / temperature + cond.log.double()
            if bool((dropped.log() <= limit).all()) or log_estimate * temperature <= -1:
                break
            objective.floor.forget(len(rows))
        losses.index_copy_(0, here, result.loss)
        if gradients is None:
            continue
        of_anchors, of_neighbors, of_floor = gradients
        result = result.times(None if incoming is None else incoming[here])
        coefficient, pull, floored = result.coefficient[:, None], result.pull, result.of_floor
        local = (result.slope @ candidates).mul_(coefficient * factor)
        slope = result.slope
        if layout.fixed and layout.support:  # samples of the support have no gradient
            learned = ((columns < layout.batch) | (columns >= layout.samples)).nonzero()[:, 0]
            columns, slope = columns[learned], slope.index_select(1, learned)
        of_neighbors.index_add_(0, columns, slope.T @ (rows * coefficient))
        if pull is not None:
            local.addcmul_(positives, pull[:, None], value=factor)
            of_neighbors.index_add_(0, tile, rows * pull[:, None])
        of_anchors.index_copy_(0, here, local)
        if floored is not None:
            of_floor += floored.sum()
    return losses, gradients
