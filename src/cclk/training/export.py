"""Export of a trained encoder to the formats of other tools."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from cclk._extras import needed_for
from cclk._files import replace_file, write_tensors
from cclk.errors import RunError
from cclk.training._process import without_new_variables
from cclk.training.trained import TrainedEncoder

Format = Literal["onnx", "safetensors", "torch"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "safetensors": ".safetensors", "torch": ".pt2"}
_TOLERANCE = 1e-5


def export(encoder: TrainedEncoder, kind: Format, out: Path | None = None) -> Path:
    """Write an encoder in another format, verify that its features agree, and return the path.

    Args:
        encoder: The encoder of a finished run.
        kind: "onnx" takes raw samples under the name "x" and returns "features" for any number of
            rows; "safetensors" holds the weights, with the settings as metadata; "torch" is a
            program of `torch.export`, loaded by `torch.export.load(path).module()`.
        out: The file to write; by default RUN/export.onnx, .safetensors or .pt2.
    """
    if kind not in FORMATS:
        raise RunError(f"format is {kind!r}: choose {', '.join(FORMATS)}")
    run = encoder.run
    path = out or run.folder / f"export{_SUFFIXES[kind]}"
    if path.suffix != _SUFFIXES[kind]:
        raise RunError(f"{path} does not end in {_SUFFIXES[kind]}, as files of format {kind} do")
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "onnx":
            _to_onnx(encoder, path)
        case "torch":
            _to_torch(encoder, path)
        case "safetensors":
            metadata = {
                "settings": json.dumps(run.settings.model_dump(mode="json")),
                "shape": json.dumps(encoder.shape),
            }
            write_tensors(path, encoder.state_dict(), metadata)
    return path


def _to_onnx(encoder: TrainedEncoder, path: Path) -> None:
    with needed_for("exporting to ONNX", "export"):
        import onnx  # noqa: F401
        import onnxruntime  # type: ignore[import-untyped]

    def write(draft: Path) -> None:
        # Tracing needs no compiler; torch warns that it prefers dynamo.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                encoder,
                (encoder.example(),),
                str(draft),
                dynamo=False,
                input_names=["x"],
                output_names=["features"],
                dynamic_axes={"x": {0: "n"}, "features": {0: "n"}},
            )
        session = onnxruntime.InferenceSession(
            draft.read_bytes(), providers=["CPUExecutionProvider"]
        )
        for rows in (1, 5):
            samples = encoder.example(rows)
            _require_agreement(encoder, samples, session.run(None, {"x": samples.numpy()})[0], path)

    replace_file(path, write)


def _to_torch(encoder: TrainedEncoder, path: Path) -> None:
    rows = torch.export.Dim("n", min=1)
    with warnings.catch_warnings(), without_new_variables():  # its imports add some
        program = torch.export.export(encoder, (encoder.example(),), dynamic_shapes=({0: rows},))

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            torch.export.save(program, file)
        samples = encoder.example(5)
        with draft.open("rb") as file:
            _require_agreement(
                encoder, samples, torch.export.load(file).module()(samples).numpy(), path
            )

    replace_file(path, write)


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
