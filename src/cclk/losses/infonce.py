"""InfoNCE: the unconditional loss."""

from cclk.losses.base import ContrastiveLoss
from cclk.losses.objectives import Marginal


class InfoNCE(ContrastiveLoss):
    r"""Equation 1: contrast the other view of each anchor with all other samples.

    .. math:: L = -\frac1b \sum_i \log \frac{e^{S_{ii}}}{e^{S_{ii}} + \sum_{j \ne i} e^{S_{ij}}},
              \quad S_{ij} = \cos(x_i, y_j) / \mathrm{temperature}

    Positives from P(X, Y), negatives from P(X) P(Y).

    Args:
        {options}

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

    objective = Marginal
