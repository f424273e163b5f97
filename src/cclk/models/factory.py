"""Encoders by name or import path."""

from __future__ import annotations

from typing import Any

from torch import nn

from cclk.errors import SettingsError
from cclk.models.encoder import Encoder
from cclk.models.lenet import LeNet5
from cclk.registry import ENCODERS


def build_encoder(
    name: str,
    *,
    channels: int,
    size: int,
    feature_width: int | None = None,
    feature_noise: float = 0.0,
    **options: Any,
) -> Encoder:
    """Build an encoder for images or vectors.

    - "lenet5": 32 pixels, 84 features.
    - "resnet18", "resnet34", "resnet50": options `stem` ("cifar" or "imagenet"), `width` (64),
      `blocks`, such as (1, 1, 1, 1), and `zero_init_residual` (False).
    - "mobilenetv2": 1280 features; options `pretrained` (start from the ImageNet weights) and
      `resize` (pixels to scale images to first).
    - "mlp": for vectors; option `hidden`, the widths of its layers.
    - "package.module:factory": a function or class that returns an `nn.Module`. It is called with
      the options, and with `channels` and `size` if it has parameters of these names.

    Args:
        name: Name or import path of the encoder.
        channels: Number of channels of the images, or length of the vectors.
        size: Height and width of the images in pixels; 0 for vectors.
        feature_width: Number of features, by a linear layer after the network; None keeps its
            own number.
        feature_noise: Standard deviation of the noise on the features; see `FeatureNoise`.
        options: Options of the encoder.

    Example:
        >>> build_encoder("lenet5", channels=3, size=32).width
        84
    """
    if channels < 1:
        raise ValueError(f"channels is {channels}: the data have at least 1")
    network = ENCODERS.create(name, {"channels": channels, "size": size}, options)
    if not isinstance(network, nn.Module):
        raise SettingsError(
            f"the encoder {name!r} is a {type(network).__name__}: it must be a torch.nn.Module"
        )
    return Encoder(
        network, channels=channels, size=size, width=feature_width, feature_noise=feature_noise
    )


def lenet5(channels: int, size: int) -> nn.Module:
    if size == 0:
        raise SettingsError("the encoder 'lenet5' takes images, not vectors: use 'mlp'")
    if size != 32:
        raise SettingsError(
            f"the encoder 'lenet5' takes images of 32 x 32 pixels, not {size} x {size}: resize"
            " them, or use a resnet"
        )
    return LeNet5(channels)
