"""Encoders by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from cclk.models.encoder import Encoder
from cclk.models.lenet import LeNet5
from cclk.models.mlp import MLP
from cclk.models.mobilenet import MobileNetFeatures
from cclk.models.resnet import ResNet

ENCODERS = ("lenet5", "resnet18", "resnet34", "resnet50", "mobilenetv2", "mlp")


def build_encoder(name: str, *, channels: int, size: int, **options: Any) -> Encoder:
    """The encoder of that name, for images of `size` pixels and `channels` channels.

    - "lenet5": 32 pixels, 84 features.
    - "resnet18", "resnet34", "resnet50": options `stem` ("cifar" or "imagenet"), `width` (64) and
      `blocks`, such as (1, 1, 1, 1).
    - "mobilenetv2": 1280 features; options `pretrained` (begin with the ImageNet weights) and
      `resize` (pixels to scale images to first).
    - "mlp": vectors of length `channels`, size ignored; option `hidden`, the widths of its layers.
    - "package.module:factory": any function or class that gives an `nn.Module`. It gets the
      options, and `channels` and `size` if it has arguments of these names. Size 0 says that the
      data are vectors.

    >>> build_encoder("lenet5", channels=3, size=32).width
    84
    """
    if channels < 1:
        raise ValueError(f"channels is {channels}: the data have at least 1")
    if ":" in name:
        return Encoder(_imported(name, channels, size, options), channels=channels, size=size)
    match name:
        case "lenet5":
            if size != 32:
                raise ValueError(
                    f"the encoder 'lenet5' takes images of 32 x 32 pixels, not {size} x {size}:"
                    " resize them, or use a resnet"
                )
            _check(name, options, ())
            return Encoder(LeNet5(channels), channels=channels, size=size)
        case "resnet18" | "resnet34" | "resnet50":
            _check(name, options, ("stem", "width", "blocks"))
            return Encoder(
                ResNet(channels, depth=int(name[-2:]), **options), channels=channels, size=size
            )
        case "mobilenetv2":
            _check(name, options, ("pretrained", "resize"))
            return Encoder(MobileNetFeatures(channels, **options), channels=channels, size=size)
        case "mlp":
            _check(name, options, ("hidden",))
            return Encoder(MLP(channels, **options), channels=channels, size=0)
    raise ValueError(
        f"unknown encoder {name!r}: choose one of {', '.join(ENCODERS)}, or an import path"
        " 'package.module:factory'"
    )


def _check(name: str, options: dict[str, Any], known: tuple[str, ...]) -> None:
    for option in options:
        if option not in known:
            raise ValueError(
                f"the encoder {name!r} has no option {option!r}: "
                + (f"it knows {', '.join(known)}" if known else "it has none")
            )


def _imported(path: str, channels: int, size: int, options: dict[str, Any]) -> nn.Module:
    module_name, _, attribute = path.partition(":")
    try:
        factory: Callable[..., Any] = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, TypeError, ValueError) as error:
        raise ValueError(
            f"encoder {path!r}: the module {module_name!r} cannot be imported: {error}"
        ) from error
    except AttributeError as error:
        raise ValueError(
            f"encoder {path!r}: the module {module_name!r} has no {attribute!r}"
        ) from error
    if not callable(factory):
        raise ValueError(f"encoder {path!r}: a {type(factory).__name__} is no function or class")
    parameters = inspect.signature(factory).parameters
    shape = {
        key: value for key, value in (("channels", channels), ("size", size)) if key in parameters
    }
    try:
        network = factory(**(shape | options))
    except TypeError as error:
        raise ValueError(
            f"encoder {path!r} cannot be built with {shape | options}: {error}"
        ) from error
    if not isinstance(network, nn.Module):
        raise ValueError(
            f"encoder {path!r} gives a {type(network).__name__}, not a torch.nn.Module"
        )
    return network
