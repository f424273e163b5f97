"""What the paper's two cluster baselines share: which samples are in the anchor's cluster."""

from __future__ import annotations

import torch

from cclk.kernels import Delta
from cclk.losses.batch import Batch
from cclk.losses.conditional import joined_table
from cclk.operator.operators import GroupRows


def same_cluster(batch: Batch, clusters: object, extra_clusters: object) -> GroupRows:
    """1 where two samples are in the same cluster, else 0, over the joined batch and its support."""
    groups = Delta().groups(joined_table(batch, clusters, batch.support, extra_clusters, name="clusters"))
    return GroupRows(groups, torch.ones(len(groups), dtype=batch.dtype, device=batch.device))
