"""Fair-CCLK: ignore the condition."""

from __future__ import annotations

from torch import Tensor

from cclk.kernels import Kernel
from cclk.losses.conditional import ConditionalLoss, Conditioning, conditional_contrast
from cclk.losses.negatives import weighted_negatives
from cclk.losses.options import Options, Reduction, Support, Temperature, Views
from cclk.operator.solvers import Solver


def fair_cclk(
    x: Tensor,
    y: Tensor,
    condition: object,
    *,
    kernel: Kernel,
    ridge: float = 0.01,
    solver: Solver = "auto",
    weights: str = "loo",
    support: Support | None = None,
    temperature: Temperature = 0.1,
    views: Views = "cross",
    symmetric: bool = False,
    gather_distributed: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """`FairCCLK` as a function; the arguments are those of the class and of its call."""
    conditioning = Conditioning(kernel, ridge, solver, weights)
    options = Options(temperature, views, symmetric, gather_distributed, reduction)
    return conditional_contrast(
        x, y, condition, support, conditioning, options, weighted_negatives
    )[0]


class FairCCLK(ConditionalLoss):
    r"""Equation 6: contrast each anchor with samples that share its condition, so the condition
    cannot be used to tell them apart.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + n\, c_i}, \quad c_i = \sum_j
    w(z_j, z_i)\, e^{S_{ij}}

    Positives from P(X, Y | Z), negatives from P(X | Z) P(Y | Z), estimated with the weights w of
    `cclk.operator.weights`; n is the number of negatives InfoNCE would have (b - 1 with
    views="cross").

    Args:
        kernel: How similar two values of the condition are. The default suits numbers; `Delta` is
            for categories.
        ridge: Regularization of the operator W = (K + ridge I)^-1 K.
        solver: How W is computed: "auto", "exact", "features", "nystrom" or
            `cclk.Nystrom(landmarks)`; after a call, `loss.report` says what "auto" selected and
            why.
        weights: "loo" (leave-one-out), "paper" (the literal equation), "release" (the authors'
            code) or "nw" (kernel average).
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
        x, y: (b, d); condition: (b,), (b, k) or a mapping of columns. `support`: ((q, d), q rows of
            condition).
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> from cclk.kernels import Delta
        >>> x = torch.eye(4)
        >>> loss = FairCCLK(Delta(), ridge=1e-6, temperature=1.0)
        >>> loss(x, x, torch.tensor([0, 0, 1, 1]))
        tensor(0.7437)
    """

    def forward(
        self, x: Tensor, y: Tensor, condition: object, support: Support | None = None
    ) -> Tensor:
        return self.compute(x, y, condition, support, weighted_negatives)
