"""Fair-InfoNCE: the paper's baseline that conditions by clusters."""

from __future__ import annotations

import math

from torch import Tensor

from cclk.eager import eager
from cclk.losses.base import ContrastiveLoss
from cclk.losses.batch import Batch
from cclk.losses.cluster_pairs import renamed, same_cluster
from cclk.losses.objectives import Floor, NeighborWeights, WeightedNegatives
from cclk.losses.options import Options, Reduction, Support, Temperature, Views, split_support
from cclk.operator.weights import WithoutOwn


@eager
def _fair_info_nce(
    x: Tensor, y: Tensor, condition: object, support: Support | None, options: Options
) -> Tensor:
    extra, extra_condition = split_support(support)
    batch = Batch(x, y, extra, options)
    same = same_cluster(batch, condition, extra_condition)
    shares = []
    with batch.without_autocast():
        for each in batch.directions():
            weights = NeighborWeights(WithoutOwn(same, least=0.0), each.layout, summed=True)
            objective = WeightedNegatives(
                each.layout, options.scale, weights, log_count=0.0, floor=Floor(-math.inf)
            )
            shares.append(batch.contrast(each, objective))
        return batch.reduce(shares)


def fair_info_nce(
    x: Tensor,
    y: Tensor,
    condition: object = None,
    *,
    clusters: object = None,
    support: Support | None = None,
    temperature: Temperature = 0.1,
    views: Views = "cross",
    symmetric: bool = False,
    gather_distributed: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """`FairInfoNCE` as a function; the arguments are those of the class and of its call."""
    return _fair_info_nce(
        x,
        y,
        renamed(condition, clusters),
        support,
        Options(temperature, views, symmetric, gather_distributed, reduction),
    )


class FairInfoNCE(ContrastiveLoss):
    r"""Equation 3 on clusters of the condition: the negatives are the samples of the anchor's
    cluster.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + \sum_{j \ne i, c_j = c_i}
    e^{S_{ij}}}

    An anchor alone in its cluster has no negatives and a loss of 0: draw batches cluster by
    cluster.

    Args:
        temperature: Scores are cosine similarities divided by it. A number, or an `nn.Parameter` to
            learn it: it is then among the `parameters()` of the loss and has to be passed to the
            optimizer.
        views: "cross" compares an anchor with the other view's samples, as the paper's equations
            do; "all" also with its own view's, as SimCLR does.
        symmetric: Average the loss with x as anchors and the loss with y as anchors.
        gather_distributed: Join the batches of all processes of `torch.distributed`; the gradients,
            averaged over processes as DistributedDataParallel does, are those of the joined batch.
        reduction: "mean", "sum" or "none" over anchors.

    Shape:
        x, y: (b, d); condition: (b,) cluster numbers. `support`: ((q, d), (q,)).
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> x = torch.eye(3)
        >>> FairInfoNCE(temperature=1.0)(x, x, torch.tensor([0, 0, 0]))
        tensor(0.5514)
    """

    def __init__(
        self,
        *,
        temperature: Temperature = 0.1,
        views: Views = "cross",
        symmetric: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            temperature=temperature,
            views=views,
            symmetric=symmetric,
            gather_distributed=gather_distributed,
            reduction=reduction,
        )

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        condition: object = None,
        support: Support | None = None,
        *,
        clusters: object = None,
    ) -> Tensor:
        return _fair_info_nce(x, y, renamed(condition, clusters), support, self.options)
