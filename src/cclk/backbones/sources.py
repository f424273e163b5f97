"""Extractors by source: name or import path of an encoder, weights, ONNX file, open_clip."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cclk._files import read_tensors
from cclk._reading import parse_json, reason
from cclk.backbones.clip import clip_extractor
from cclk.backbones.extractor import Extractor, first_line
from cclk.backbones.onnx import onnx_extractor
from cclk.errors import FeatureError
from cclk.models import InputTransform, build_encoder
from cclk.registry import ENCODERS, require_trust

_MOBILENET_SIZE = 128
"""Pixels per side to which smaller images are enlarged for mobilenetv2."""


def build_extractor(
    source: str,
    *,
    channels: int,
    pixels: int,
    weights: Path | str | None = None,
    options: Mapping[str, object] | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    trust_code: bool | Collection[str] = False,
) -> Extractor:
    """Build the extractor of an image encoder.

    Args:
        source: one of

            - "mobilenetv2": with ImageNet weights; images smaller than 128 pixels are enlarged.
            - "RUN/encoder.safetensors": the encoder of a finished run.
            - "package.module:factory": any function or class that returns an `nn.Module`; see
              `cclk.models.build_encoder`.
            - the name of an encoder, such as "resnet18", with its `weights`.
            - "network.onnx": the first output of an ONNX file; images are normalized as ImageNet's.
            - "open_clip:ViT-B-32/openai": an open_clip model and its pretrained weights, with the
              model's normalization.
        channels: number of channels of the images.
        pixels: height and width of the images.
        weights: a .safetensors file for an encoder by name or import path.
        options: options of the encoder.
        size: pixels per side to resize images to; None: the source's size, else the images' own.
        mean: the network gets (x - mean) / std, with x in 0..1; one number, or one per channel.
            None: the source's normalization.
        std: as mean; pass both or neither.
        trust_code: the import paths that the file of a run may name, or True for all.
    """
    options = dict(options or {})
    if size is not None and size < 1:
        raise FeatureError(f"size is {size}: it must be at least 1")
    if (mean is None) != (std is None):
        raise FeatureError("mean and std belong together: pass both, or neither")
    if source.startswith("open_clip:") or source.endswith(".onnx"):
        for name, value in (("options", options), ("weights", weights)):
            if value:
                raise FeatureError(f"{source} takes no {name}: leave them out")
        if source.endswith(".onnx"):
            return onnx_extractor(source, pixels, size, mean, std)
        return clip_extractor(source, size, mean, std)
    name = source
    if source.endswith(".safetensors"):
        if weights is not None or options:
            raise FeatureError(
                f"{source} defines its encoder: leave out weights and options, or pass the name of"
                " the encoder instead"
            )
        weights = source
        name, options = _encoder_of_run(Path(source).expanduser())
        if ENCODERS.is_import_path(name):
            require_trust({"the encoder": name}, source, trust_code, FeatureError)
    elif source == "mobilenetv2":
        if mean is not None:
            raise FeatureError("mobilenetv2 has a fixed normalization: leave out mean and std")
        options = {"pretrained": weights is None} | options
        size = size or max(pixels, _MOBILENET_SIZE)
    elif source in ENCODERS and weights is None:
        raise FeatureError(
            f"the encoder {source} has no pretrained weights: pass a .safetensors file of them, or"
            " use mobilenetv2"
        )
    size = size or pixels
    # Initial weights that no file replaces must not depend on the global random state.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            encoder = build_encoder(name, channels=channels, size=size, **options)
        except Exception as error:
            if weights is None or str(weights) != source:
                raise
            # The options of a file can be of any type.
            raise FeatureError(f"{source}: its encoder cannot be built: {reason(error)}") from error
    if mean is not None and std is not None:
        encoder.inputs = InputTransform(channels, mean, std)
    encoder.inputs.size = encoder.inputs.size or size
    if weights is not None:
        path = Path(weights).expanduser()
        try:
            state = _encoder_weights(_read(path)[0])
            encoder.load_state_dict(state | encoder.inputs.state_dict(prefix="inputs."))
        except RuntimeError as error:
            line = " ".join(str(error).splitlines()[1:2]).strip() or reason(error)
            raise FeatureError(
                f"{path} does not fit the encoder {name} for {channels} x {size} x {size} images:"
                f" {line}"
            ) from error
        for key, tensor in state.items():
            if not bool(tensor.isfinite().all()):
                raise FeatureError(f"{path}: the weights {key} are not finite: replace the file")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder = encoder.eval().to(device)
    metadata: dict[str, object] = {
        "encoder_options": options,
        "size": size,
        "mean": mean,
        "std": std,
    }
    if weights is not None and str(weights) != source:
        metadata["weights"] = Path(weights).name
    return Extractor(source, lambda images: encoder(images.to(device)), metadata)


def _encoder_of_run(path: Path) -> tuple[str, dict[str, Any]]:
    """Read the name and options of a run's encoder from its file."""
    metadata = _read(path)[1]
    try:
        settings: Any = parse_json(metadata["settings"])
        encoder, options = (settings["model"][key] for key in ("encoder", "encoder_options"))
        if not isinstance(encoder, str) or not isinstance(options, dict):
            raise TypeError("an encoder is a name with options")
        width = settings["model"].get("feature_width")
        noise = settings.get("removal", {}).get("feature_noise")
        for name, value in (("feature_width", width), ("feature_noise", noise)):
            if value:
                options[name] = value
        return encoder, options
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FeatureError(
            f"{path} is not the encoder.safetensors of a run: pass the name of its encoder, and the"
            " file as its weights"
        ) from error


def _encoder_weights(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Select the weights of an `Encoder`, without its input scale, from those of a run, an
    `Encoder` or a network.
    """
    for prefix in ("encoder.", ""):
        if any(key.startswith(f"{prefix}network.") for key in tensors):
            parts = tuple(f"{prefix}{part}." for part in ("network", "last", "noise"))
            return {
                key.removeprefix(prefix): value
                for key, value in tensors.items()
                if key.startswith(parts)
            }
    return {f"network.{key}": value for key, value in tensors.items()}


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not path.is_file():
        raise FeatureError(f"{path} does not exist: pass a .safetensors file of weights")
    try:
        return read_tensors(path)
    except OSError as error:
        raise FeatureError(
            f"{path} is not a .safetensors file, or damaged: {first_line(error)}"
        ) from error
