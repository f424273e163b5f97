"""Multilayer perceptron, for vectors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from cclk.errors import SettingsError


class MLP(nn.Module):
    """Vectors (b, inputs) to (b, hidden[-1]) features: linear, batch norm and ReLU per layer.

    Args:
        inputs: number of columns of the vectors.
        hidden: width of each layer.
    """

    def __init__(self, inputs: int, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        if not hidden or min(hidden) < 1:
            raise SettingsError(
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
