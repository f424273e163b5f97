"""y-Aware contrastive learning, to compare WeaklySup-CCLK with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclk.condition import as_condition
from cclk.kernels import Kernel
from cclk.training.methods import MethodSpec


class YAware(nn.Module):
    r"""Every sample is a positive, weighted by the kernel of the conditions.

    .. math:: L = -\frac{1}{2b} \sum_i \sum_{j \ne i} \frac{k_{ij}}{\sum_{l \ne i} k_{il}} \log
              \frac{e^{S_{ij}}}{\sum_{l \ne i} e^{S_{il}}}

    over the 2b views of a batch: the other view of an anchor has the same condition, so k = 1.
    Written for one process and batches of hundreds: it keeps the full matrix of scores.

    Args:
        kernel: Similarity of conditions; must have been fitted.
        temperature: Scores are cosine similarities divided by the temperature.

    Shape:
        x, y: (b, d), of any norm.
        condition: of b samples.
        Result: a scalar.

    Example:
        >>> from cclk.kernels import Delta
        >>> x = torch.eye(3)
        >>> YAware(Delta(), temperature=1.0)(x, x, torch.tensor([0, 1, 2]))
        tensor(0.9048)

    Reference:
        Dufumier et al., Contrastive Learning with Continuous Proxy Meta-data for 3D MRI
        Classification, MICCAI 2021.
    """

    def __init__(self, kernel: Kernel, temperature: float = 0.1) -> None:
        super().__init__()
        self.kernel, self.temperature = kernel, temperature

    def forward(self, x: Tensor, y: Tensor, condition: object) -> Tensor:
        views = F.normalize(torch.cat([x, y]), dim=1)
        scores = views @ views.T / self.temperature
        own = torch.eye(len(views), dtype=torch.bool, device=views.device)
        with torch.no_grad():
            kernel = self.kernel(as_condition(condition)).to(scores).repeat(2, 2)
            weights = kernel.masked_fill(own, 0.0)
            shares = weights / weights.sum(dim=1, keepdim=True)
        total = scores.masked_fill(own, -torch.inf).logsumexp(dim=1)
        loss: Tensor = (total - (shares * scores).sum(dim=1)).mean()
        return loss


METHOD = MethodSpec(YAware)
