"""Fair-CCLK: ignore the condition."""

from __future__ import annotations

from cclk.kernels import Kernel
from cclk.losses.conditional import ConditionalLoss
from cclk.losses.objectives import WeightedNegatives
from cclk.losses.options import Reduction, Views
from cclk.operator.solvers import Solver


class FairCCLK(ConditionalLoss):
    r"""Equation 8: contrast each anchor with samples that share its condition, so the condition
    cannot be used to tell them apart.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + n\, c_i}, \quad
              c_i = \sum_j w(z_j, z_i)\, e^{S_{ij}}

    Positives from P(X, Y | Z), negatives from P(X | Z) P(Y | Z), estimated with the weights w of
    `cclk.operator.weights`. n is the number of negatives of InfoNCE (b - 1 with views="cross").

    Args:
        kernel: Similarity of two values of the condition. The default, `RBF(length_scale="auto")`,
            is for numbers; `Delta` is for categories.
        ridge: Regularization of the operator W = (K + ridge I)^-1 K.
        solver: How W is computed: "auto", "exact", "features", "nystrom" or
            `cclk.Nystrom(landmarks)`. After a call, `loss.report` holds the selected solver and
            the reason.
        weights: "loo" (leave-one-out), "paper" (the literal equation), "release" (the authors'
            code), "nw" (kernel average) or "auto", the default of the loss: "nw", but "loo" for
            kernels that are not large between close values only, such as Linear and Cosine.
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
        condition: (b,), (b, k), a data frame or a mapping of columns.
        support: ((q, d), q rows of condition), more candidates.
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> from cclk.kernels import Delta
        >>> x = torch.eye(4)
        >>> loss = FairCCLK(Delta(), ridge=1e-6, temperature=1.0)
        >>> loss(x, x, torch.tensor([0, 0, 1, 1]))
        tensor(0.7437)

    Reference:
        Tsai et al., Conditional Contrastive Learning with Kernel, ICLR 2022.
    """

    tiled = WeightedNegatives
    default_weights = "nw"

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        ridge: float = 0.01,
        solver: Solver = "auto",
        weights: str = "auto",
        temperature: float = 0.1,
        views: Views = "cross",
        symmetric: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(
            kernel,
            ridge=ridge,
            solver=solver,
            weights=weights,
            temperature=temperature,
            views=views,
            symmetric=symmetric,
            gather_distributed=gather_distributed,
            reduction=reduction,
            learn_temperature=learn_temperature,
        )
