"""WeaklySup-InfoNCE: the paper's baseline that conditions by clusters."""

from __future__ import annotations

from torch import Tensor

from cclk.eager import eager
from cclk.losses.base import ContrastiveLoss
from cclk.losses.batch import Batch
from cclk.losses.cluster_pairs import renamed, same_cluster
from cclk.losses.objectives import ClusterPositives, NeighborWeights
from cclk.losses.options import Options, Reduction, Support, Temperature, Views, split_support


@eager
def _weakly_sup_info_nce(
    x: Tensor, y: Tensor, condition: object, support: Support | None, options: Options
) -> Tensor:
    extra, extra_condition = split_support(support)
    batch = Batch(x, y, extra, options)
    same = same_cluster(batch, condition, extra_condition)
    shares = []
    with batch.without_autocast():
        for each in batch.directions():
            weights = NeighborWeights(same, each.layout, counts_own=True, summed=True)
            shares.append(
                batch.contrast(each, ClusterPositives(each.layout, options.scale, weights))
            )
        return batch.reduce(shares)


def weakly_sup_info_nce(
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
    """`WeaklySupInfoNCE` as a function; the arguments are those of the class and of its call."""
    return _weakly_sup_info_nce(
        x,
        y,
        renamed(condition, clusters),
        support,
        Options(temperature, views, symmetric, gather_distributed, reduction),
    )


class WeaklySupInfoNCE(ContrastiveLoss):
    r"""Equation 2 on clusters of the condition: every sample of the anchor's cluster is a
    positive, all samples are negatives.

    .. math:: L = -\frac1b \sum_i \frac{1}{|C_i|} \sum_{j \in C_i} \log \frac{e^{S_{ij}}}{\sum_k
    e^{S_{ik}}},
              \quad C_i = \{j : c_j = c_i\}

    The anchor's own other view is among its positives. With every sample in a cluster of its own
    this is InfoNCE.

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
        >>> WeaklySupInfoNCE(temperature=1.0)(x, x, torch.tensor([0, 1, 2]))
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
        return _weakly_sup_info_nce(x, y, renamed(condition, clusters), support, self.options)
