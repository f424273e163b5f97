"""InfoNCE: the unconditional loss."""

from __future__ import annotations

from torch import Tensor

from cclk._eager import eager
from cclk.losses.base import ContrastiveLoss
from cclk.losses.batch import Batch
from cclk.losses.objectives import Marginal
from cclk.losses.options import Options, Support, split_support


@eager
def _info_nce(x: Tensor, y: Tensor, support: Support | None, options: Options) -> Tensor:
    batch = Batch(x, y, split_support(support)[0], options)
    return batch.loss(lambda layout: Marginal(layout, options.scale))


class InfoNCE(ContrastiveLoss):
    r"""Equation 1: contrast the other view of each anchor with all other samples.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + \sum_{j \ne i} e^{S_{ij}}},
              \quad S_{ij} = \cos(x_i, y_j) / \mathrm{temperature}

    Positives from P(X, Y), negatives from P(X) P(Y).

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
        condition: ignored, so that losses can be exchanged.
        support: ((q, d), ignored), more negatives.
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> x = torch.eye(3)
        >>> InfoNCE(temperature=1.0)(x, x)
        tensor(0.5514)

    Reference:
        van den Oord et al., Representation Learning with Contrastive Predictive Coding, 2018.
    """

    def forward(
        self, x: Tensor, y: Tensor, condition: object = None, support: Support | None = None
    ) -> Tensor:
        return _info_nce(x, y, support, self.options)
