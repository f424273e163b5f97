"""LeNet-5, the encoder of the paper's ColorMNIST experiments."""

from __future__ import annotations

from torch import Tensor, nn


class LeNet5(nn.Module):
    """LeNet-5 with tanh and average pooling: images (b, channels, 32, 32) to (b, 84) features."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, 6, 5), nn.Tanh(), nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        )  # fmt: skip
        # The third convolution of the original covers all of its 5 x 5 input: a linear layer.
        self.features = nn.Sequential(
            nn.Flatten(), nn.Linear(16 * 5 * 5, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh()
        )

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.features(self.convolutions(images))
        return features
