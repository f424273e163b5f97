"""Encoders from .onnx files, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cclk.errors import FeatureError
from cclk.extras import needed_for
from cclk.features.extractor import Extractor, Preparation, first_line
from cclk.models.mobilenet import IMAGENET_MEAN, IMAGENET_STD


def onnx_extractor(
    source: str,
    pixels: int,
    size: int | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Extractor:
    """The extractor of an ONNX file that takes float images (b, 1 or 3, h, w) and whose first
    output is (b, width).
    """
    path = Path(source).expanduser()
    session = _session(path)
    inputs = session.get_inputs()
    shape = inputs[0].shape if inputs else []
    if (
        len(inputs) != 1
        or inputs[0].type != "tensor(float)"
        or len(shape) != 4
        or shape[1] not in (1, 3)
    ):
        told = (
            "; ".join(f"{given.name} {given.type} {given.shape}" for given in inputs) or "nothing"
        )
        raise FeatureError(
            f"{path} takes {told}: it must take one batch of float images (b, 3, height, width)"
        )
    fixed = {side for side in shape[2:] if isinstance(side, int)}
    if fixed and size is not None and fixed != {size}:
        raise FeatureError(
            f"{path} takes images of {' x '.join(map(str, shape[2:]))} pixels: leave out size,"
            f" which is {size}"
        )
    if len(fixed) > 1:
        raise FeatureError(
            f"{path} takes images of {' x '.join(map(str, shape[2:]))} pixels: only square ones can"
            " be given"
        )
    size = next(iter(fixed), size or pixels)
    if mean is None or std is None:
        mean, std = (
            (IMAGENET_MEAN, IMAGENET_STD)
            if shape[1] == 3
            else ((sum(IMAGENET_MEAN) / 3,), (sum(IMAGENET_STD) / 3,))
        )
    prepare = Preparation(channels=shape[1], size=size, mean=mean, std=std)
    rows = shape[0] if isinstance(shape[0], int) else None
    output = session.get_outputs()[0].name

    def network(images: Tensor) -> Tensor:
        step = rows or len(images)
        chunks = [images[start : start + step] for start in range(0, len(images), step)]
        return torch.cat(
            [_run(session, path, inputs[0].name, output, chunk, step) for chunk in chunks]
        )

    return Extractor(source, network, prepare, {"size": size, "mean": list(mean), "std": list(std)})


def _run(session: Any, path: Path, given: str, output: str, chunk: Tensor, rows: int) -> Tensor:
    """The first output for some images; a network made for batches of so many rows gets them
    filled up with zeros.
    """
    batch = np.zeros((rows, *chunk.shape[1:]), np.float32)
    batch[: len(chunk)] = chunk.numpy()
    try:
        features = torch.from_numpy(np.asarray(session.run([output], {given: batch})[0]))
    except Exception as error:  # onnxruntime has no common base for what can go wrong
        raise FeatureError(
            f"{path} cannot take images of shape {batch.shape}: {first_line(error)}"
        ) from error
    if features.ndim == 4 and features.shape[2:] == (1, 1):
        features = features[:, :, 0, 0]
    return features[: len(chunk)]


def _session(path: Path) -> Any:
    with needed_for("running .onnx files", "features"):
        import onnxruntime  # type: ignore[import-untyped]
    if not path.is_file():
        raise FeatureError(f"there is no file {path}: give the path of an .onnx file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            str(path), options, providers=onnxruntime.get_available_providers()
        )
    except Exception as error:
        raise FeatureError(
            f"{path} cannot be opened by onnxruntime: {first_line(error)}"
        ) from error
