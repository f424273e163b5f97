"""The paper's baselines that condition by clusters: a `Delta` kernel, without a solve."""

from __future__ import annotations

from typing import ClassVar

import torch

from cclk.kernels import Delta
from cclk.losses.base import ContrastiveLoss
from cclk.losses.batch import Batch
from cclk.losses.objectives import ClusterNegatives, ClusterPositives
from cclk.weights.operators import GroupRows
from cclk.weights.variants import Weights, WithoutOwn


class _ClusterLoss(ContrastiveLoss):
    """A loss whose weights are 1 where two samples are in the same cluster, else 0."""

    counts_own: ClassVar[bool]
    """Whether a sample is in its own cluster."""

    def _weights(self, batch: Batch, condition: object, temperature: float) -> list[Weights]:
        table = batch.table(condition)
        ones = torch.ones(len(table), dtype=batch.dtype, device=batch.x.device)
        same = GroupRows(Delta().groups(table), ones)
        rows = same if self.counts_own else WithoutOwn(same, least=0.0)
        return [Weights(rows, table, counts_own=self.counts_own, per_view=True)]


class FairInfoNCE(_ClusterLoss):
    r"""Equation 4 on clusters of the condition: the negatives are the samples of the anchor's
    cluster.

    .. math:: L = -\frac1b \sum_i \log
              \frac{e^{S_{ii}}}{e^{S_{ii}} + \sum_{j \ne i, c_j = c_i} e^{S_{ij}}}

    An anchor that is alone in its cluster has no negatives and a loss of 0, so draw batches cluster
    by cluster.

    Args:
        {options}

    Shape:
        x, y: (b, d), of any norm.
        condition: (b,) cluster numbers or names.
        support: ((q, d), (q,)), more candidates.
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> x = torch.eye(3)
        >>> FairInfoNCE(temperature=1.0)(x, x, torch.tensor([0, 0, 0]))
        tensor(0.5514)

    Reference:
        Tsai et al., Conditional Contrastive Learning with Kernel, ICLR 2022.
    """

    objective = ClusterNegatives
    counts_own = False


class WeaklySupInfoNCE(_ClusterLoss):
    r"""Equation 3 on clusters of the condition: every sample of the anchor's cluster is a
    positive, all samples are negatives.

    .. math:: L = -\frac1b \sum_i \frac{1}{|C_i|} \sum_{j \in C_i} \log
              \frac{e^{S_{ij}}}{\sum_k e^{S_{ik}}}, \quad C_i = \{j : c_j = c_i\}

    The other view of the anchor is among its positives. If all clusters are different, this is
    InfoNCE.

    Args:
        {options}

    Shape:
        x, y: (b, d), of any norm.
        condition: (b,) cluster numbers or names.
        support: ((q, d), (q,)), more candidates.
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> x = torch.eye(3)
        >>> WeaklySupInfoNCE(temperature=1.0)(x, x, torch.tensor([0, 1, 2]))
        tensor(0.5514)

    Reference:
        Tsai et al., Conditional Contrastive Learning with Kernel, ICLR 2022.
    """

    objective = ClusterPositives
    counts_own = True
