"""What the paper's two cluster baselines share: which samples are in the anchor's cluster."""

from __future__ import annotations

import torch

from cclk.errors import warn
from cclk.kernels import Delta
from cclk.losses.batch import Batch
from cclk.losses.conditional import joined_table
from cclk.operator.operators import GroupRows


def renamed(condition: object, clusters: object) -> object:
    """The condition, also under the name it had in version 0.1."""
    if clusters is None:
        return condition
    warn("the argument `clusters` is now called `condition`, as in every other loss")
    return clusters


def same_cluster(batch: Batch, condition: object, extra_condition: object) -> GroupRows:
    """1 where two samples are in the same cluster, else 0, over the joined batch and its support."""
    groups = Delta().groups(joined_table(batch, condition, batch.support, extra_condition))
    return GroupRows(groups, torch.ones(len(groups), dtype=batch.dtype, device=batch.device))
