"""Image encoders from .onnx files, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cclk._extras import needed_for
from cclk.backbones.extractor import Extractor, first_line
from cclk.errors import FeatureError
from cclk.models import InputTransform
from cclk.models.mobilenet import IMAGENET_MEAN, IMAGENET_STD

_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""The operators of the ONNX standard. Others, such as those of onnxruntime's makers, are code of
which less is known: one of them loads compiled programs.
"""
_RUNTIME = ("com.microsoft", "com.ms.", "ai.onnx", "org.pytorch")
"""Domains that onnxruntime has operators of, which it prefers to functions of the file."""


def onnx_extractor(
    source: str,
    pixels: int,
    size: int | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Extractor:
    """Return the extractor of an ONNX file; see `build_extractor`.

    The network takes float images (b, 1 or 3, h, w); its first output is (b, width) or (b, width,
    1, 1).
    """
    path = Path(source).expanduser()
    session, inputs, output = _open(path)
    name, kind, shape = inputs[0] if inputs else ("", "", [])
    if len(inputs) != 1 or kind != "tensor(float)" or len(shape) != 4 or shape[1] not in (1, 3):
        actual = "; ".join(f"{name} {kind} {shape}" for name, kind, shape in inputs) or "nothing"
        raise FeatureError(
            f"{path} takes {actual}: it must take one batch of float images (b, 3, height, width)"
        )
    fixed = {side for side in shape[2:] if isinstance(side, int)}
    sides = " x ".join(map(str, shape[2:]))
    if fixed and size is not None and fixed != {size}:
        raise FeatureError(f"{path} takes images of {sides} pixels: leave out size, now {size}")
    if len(fixed) > 1:
        raise FeatureError(f"{path} takes images of {sides} pixels: only square ones are supported")
    size = next(iter(fixed), size or pixels)
    if mean is None or std is None:
        mean, std = IMAGENET_MEAN, IMAGENET_STD
        if shape[1] == 1:
            mean, std = (sum(mean) / 3,), (sum(std) / 3,)
    transform = InputTransform(shape[1], mean, std, size=size)

    def run(images: Tensor, rows: int) -> Tensor:
        # A network with a fixed batch size gets full batches, padded with zeros.
        batch = np.zeros((rows, *images.shape[1:]), np.float32)
        batch[: len(images)] = images.numpy()
        try:
            features = torch.from_numpy(session.run([output], {name: batch})[0])
        except Exception as error:  # onnxruntime has no common base class for its errors
            raise FeatureError(
                f"{path} cannot take images of shape {batch.shape}: {first_line(error)}"
            ) from error
        if features.ndim == 4 and features.shape[2:] == (1, 1):
            features = features[:, :, 0, 0]
        return features[: len(images)]

    def encode(images: Tensor) -> Tensor:
        rows = shape[0] if isinstance(shape[0], int) else len(images)
        return torch.cat([run(part, rows) for part in torch.split(transform(images), rows)])

    return Extractor(source, encode, {"size": size, "mean": list(mean), "std": list(std)})


def _open(path: Path) -> tuple[Any, list[tuple[str, str, list[Any]]], str]:
    """Return the session, name, type and shape of each input, and the name of the first output."""
    with needed_for("running .onnx files", "features"):
        import onnxruntime  # type: ignore[import-untyped]
    if not path.is_file():
        raise FeatureError(f"{path} does not exist: pass the path of an .onnx file")
    _check(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=onnxruntime.get_available_providers()
        )
        inputs = [(each.name, each.type, each.shape) for each in session.get_inputs()]
        return session, inputs, session.get_outputs()[0].name
    except Exception as error:  # also of names that are not text
        raise FeatureError(
            f"{path} cannot be opened by onnxruntime: {first_line(error)}"
        ) from error


def _check(path: Path) -> None:
    """Raise an error for an ONNX file that is damaged, that names files in other folders, or
    that has operators beyond the standard.
    """
    with needed_for("running .onnx files", "features"):
        import onnx
    try:
        model = onnx.load_model(path, load_external_data=False)
        parts = list(_messages(model))
    except Exception as error:  # protobuf has no common base class for its errors
        raise FeatureError(
            f"{path} is not an ONNX file, or damaged: {first_line(error)}; export the network again"
        ) from error
    if not model.ListFields():
        raise FeatureError(f"{path} is not an ONNX file: it is empty; export the network again")
    folder = path.parent.resolve()
    functions = {(each.domain, each.name) for each in model.functions}
    for part in parts:
        for entry in part.external_data if isinstance(part, onnx.TensorProto) else ():
            location = entry.value
            if entry.key != "location":
                continue
            plain = Path(location).name == location and "\0" not in location
            target = (folder / location).resolve() if plain else folder
            if target.parent != folder or not target.is_file():
                raise FeatureError(
                    f"{path} has weights in {location!r}: they must be in a file beside it"
                )
        if isinstance(part, onnx.NodeProto) and part.domain not in _DOMAINS:
            own = (part.domain, part.op_type) in functions
            if not own or part.domain.startswith(_RUNTIME):
                raise FeatureError(
                    f"{path} has the operator {part.op_type!r} of {part.domain!r}, which is not one"
                    " of the ONNX standard: export the network without it"
                )


def _messages(message: Any) -> Iterator[Any]:
    """Yield a protobuf message and all messages in it, also those in functions and branches."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in [value] if hasattr(value, "ListFields") else value:
                yield from _messages(each)
