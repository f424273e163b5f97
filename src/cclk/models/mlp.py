"""Multilayer perceptron, for vectors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from cclk.errors import SettingsError


def hidden_layer(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """Return linear, batch norm and ReLU; a bias before a batch norm would have no effect."""
    linear = nn.Linear(inputs, outputs, bias=False)
    return linear, nn.BatchNorm1d(outputs), nn.ReLU(inplace=True)


class MLP(nn.Module):
    """Vectors (b, channels) to (b, hidden[-1]) features: linear, batch norm and ReLU per layer.

    Args:
        channels: number of columns of the vectors.
        hidden: width of each layer.
    """

    def __init__(self, channels: int, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        if not hidden or min(hidden) < 1:
            raise SettingsError(
                f"hidden is {hidden}: it must be one positive width per layer, such as (256, 256)"
            )
        layers: list[nn.Module] = []
        for width in hidden:
            layers += hidden_layer(channels, width)
            channels = width
        self.layers = nn.Sequential(*layers)

    def forward(self, vectors: Tensor) -> Tensor:
        features: Tensor = self.layers(vectors)
        return features
