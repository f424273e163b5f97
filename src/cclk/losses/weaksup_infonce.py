"""WeaklySup-InfoNCE: the paper's baseline that conditions by clusters."""

from __future__ import annotations

from torch import Tensor

from cclk.losses.base import ContrastiveLoss
from cclk.losses.cluster_pairs import cluster_contrast, renamed
from cclk.losses.objectives import ClusterPositives
from cclk.losses.options import Support


class WeaklySupInfoNCE(ContrastiveLoss):
    r"""Equation 3 on clusters of the condition: every sample of the anchor's cluster is a
    positive, all samples are negatives.

    .. math:: L = -\frac1b \sum_i \frac{1}{|C_i|} \sum_{j \in C_i} \log
              \frac{e^{S_{ij}}}{\sum_k e^{S_{ik}}}, \quad C_i = \{j : c_j = c_i\}

    The other view of the anchor is among its positives. If all clusters are different, this is
    InfoNCE.

    Args:
        temperature: Scores are cosine similarities divided by the temperature.
        views: "cross" compares an anchor with the samples of the other view, as the paper's
            equations do; "all" also with those of the same view, as SimCLR does.
        symmetric: Average the loss with x as anchors and the loss with y as anchors.
        gather_distributed: Compute the loss of the joined batch of all `torch.distributed`
            processes. Gradients averaged over processes, as by DistributedDataParallel, are those
            of the joined batch.
        reduction: "mean", "sum" or "none" over anchors.
        learn_temperature: Learn the logarithm of the temperature, from this one on and not below
            0.01. Pass `loss.parameters()` to the optimizer as well.

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

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        condition: object = None,
        support: Support | None = None,
        *,
        clusters: object = None,
    ) -> Tensor:
        condition = renamed(condition, clusters)
        return cluster_contrast(x, y, condition, support, self.options, ClusterPositives)
