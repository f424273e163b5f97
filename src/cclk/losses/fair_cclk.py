"""Fair-CCLK: ignore the condition."""

from cclk.losses.base import ConditionalLoss
from cclk.losses.objectives import WeightedNegatives


class FairCCLK(ConditionalLoss):
    r"""Equation 8: contrast each anchor with samples that share its condition, so the condition
    cannot be used to tell them apart.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + n\, c_i}, \quad
              c_i = \sum_j w(z_j, z_i)\, e^{S_{ij}}

    Positives from P(X, Y | Z), negatives from P(X | Z) P(Y | Z), estimated with the weights w of
    `cclk.weights`. n is the number of negatives of InfoNCE (b - 1 with views="cross").

    Args:
        {kernel}
        {weights}
        {options}

    Shape:
        {shape}

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

    objective = WeightedNegatives
    default_weights = "nw"
