"""InfoNCE: the unconditional loss."""

from __future__ import annotations

from torch import Tensor

from cclk.eager import eager
from cclk.losses.base import ContrastiveLoss
from cclk.losses.batch import Batch
from cclk.losses.objectives import Marginal
from cclk.losses.options import Options, Reduction, Support, Temperature, Views, split_support


@eager
def _info_nce(x: Tensor, y: Tensor, support: Support | None, options: Options) -> Tensor:
    batch = Batch(x, y, split_support(support)[0], options)
    with batch.without_autocast():
        return batch.reduce(
            [
                batch.contrast(each, Marginal(each.layout, options.scale))
                for each in batch.directions()
            ]
        )


def info_nce(
    x: Tensor,
    y: Tensor,
    *,
    support: Support | None = None,
    temperature: Temperature = 0.1,
    views: Views = "cross",
    symmetric: bool = False,
    gather_distributed: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """`InfoNCE` as a function; the arguments are those of the class and of its call.

    >>> import torch
    >>> x = torch.eye(3)
    >>> info_nce(x, x, temperature=1.0)
    tensor(0.5514)
    """
    return _info_nce(
        x, y, support, Options(temperature, views, symmetric, gather_distributed, reduction)
    )


class InfoNCE(ContrastiveLoss):
    r"""Equation 1: contrast each anchor's other view with all other samples.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + \sum_{j \ne i} e^{S_{ij}}},
              \quad S_{ij} = \cos(x_i, y_j) / \mathrm{temperature}

    Positives from P(X, Y), negatives from P(X) P(Y). A condition is accepted and ignored, so that
    losses can be exchanged.

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
        x, y: (b, d), of any length: they are normalized inside. `support`: ((q, d), ignored), q
            more negatives.
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> x = torch.eye(3)
        >>> InfoNCE(temperature=1.0)(x, x)
        tensor(0.5514)
    """

    def __init__(
        self,
        temperature: Temperature = 0.1,
        *,
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
        self, x: Tensor, y: Tensor, condition: object = None, support: Support | None = None
    ) -> Tensor:
        return _info_nce(x, y, support, self.options)
