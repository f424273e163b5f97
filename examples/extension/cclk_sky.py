"""An extension of cclk: measurements of the sky, without the hour of the day.

`Periodic` is a kernel, `FairByHour` a loss on autograd, `FAIR_BY_HOUR` the method that uses it, and
`sky` a synthetic dataset. cclk finds them by import path, `cclk_sky:Periodic`, or by the names in
pyproject.toml once the package is installed.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclk.columns import Column
from cclk.condition import Columns, Condition
from cclk.data import Dataset, Split
from cclk.kernels import Kernel
from cclk.training.methods import MethodSpec


class Periodic(Kernel):
    """k(a, b) = exp(-2 sin^2(pi (a - b) / period) / length_scale^2), so that 23:59 is near 0:01.

    Args:
        columns: The column of the condition.
        length_scale: In radians on the circle; "auto" is 0.25, an hour of a day.
        period: In the units of the column.
    """

    local = True
    standardize = False  # training must leave the hours in hours

    def __init__(
        self,
        columns: Columns | None = None,
        *,
        length_scale: float | str = "auto",
        period: float = 24.0,
    ) -> None:
        self.columns, self.period = columns, period
        self.length_scale = 0.25 if isinstance(length_scale, str) else length_scale

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        hours = a.select(self.columns) - b.select(self.columns).T
        return torch.exp(-2 * torch.sin(math.pi * hours / self.period) ** 2 / self.length_scale**2)

    def on(self, columns: Columns) -> Periodic:
        return Periodic(columns, length_scale=self.length_scale, period=self.period)

    def __repr__(self) -> str:
        return f"Periodic({self.columns!r}, length_scale={self.length_scale:g})"


class FairByHour(nn.Module):
    """InfoNCE whose negatives are averaged with the weights of a kernel.

    Args:
        kernel: Similarity of conditions.
        temperature: Scores are cosine similarities divided by it.
    """

    def __init__(self, kernel: Kernel, temperature: float = 0.1) -> None:
        super().__init__()
        self.kernel, self.temperature = kernel, temperature

    def forward(self, x: Tensor, y: Tensor, condition: Condition) -> Tensor:
        scores = F.normalize(x) @ F.normalize(y).T / self.temperature
        weights = self.kernel(condition).fill_diagonal_(0)
        weights = weights / weights.sum(dim=1, keepdim=True)
        positives = scores.diagonal()
        negatives = math.log(len(x) - 1) + (weights.log() + scores).logsumexp(dim=1)
        return (torch.logaddexp(positives, negatives) - positives).mean()


FAIR_BY_HOUR = MethodSpec(FairByHour)


def sky(seed: int = 0, rows: int = 600) -> Dataset:
    """Measurements of three kinds of clouds, which also depend on the weather and on the hour.

    Args:
        seed: Seed of the measurements.
        rows: Number of measurements.
    """
    generator = torch.Generator().manual_seed(seed)
    clouds = torch.randint(0, 3, (rows,), generator=generator)
    hour = 24 * torch.rand(rows, 1, generator=generator)
    angle = 2 * math.pi * hour / 24
    weather = torch.randn(rows, 5, generator=generator)
    causes = torch.cat([3 * F.one_hot(clouds, 3), weather, 2 * angle.cos(), 2 * angle.sin()], dim=1)
    x = causes @ torch.randn(10, 20, generator=generator)
    everything = Split(x, clouds, hour)
    part = rows // 6
    train, validation, test = (
        everything.subset(torch.arange(start, stop))
        for start, stop in ((2 * part, rows), (part, 2 * part), (0, part))
    )
    return Dataset(
        "sky",
        train,
        validation,
        test,
        classes=("clear", "cumulus", "stratus"),
        columns=(Column("hour"),),
        description=f"sky: {rows} measurements of clouds at an hour of the day",
    )
