"""HardNeg-CCLK: find the condition hard; by default it is the embedding itself."""

from __future__ import annotations

from torch import Tensor

from cclk.kernels import Cosine, Kernel
from cclk.losses.conditional import ConditionalLoss, Conditioning, conditional_contrast
from cclk.losses.negatives import weighted_negatives
from cclk.losses.options import Options, Reduction, Support, Temperature, Views
from cclk.operator.solvers import Solver


def hard_neg_cclk(
    x: Tensor,
    y: Tensor,
    condition: object = None,
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
    """`HardNegCCLK` as a function; the arguments are those of the class and of its call."""
    conditioning = Conditioning(kernel, ridge, solver, weights)
    options = Options(temperature, views, symmetric, gather_distributed, reduction)
    return conditional_contrast(
        x,
        y,
        condition,
        support,
        conditioning,
        options,
        weighted_negatives,
        embeddings_condition=True,
    )[0]


class HardNegCCLK(ConditionalLoss):
    r"""Equation 7: contrast each anchor with samples whose embeddings are similar to its own.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + n\, c_i}, \quad c_i = \sum_j
    w(z_j, z_i)\, e^{S_{ij}},
              \quad z_i = \mathrm{detach}(x_i)

    Positives from P(X, Y), negatives from P(X | Z) P(Y | Z). Without a condition, the anchor's
    embedding as passed (not normalized) is the condition; where y is the anchor (symmetric=True),
    y's. It is one vector with one length scale.

    Args:
        kernel: How similar two values of the condition are. The default is `Cosine`, which needs no
            length scale: embeddings move during training, so a length scale fitted on the first
            batch would soon be wrong.
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
        x, y: (b, d); condition: None, (b,), (b, k) or a mapping. `support`: ((q, d), None or q rows
            of condition).
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> HardNegCCLK(temperature=1.0)(x, x) > 0
        tensor(True)
    """

    release_ridge = 100.0

    @staticmethod
    def default_kernel() -> Kernel:
        return Cosine()

    def forward(
        self, x: Tensor, y: Tensor, condition: object = None, support: Support | None = None
    ) -> Tensor:
        return self.compute(x, y, condition, support, weighted_negatives, own=True)
