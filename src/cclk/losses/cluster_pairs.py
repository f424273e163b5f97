"""The part that the paper's two cluster baselines share: weights that are 1 within a cluster."""

from __future__ import annotations

import torch
from torch import Tensor

from cclk._eager import eager
from cclk.errors import warn
from cclk.kernels import Delta
from cclk.losses.batch import Batch
from cclk.losses.conditional import joined_condition
from cclk.losses.objectives import ClusterNegatives, ClusterPositives, NeighborWeights
from cclk.losses.options import Options, Support, split_support
from cclk.operator.operators import GroupRows
from cclk.operator.weights import WithoutOwn


def renamed(condition: object, clusters: object) -> object:
    """The condition, which version 0.1 called `clusters`."""
    if clusters is None:
        return condition
    warn("the argument `clusters` is now called `condition`, as in every other loss")
    return clusters


@eager
def cluster_contrast(
    x: Tensor,
    y: Tensor,
    condition: object,
    support: Support | None,
    options: Options,
    make: type[ClusterNegatives] | type[ClusterPositives],
) -> Tensor:
    """Compute a loss whose weights are 1 where two samples are in the same cluster, else 0."""
    extra, extra_condition = split_support(support)
    batch = Batch(x, y, extra, options)
    groups = Delta().groups(joined_condition(batch, condition, extra, extra_condition))
    same = GroupRows(groups, torch.ones(len(groups), dtype=batch.dtype, device=batch.device))
    own = make is ClusterPositives
    rows = same if own else WithoutOwn(same, least=0.0)
    return batch.loss(
        lambda layout: make(
            layout, options.scale, NeighborWeights(rows, layout, counts_own=own, per_view=True)
        )
    )
