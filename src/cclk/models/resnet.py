"""ResNet-18, -34 and -50 (He et al. 2016), without the classification layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn

from cclk.errors import SettingsError

Stem = Literal["cifar", "imagenet"]


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


class _ResidualBlock(nn.Module):
    """ReLU(branch(x) + x), with a 1 x 1 convolution of x where the shapes differ."""

    def __init__(
        self, inputs: int, planes: int, stride: int, bottleneck: bool, zero_init_residual: bool
    ) -> None:
        super().__init__()
        outputs = 4 * planes if bottleneck else planes
        convolutions = [(inputs, planes, 3, stride), (planes, planes, 3, 1)]
        if bottleneck:
            convolutions = [(inputs, planes, 1, 1), (planes, planes, 3, stride)]
            convolutions.append((planes, outputs, 1, 1))
        layers: list[nn.Module] = []
        for shape in convolutions:
            norm = nn.BatchNorm2d(shape[1])
            layers += [_convolution(*shape), norm, nn.ReLU(inplace=True)]
        self.branch = nn.Sequential(*layers[:-1])
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                _convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)
            )
        self.relu = nn.ReLU(inplace=True)
        if zero_init_residual:
            nn.init.zeros_(norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.branch(x) + self.shortcut(x))
        return out


_MOST_BLOCKS = 256
_DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


class ResNet18(nn.Module):
    """Images (b, channels, h, w) to (b, 8 width) features.

    Args:
        channels: number of channels of the images.
        stem: "imagenet" is a 7 x 7 convolution of stride 2 and a max pool; "cifar", for small
            images, is a 3 x 3 convolution without pooling.
        width: number of channels after the stem.
        blocks: number of blocks in each of the four stages; None: the standard ones.
        zero_init_residual: initialize every block as its shortcut, which improves long training of
            deep networks (Goyal et al. 2017). A short training of a small network spends much of
            its time on leaving this state.
    """

    depth: ClassVar[int] = 18

    def __init__(
        self,
        channels: int,
        *,
        stem: Stem = "cifar",
        width: int = 64,
        blocks: Sequence[int] | None = None,
        zero_init_residual: bool = False,
    ) -> None:
        super().__init__()
        if stem not in ("cifar", "imagenet"):
            raise SettingsError(
                f"unknown stem {stem!r}: choose 'cifar' (small images) or 'imagenet'"
            )
        if width < 1:
            raise SettingsError(f"width is {width}: a network has at least 1 channel")
        if blocks is not None and (
            len(blocks) != 4 or not 1 <= min(blocks) <= max(blocks) <= _MOST_BLOCKS
        ):
            raise SettingsError(
                f"blocks is {blocks}: it must be four numbers from 1 to {_MOST_BLOCKS}, one per"
                " stage, such as (1, 1, 1, 1)"
            )
        bottleneck = self.depth == 50
        kernel, stride = (3, 1) if stem == "cifar" else (7, 2)
        layers: list[nn.Module] = [
            _convolution(channels, width, kernel, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        if stem == "imagenet":
            layers.append(nn.MaxPool2d(3, 2, padding=1))
        inputs = width
        for stage, count in enumerate(blocks or _DEPTHS[self.depth]):
            planes = width * 2**stage
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                layers.append(
                    _ResidualBlock(inputs, planes, stride, bottleneck, zero_init_residual)
                )
                inputs = 4 * planes if bottleneck else planes
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images)
        return features


class ResNet34(ResNet18):
    """`ResNet18` with more blocks."""

    depth = 34


class ResNet50(ResNet18):
    """Images (b, channels, h, w) to (b, 32 width) features, by blocks of three convolutions."""

    depth = 50
