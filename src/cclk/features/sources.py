"""Extractors by where their encoder comes from: a name or import path, a file of weights, an
ONNX file, open_clip.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cclk.errors import FeatureError
from cclk.features.clip import clip_extractor
from cclk.features.extractor import Extractor, Preparation, first_line
from cclk.features.onnx import onnx_extractor
from cclk.files import read_tensors
from cclk.models import ENCODERS, build_encoder

Numbers = Sequence[float] | None

_MOBILENET_SIZE = 128
"""Pixels to which smaller images are enlarged for mobilenetv2."""


def build_extractor(
    source: str,
    *,
    channels: int,
    pixels: int,
    weights: Path | str | None = None,
    options: Mapping[str, Any] | None = None,
    size: int | None = None,
    mean: Numbers = None,
    std: Numbers = None,
) -> Extractor:
    """The extractor for images of so many channels and pixels per side.

    Args:
        source: one of

            - "mobilenetv2": with its ImageNet weights; images smaller than 128 pixels are enlarged
              to that.
            - "RUN/encoder.safetensors": the encoder of a finished run of cclk.
            - "package.module:factory": any function or class that gives an `nn.Module`; see
              `cclk.models.build_encoder`.
            - the name of an encoder of cclk, with its `weights`.
            - "network.onnx": its first output, by onnxruntime. Images are normalized as ImageNet's.
            - "open_clip:ViT-B-32/openai": a model of open_clip and its pretrained weights, prepared
              as these say.
        weights: a .safetensors file for an encoder by name or import path.
        options: of the encoder.
        size: pixels per side that images are scaled to first; None: what the source says, else the
            images' own.
        mean, std: the network sees (x - mean) / std with x in 0..1, instead of what it saw
            otherwise; one number, or one per channel.
    """
    options = dict(options or {})
    if (mean is None) != (std is None):
        raise FeatureError("give mean and std both, or neither")
    if source.startswith("open_clip:") or source.endswith(".onnx"):
        for name, value in (("options", options), ("weights", weights)):
            if value:
                raise FeatureError(f"{source} takes no {name}: leave them out")
        return (onnx_extractor if source.endswith(".onnx") else clip_extractor)(
            source, pixels, size, mean, std
        )
    if source.endswith(".safetensors"):
        if weights is not None or options:
            raise FeatureError(
                f"{source} says itself what its encoder is: leave out weights and options, or name"
                " the encoder instead"
            )
        encoder, options = _encoder_of_run(Path(source).expanduser())
        return _encoder_extractor(
            source, encoder, channels, size or pixels, Path(source), options, mean, std
        )
    if source == "mobilenetv2":
        if mean is not None:
            raise FeatureError("mobilenetv2 normalizes its images itself: leave out mean and std")
        options = {"pretrained": weights is None} | options
        size = size or max(pixels, _MOBILENET_SIZE)
    elif source in ENCODERS and weights is None:
        raise FeatureError(
            f"the encoder {source} has no weights of its own: give a .safetensors file of them, or"
            " use mobilenetv2"
        )
    return _encoder_extractor(source, source, channels, size or pixels, weights, options, mean, std)


def _encoder_extractor(
    name: str,
    encoder: str,
    channels: int,
    size: int,
    weights: Path | str | None,
    options: dict[str, Any],
    mean: Numbers,
    std: Numbers,
) -> Extractor:
    """The extractor of one of our encoders, which see images as (x - 0.5) / 0.25."""
    prepare = Preparation(size=size)
    if mean is not None and std is not None:
        # Chosen so that what the encoder makes of it is (x - mean) / std.
        if len(mean) != len(std):
            raise FeatureError(
                f"mean has {len(mean)} numbers, but std has {len(std)}: give as many"
            )
        prepare = Preparation(
            size=size,
            mean=[m - 2 * s for m, s in zip(mean, std, strict=True)],
            std=[4 * s for s in std],
        )
    with torch.random.fork_rng(
        devices=[]
    ):  # initial weights, where nothing replaces them, are always the same
        torch.manual_seed(0)
        network = build_encoder(encoder, channels=channels, size=size, **options)
    if weights is not None:
        path = Path(weights).expanduser()
        try:
            network.network.load_state_dict(_network_weights(_read(path)[0]))
        except RuntimeError as error:
            first = " ".join(str(error).splitlines()[1:2]).strip() or str(error)
            raise FeatureError(
                f"{path} does not fit the encoder {encoder} for {channels} x {size} x {size}"
                f" images: {first}"
            ) from error
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = network.eval().to(device)
    about = {"encoder_options": options, "size": size, "mean": mean, "std": std}
    if weights is not None and str(weights) != name:
        about["weights"] = str(weights)
    return Extractor(name, lambda x: network(x.to(device)), prepare, about)


def _encoder_of_run(path: Path) -> tuple[str, dict[str, Any]]:
    """Name and options of the encoder of a run, as the run's file tells them."""
    metadata = _read(path)[1]
    try:
        model = json.loads(metadata["settings"])["model"]
        return model["encoder"], dict(model["encoder_options"])
    except (KeyError, TypeError, ValueError) as error:
        raise FeatureError(
            f"{path} is not the encoder.safetensors of a run: name its encoder, and give the file"
            " as its weights"
        ) from error


def _network_weights(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the network alone, from a run (encoder and head), an `Encoder`, or a
    network's own.
    """
    for prefix in ("encoder.network.", "network."):
        found = {
            key.removeprefix(prefix): value
            for key, value in tensors.items()
            if key.startswith(prefix)
        }
        if found:
            return found
    return tensors


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not path.is_file():
        raise FeatureError(f"there is no file {path}: give a .safetensors file of weights")
    try:
        return read_tensors(path)
    except OSError as error:
        raise FeatureError(
            f"{path} is not a .safetensors file, or damaged: {first_line(error)}"
        ) from error
