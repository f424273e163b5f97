"""A network of linear layers, for conditions and data that are vectors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class MLP(nn.Module):
    """Vectors (b, inputs) to (b, hidden[-1]): linear, batch norm and ReLU for each number in
    `hidden`.
    """

    def __init__(self, inputs: int, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        if not hidden or min(hidden) < 1:
            raise ValueError(
                f"hidden is {hidden}: it must be one positive width per layer, such as (256, 256)"
            )
        layers: list[nn.Module] = []
        for before, after in zip((inputs, *hidden), hidden, strict=False):
            layers += [
                nn.Linear(before, after, bias=False),
                nn.BatchNorm1d(after),
                nn.ReLU(inplace=True),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, vectors: Tensor) -> Tensor:
        features: Tensor = self.layers(vectors)
        return features
