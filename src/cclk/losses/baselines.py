"""The paper's conditional baselines: conditional sampling by clusters, and hard negatives by reweighting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Unpack

import torch
from torch import Tensor

from cclk.kernels import Delta
from cclk.losses.base import ContrastiveLoss, Support, split_support
from cclk.losses.batch import Batch, CommonOptions, Direction, Options
from cclk.losses.conditional import joined_table
from cclk.losses.core import Objective
from cclk.losses.objectives import ClusterPositives, Floor, PartnerWeights, ReweightedNegatives, WeightedNegatives
from cclk.operator.operators import GroupRows
from cclk.operator.weights import WithoutOwn


def _with_clusters(
    x: Tensor,
    y: Tensor,
    clusters: object,
    support: Support | None,
    options: Options,
    make: Callable[[Direction, GroupRows], Objective],
) -> Tensor:
    extra, extra_clusters = split_support(support)
    batch = Batch(x, y, extra, options)
    table = joined_table(batch, clusters, extra, extra_clusters, name="clusters")
    groups = Delta().groups(table)
    same = GroupRows(groups, torch.ones(len(groups), dtype=batch.dtype, device=batch.device))
    return batch.loss(lambda direction: make(direction, same))


def _weakly_sup_info_nce(x: Tensor, y: Tensor, clusters: object, support: Support | None, options: Options) -> Tensor:
    def make(direction: Direction, same: GroupRows) -> ClusterPositives:
        weights = PartnerWeights(same, direction.layout, counts_own=True, summed=True)
        return ClusterPositives(direction.layout, options.temperature, weights)

    return _with_clusters(x, y, clusters, support, options, make)


def _fair_info_nce(x: Tensor, y: Tensor, clusters: object, support: Support | None, options: Options) -> Tensor:
    def make(direction: Direction, same: GroupRows) -> WeightedNegatives:
        weights = PartnerWeights(WithoutOwn(same, least=0.0), direction.layout, summed=True)
        return WeightedNegatives(direction.layout, options.temperature, weights, log_count=0.0, floor=Floor(-math.inf))

    return _with_clusters(x, y, clusters, support, options, make)


def _hard_neg_info_nce(x: Tensor, y: Tensor, support: Support | None, beta: float, tau_plus: float, options: Options) -> Tensor:
    _check_hardness(beta, tau_plus)
    batch = Batch(x, y, split_support(support)[0], options)
    return batch.loss(lambda direction: ReweightedNegatives(direction.layout, options.temperature, beta, tau_plus))


def _check_hardness(beta: float, tau_plus: float) -> None:
    if not 0 <= beta < float("inf"):
        raise ValueError(f"beta is {beta}: it must be a number of at least 0, where 0 weighs all negatives alike")
    if not 0 <= tau_plus < 1:
        raise ValueError(f"tau_plus is {tau_plus}: it is the assumed share of false negatives, at least 0 and below 1")


def weakly_sup_info_nce(
    x: Tensor,
    y: Tensor,
    clusters: object,
    *,
    support: Support | None = None,
    **options: Unpack[CommonOptions],
) -> Tensor:
    """The function behind `WeaklySupInfoNCE`."""
    return _weakly_sup_info_nce(x, y, clusters, support, Options(**options))


def fair_info_nce(
    x: Tensor,
    y: Tensor,
    clusters: object,
    *,
    support: Support | None = None,
    **options: Unpack[CommonOptions],
) -> Tensor:
    """The function behind `FairInfoNCE`."""
    return _fair_info_nce(x, y, clusters, support, Options(**options))


def hard_neg_info_nce(
    x: Tensor,
    y: Tensor,
    *,
    beta: float = 1.0,
    tau_plus: float = 0.1,
    support: Support | None = None,
    **options: Unpack[CommonOptions],
) -> Tensor:
    """The function behind `HardNegInfoNCE`."""
    return _hard_neg_info_nce(x, y, support, beta, tau_plus, Options(**options))


class WeaklySupInfoNCE(ContrastiveLoss):
    r"""Equation 2 on clusters of the condition: every sample of the anchor's cluster is a positive, everybody a negative.

    .. math:: L = -\frac1b \sum_i \frac{1}{|C_i|} \sum_{j \in C_i} \log \frac{e^{S_{ij}}}{\sum_k e^{S_{ik}}},
              \quad C_i = \{j : c_j = c_i\}

    The anchor's own other view is among its positives. With every sample in a cluster of its own this is InfoNCE.

    Shapes:
        x, y: (b, d); clusters: (b,) integers. `support`: ((q, d), (q,)).
        Result: a scalar, or (b,) with reduction="none".

    >>> import torch
    >>> x = torch.eye(3)
    >>> WeaklySupInfoNCE(temperature=1.0)(x, x, torch.tensor([0, 1, 2]))
    tensor(0.5514)
    """

    def forward(self, x: Tensor, y: Tensor, clusters: object, support: Support | None = None) -> Tensor:
        return _weakly_sup_info_nce(x, y, clusters, support, self.options)


class FairInfoNCE(ContrastiveLoss):
    r"""Equation 3 on clusters of the condition: the negatives are the samples of the anchor's cluster.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + \sum_{j \ne i, c_j = c_i} e^{S_{ij}}}

    An anchor alone in its cluster has no negatives and a loss of 0: draw batches cluster by cluster.

    Shapes:
        x, y: (b, d); clusters: (b,) integers. `support`: ((q, d), (q,)).
        Result: a scalar, or (b,) with reduction="none".

    >>> import torch
    >>> x = torch.eye(3)
    >>> FairInfoNCE(temperature=1.0)(x, x, torch.tensor([0, 0, 0]))
    tensor(0.5514)
    """

    def forward(self, x: Tensor, y: Tensor, clusters: object, support: Support | None = None) -> Tensor:
        return _fair_info_nce(x, y, clusters, support, self.options)


class HardNegInfoNCE(ContrastiveLoss):
    r"""Robinson et al. 2021: negatives weighed by how near they are, corrected for false ones.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + N_i}, \quad
              N_i = \max\Big(\frac{R_i - \tau^+ n\, e^{S_{ii}}}{1 - \tau^+},\ n\, e^{-1/\mathrm{temperature}}\Big), \quad
              R_i = n \frac{\sum_{j \ne i} e^{(1 + \beta) S_{ij}}}{\sum_{j \ne i} e^{\beta S_{ij}}}

    n is the number of negatives. The gradient flows through the weights, as in the authors' code. beta = 0 and tau_plus = 0 give InfoNCE.

    Args:
        beta: how much nearer negatives weigh more.
        tau_plus: the assumed share of negatives that are of the anchor's own class.
        Others: as in `ContrastiveLoss`.

    Shapes:
        x, y: (b, d). A condition is accepted and ignored. `support`: ((q, d), ignored).
        Result: a scalar, or (b,) with reduction="none".

    >>> import torch
    >>> x = torch.eye(3)
    >>> HardNegInfoNCE(beta=0.0, tau_plus=0.0, temperature=1.0)(x, x)
    tensor(0.5514)
    """

    def __init__(
        self,
        beta: float = 1.0,
        tau_plus: float = 0.1,
        **options: Unpack[CommonOptions],
    ) -> None:
        super().__init__(**options)
        _check_hardness(beta, tau_plus)
        self.beta, self.tau_plus = beta, tau_plus

    def forward(self, x: Tensor, y: Tensor, condition: object = None, support: Support | None = None) -> Tensor:
        return _hard_neg_info_nce(x, y, support, self.beta, self.tau_plus, self.options)

    def settings(self) -> dict[str, object]:
        return {"beta": self.beta, "tau_plus": self.tau_plus}
