"""Encoders by name and by import path."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from cclk.models import Encoder, InputTransform, build_encoder
from cclk.registry import ENCODERS


@pytest.mark.parametrize(
    ("name", "options", "width"),
    [
        ("lenet5", {}, 84),
        ("resnet18", {"width": 4}, 32),
        ("resnet34", {"width": 4, "blocks": [1, 1, 1, 1]}, 32),
        ("resnet50", {"width": 4, "blocks": (1, 1, 1, 1), "stem": "imagenet"}, 128),
        ("mlp", {"hidden": [16, 9]}, 9),
    ],
)
def test_named_encoders(name: str, options: dict[str, Any], width: int) -> None:
    assert name in ENCODERS
    encoder = build_encoder(name, channels=5, size=0 if name == "mlp" else 32, **options)
    assert encoder.width == width
    batch = torch.rand(3, 5) if name == "mlp" else torch.rand(3, 5, 32, 32)
    assert encoder(batch).shape == (3, width)
    assert encoder.training
    # Finding the width leaves no trace, and files of weights want plain layouts.
    assert all(
        module.num_batches_tracked == 1
        for module in encoder.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
    )
    assert all(value.is_contiguous() for value in encoder.state_dict().values())


def test_raw_samples_are_scaled_inside_and_views_only_normalized() -> None:
    encoder = build_encoder("lenet5", channels=1, size=32)
    raw = torch.randint(0, 256, (4, 1, 32, 32), dtype=torch.uint8)
    images = raw / 255
    kept = images.clone()
    expected = encoder.network((images - 0.5) / 0.25)
    for features in (encoder(raw), encoder(images), encoder.encode(images)):
        torch.testing.assert_close(features, expected)
    assert torch.equal(images, kept)
    vectors = torch.rand(4, 6)
    plain = Encoder(nn.Identity(), channels=6, size=0)
    assert torch.equal(plain(vectors), vectors)
    plain.inputs.fit(vectors)
    assert torch.equal(plain.encode(vectors), vectors)
    assert not torch.equal(plain(vectors), vectors)


def test_a_network_may_define_its_input_transform() -> None:
    class Own(nn.Flatten):
        def input_transform(self) -> InputTransform:
            return InputTransform(1, mean=0.0, std=0.5)

    ones = torch.ones(2, 1, 3, 3)
    assert torch.equal(Encoder(Own(), channels=1, size=3)(ones), torch.full((2, 9), 2.0))


def test_the_transform_has_the_networks_dtype() -> None:
    encoder = Encoder(nn.Linear(3, 2).double(), channels=3, size=0)
    assert encoder(torch.rand(4, 3)).dtype == torch.float64


def test_gradients_reach_the_images() -> None:
    encoder = build_encoder("lenet5", channels=1, size=32)
    images = torch.rand(2, 1, 32, 32, requires_grad=True)
    encoder(images).sum().backward()
    assert images.grad is not None
    assert images.grad.abs().sum() > 0


def flat(channels: int, size: int, width: int = 3) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, width))


def pooled(**options: int) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(options["cells"]), nn.Flatten())


def unpooled() -> nn.Module:
    return nn.Conv2d(3, 4, 3)


def listed() -> list[int]:
    return [1]


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of another package, as an import path sees it."""
    module = ModuleType("shop")
    for item in (flat, pooled, unpooled, listed, Pair):
        setattr(module, item.__name__, item)
    monkeypatch.setitem(sys.modules, "shop", module)


def test_an_import_path_is_an_encoder() -> None:
    assert build_encoder("shop:flat", channels=3, size=8).width == 3
    assert build_encoder("shop:flat", channels=3, size=8, width=7).width == 7
    assert build_encoder("shop:pooled", channels=3, size=8, cells=2).width == 12
    assert build_encoder("torch.nn:Identity", channels=5, size=0).width == 5


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "lenet",
            {},
            (
                "unknown encoder 'lenet' (did you mean 'lenet5'?): choose lenet5, resnet18,"
                " resnet34, resnet50, mobilenetv2, mlp, or an import path"
            ),
        ),
        ("lenet5", {"stem": "cifar"}, "the encoder 'lenet5' has no option 'stem': it takes none"),
        (
            "resnet18",
            {"stems": "cifar"},
            "the encoder 'resnet18' has no option 'stems': it takes stem, width, blocks",
        ),
        (
            "resnet18",
            {"stem": "mnist"},
            "unknown stem 'mnist': choose 'cifar' (small images) or 'imagenet'",
        ),
        ("resnet18", {"blocks": (1, 1)}, "blocks is (1, 1): it must be four numbers"),
        ("resnet18", {"width": 0}, "width is 0: a network has at least 1 channel"),
        ("mlp", {"hidden": ()}, "hidden is (): it must be one positive width per layer"),
        (
            "no_such_module:f",
            {},
            "the encoder 'no_such_module:f' cannot be imported: No module named 'no_such_module'",
        ),
        (
            "shop:absent",
            {},
            "the encoder 'shop:absent' cannot be imported: module 'shop' has no attribute 'absent'",
        ),
        (":f", {}, "unknown encoder ':f': choose"),
        ("math:pi", {}, "the encoder 'math:pi' is a float: it must be a class or function"),
        ("builtins:dict", {}, "the encoder 'builtins:dict' cannot be called: no signature found"),
        (
            "torch.nn:Linear",
            {},
            "the encoder 'torch.nn:Linear' needs in_features, out_features: set",
        ),
        (
            "shop:flat",
            {"depth": 3},
            "the encoder 'shop:flat' has no option 'depth': it takes width",
        ),
        ("shop:listed", {}, "the encoder 'shop:listed' is a list: it must be a torch.nn.Module"),
        (
            "shop:unpooled",
            {},
            (
                "must return features (b, width), but for a batch of shape (2, 3, 32, 32) this one"
                " returns torch.Size([2, 4, 30, 30])"
            ),
        ),
        ("shop:Pair", {}, "for a batch of shape (2, 3, 32, 32) this one returns tuple"),
        (
            "torch.nn:Linear",
            {"in_features": 4, "out_features": 2},
            "the encoder cannot take a batch of shape (2, 3, 32, 32): ",
        ),
    ],
)
def test_mistakes_are_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        build_encoder(name, channels=3, size=32, **options)
    assert "\n" not in str(caught.value)


def test_lenet_wants_32_pixels() -> None:
    with pytest.raises(
        ValueError, match="the encoder 'lenet5' takes images of 32 x 32 pixels, not 28 x 28"
    ):
        build_encoder("lenet5", channels=1, size=28)
    with pytest.raises(ValueError, match="'lenet5' takes images, not vectors: use 'mlp'"):
        build_encoder("lenet5", channels=5, size=0)
    with pytest.raises(ValueError, match="channels is 0"):
        build_encoder("lenet5", channels=0, size=32)
