"""Export of a trained encoder to the formats of other tools."""

from __future__ import annotations

import copy
import io
import warnings
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from cclk._extras import needed_for
from cclk._files import make_parent, replace_bytes
from cclk.errors import RunError
from cclk.removal.eraser import LinearEraser, linear_r2
from cclk.training._process import without_new_variables
from cclk.training.encoder import TrainedEncoder
from cclk.training.network import EncoderFile
from cclk.training.samples import Samples

Format = Literal["onnx", "safetensors", "torch"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "safetensors": ".safetensors", "torch": ".pt2"}
_TOLERANCE = 1e-5
Erase = Literal["linear"]
_LARGEST_R2 = 0.005
"""Of a linear predictor of the condition after erasing it, on the training split."""


def export(
    encoder: TrainedEncoder, kind: Format, out: Path | None = None, erase: Erase | None = None
) -> Path:
    """Write an encoder in another format, verify that its features agree, and return the path.

    Args:
        encoder: The encoder of a finished run.
        kind: "onnx" takes raw samples under the name "x" and returns "features" for any number of
            rows; "safetensors" holds the weights, with the settings as metadata; "torch" is a
            program of `torch.export`, loaded by `torch.export.load(path).module()`.
        out: The file to write; by default RUN/export.onnx, .safetensors or .pt2.
        erase: "linear" erases every linear trace of the condition, as `LinearEraser` does, in the
            last layer. Needs the training data.
    """
    if kind not in FORMATS:
        raise RunError(f"format is {kind!r}: choose {', '.join(FORMATS)}")
    run = encoder.run
    path = out or run.folder / f"export{_SUFFIXES[kind]}"
    if path.suffix != _SUFFIXES[kind]:
        raise RunError(f"{path} does not end in {_SUFFIXES[kind]}, as files of format {kind} do")
    make_parent(path)
    if erase is not None:
        if erase != "linear":
            raise RunError(f"erase is {erase!r}: choose linear")
        encoder = erased(encoder)
    match kind:
        case "onnx":
            _to_onnx(encoder, path)
        case "torch":
            _to_torch(encoder, path)
        case "safetensors":
            settings = run.settings.without_paths().model_dump(mode="json")
            if encoder.encoder.last is not None:  # the eraser may have added this layer
                settings["model"]["feature_width"] = encoder.width
            file = EncoderFile(settings, encoder.shape, list(encoder.columns))
            file.write(path, encoder.state_dict())
    return path


@torch.no_grad()
def erased(encoder: TrainedEncoder) -> TrainedEncoder:
    """Return a copy of an encoder with a `LinearEraser`, fitted on the training split of its run,
    in its last layer.

    Args:
        encoder: The encoder of a finished run.
    """
    dataset = encoder.run.dataset
    if not dataset.columns:
        raise RunError(f"{encoder.run.folder} has no condition to erase: leave out erase")
    run = encoder.run
    result = copy.deepcopy(encoder, {id(run): run})  # without the data of the run
    # Noise after the last layer neither adds to nor hides a linear trace.
    noise, result.encoder.noise = result.encoder.noise, None
    condition = dataset.condition(dataset.train)
    features = _features(result, dataset.train.x)
    eraser = LinearEraser().fit(features, sensitive_features=condition)
    last = result.encoder.last
    result.encoder.last = eraser.as_linear() if last is None else eraser.fold(last)
    result.requires_grad_(False)
    leaks = linear_r2(_features(result, dataset.train.x), condition)
    result.encoder.noise = noise
    worst = max(leaks, key=lambda name: leaks[name])
    if not leaks[worst] <= _LARGEST_R2:
        raise RunError(
            f"a linear predictor still reads {worst} with R² {leaks[worst]:.4f} on the training"
            " split: its features are nearly collinear; nothing was exported"
        )
    return result


def _features(encoder: TrainedEncoder, samples: Samples) -> Tensor:
    return torch.cat([torch.from_numpy(part) for part in encoder.batches(samples, 1000)])


def _to_onnx(encoder: TrainedEncoder, path: Path) -> None:
    with needed_for("exporting to ONNX", "export"):
        import onnx  # noqa: F401
        import onnxruntime  # type: ignore[import-untyped]

    content = io.BytesIO()
    # Tracing needs no compiler; torch warns that it prefers dynamo.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            encoder,
            (encoder.example(),),
            content,  # type: ignore[arg-type]
            dynamo=False,
            input_names=["x"],
            output_names=["features"],
            dynamic_axes={"x": {0: "n"}, "features": {0: "n"}},
        )
    session = onnxruntime.InferenceSession(content.getvalue(), providers=["CPUExecutionProvider"])
    for rows in (1, 5):
        samples = encoder.example(rows)
        _require_agreement(encoder, samples, session.run(None, {"x": samples.numpy()})[0], path)
    replace_bytes(path, content.getvalue())


def _to_torch(encoder: TrainedEncoder, path: Path) -> None:
    rows = torch.export.Dim("n", min=1)
    with warnings.catch_warnings(), without_new_variables():  # its imports add some
        program = torch.export.export(encoder, (encoder.example(),), dynamic_shapes=({0: rows},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine
    content = io.BytesIO()
    torch.export.save(program, content)
    content.seek(0)
    samples = encoder.example(5)
    features = torch.export.load(content).module()(samples).numpy()
    _require_agreement(encoder, samples, features, path)
    replace_bytes(path, content.getvalue())


def _require_agreement(
    encoder: TrainedEncoder, samples: Tensor, features: object, path: Path
) -> None:
    expected = encoder(samples).numpy()
    difference = float(
        np.abs(np.asarray(features) - expected).max() / max(1.0, float(np.abs(expected).max()))
    )
    if not difference <= _TOLERANCE:
        raise RunError(
            f"{path} does not give the features of {encoder.run.name}: they differ by"
            f" {difference:.1e}; nothing was exported"
        )
