"""y-Aware against its equation, as plain loops."""

from __future__ import annotations

import math

import torch
from cclk_paper.experiments.y_aware import METHOD, YAware
from torch import Tensor

from cclk.kernels import RBF


def by_loops(x: Tensor, y: Tensor, z: Tensor, scale: float, temperature: float) -> float:
    views = [row / row.norm() for row in torch.cat([x, y])]
    conditions = [*z.tolist(), *z.tolist()]
    total = 0.0
    for i, anchor in enumerate(views):
        others = [j for j in range(len(views)) if j != i]
        scores = {j: float(anchor @ views[j]) / temperature for j in others}
        weights = {
            j: math.exp(-((conditions[i] - conditions[j]) ** 2) / (2 * scale**2)) for j in others
        }
        normalizer = math.log(sum(math.exp(scores[j]) for j in others))
        mean = sum(weights[j] * (scores[j] - normalizer) for j in others) / sum(weights.values())
        total -= mean / len(views)
    return total


def test_it_is_its_equation() -> None:
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 7, 5, generator=random, dtype=torch.float64).unbind()
    z = torch.rand(7, generator=random, dtype=torch.float64)
    loss = YAware(RBF(length_scale=0.3), temperature=0.4)
    torch.testing.assert_close(float(loss(x, y, z)), by_loops(x, y, z, 0.3, 0.4))
    x.requires_grad_()
    torch.autograd.gradcheck(lambda x: loss(x, y, z), (x,))


def test_it_is_a_method() -> None:
    assert METHOD.needs_condition
    assert METHOD.takes("kernel")
    assert METHOD.takes("temperature")
