"""A trained encoder for use elsewhere: in Python, over new data, and in the formats of other tools."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cclk.errors import RunError
from cclk.extras import needed_for
from cclk.files import replace_file, write_tensors
from cclk.training.run import Run
from cclk.training.samples import FILES, Samples, as_samples, read_samples, require_batch

Format = Literal["onnx", "safetensors", "torch"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "safetensors": ".safetensors", "torch": ".pt2"}
_AGREES = 1e-5


class TrainedEncoder(nn.Module):
    """The encoder of a run, in evaluation mode: raw samples in, features out.

    Called as a module it takes a batch in the very form of the training; `embed` takes samples of
    other forms and sizes.

    Attributes:
        width: of the features.
        shape: of a sample, (c, h, w) or (k,).
        columns: the names of the k inputs, in their order, where they have names.

    Shapes:
        x: uint8 images (n, c, h, w) from 0 to 255, or vectors (n, k) in the units of the training
            data.
        returns: float32 (n, width).
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        network = run.network
        self.inputs, self.encoder = network.inputs, network.encoder
        self.width: int = network.encoder.width
        self.shape: tuple[int, ...] = run.shape
        self.columns: tuple[str, ...] = tuple(run.inputs)
        self.run = run
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # sizes are tensors while ONNX traces them
            require_batch(x, self.shape, self.columns)
        features: Tensor = self.encoder(self.inputs(x))
        return features

    def embed(self, x: Any, batch_size: int = 256) -> npt.NDArray[np.float32]:
        """Features of samples in any form, the same as those that `cclk embed` writes.

        Images are cropped to the middle square and resized as in training, and become gray or RGB
        as the encoder needs. Vectors are standardized by the statistics of the training split.

        Args:
            x: one of

                - paths of images, PIL images and uint8 arrays of any size, (h, w), (h, w, c) or (c,
                  h, w), in a list;
                - a uint8 array of images (n, c, h, w) or (n, h, w, c);
                - a data frame, or a mapping of names to columns, with the input columns of the
                  training in any order;
                - an array (n, k) of these columns, in their order;
                - the path of a table, .csv or .parquet, with the input columns of the training, or
                  of an .npz file with an array x.
            batch_size: how many samples are read and embedded at a time.

        Returns:
            float32 (n, width), a row for each sample.

        Example:
            encoder = cclk.load("runs/people")
            features = encoder.embed(sorted(Path("photos").glob("*.jpg")))
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}: it must be at least 1")
        if isinstance(x, str | os.PathLike) and os.fspath(x).endswith(FILES):
            samples = read_samples(self.run, os.fspath(x))[0]
        else:
            samples = as_samples(x, self.shape, self.columns)
        return np.concatenate(
            [np.empty((0, self.width), np.float32), *self.batches(samples, batch_size)]
        )

    def batches(self, samples: Samples, size: int) -> Iterator[npt.NDArray[np.float32]]:
        """Features of samples that have the shape of the training's, a batch at a time."""
        for start in range(0, len(samples), size):
            with torch.inference_mode():
                features = self(samples[start : start + size].to(self.inputs.mean.device))
            yield (
                features.float().cpu().numpy()
            )  # outside, or the caller's code would be in inference mode too

    def example(self, rows: int = 3) -> Tensor:
        """Samples of the right shape, drawn at random."""
        generator = torch.Generator().manual_seed(0)
        if len(self.shape) == 3:
            return torch.randint(
                0, 256, (rows, *self.shape), generator=generator, dtype=torch.uint8
            )
        noise = torch.randn((rows, *self.shape), generator=generator)
        return noise * self.inputs.spread + self.inputs.mean


def load(run: Path | str) -> TrainedEncoder:
    """The encoder of a finished run; its data need not be there any more."""
    return TrainedEncoder(Run(Path(run)))


def export(run: Run, kind: Format, out: Path | None = None) -> Path:
    """Write the encoder in another tool's format, check that it still gives the same features,
    and give back the path.

    - "onnx": takes raw samples under the name "x" and gives "features", any number of rows; run by
      onnxruntime and others.
    - "safetensors": the weights alone, with the settings as metadata.
    - "torch": a program of torch.export, opened by `torch.export.load(path).module()` without this
      package.
    """
    if kind not in FORMATS:
        raise RunError(f"--format is {kind!r}: choose {', '.join(FORMATS)}")
    path = out or run.folder / f"export{_SUFFIXES[kind]}"
    if path.suffix != _SUFFIXES[kind]:
        raise RunError(
            f"--out {path} does not end in {_SUFFIXES[kind]}, as files of the format {kind} do"
        )
    encoder = TrainedEncoder(run)
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
        # Tracing serves plain networks well and needs no compiler; torch would rather be asked to
        # compile.
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
            _agree(encoder, samples, session.run(None, {"x": samples.numpy()})[0], path)

    replace_file(path, write)


def _to_torch(encoder: TrainedEncoder, path: Path) -> None:
    rows = torch.export.Dim("n", min=1)
    program = torch.export.export(encoder, (encoder.example(),), dynamic_shapes=({0: rows},))

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            torch.export.save(program, file)
        samples = encoder.example(5)
        with draft.open("rb") as file:
            _agree(encoder, samples, torch.export.load(file).module()(samples).numpy(), path)

    replace_file(path, write)


def _agree(encoder: TrainedEncoder, samples: Tensor, found: object, path: Path) -> None:
    expected = encoder(samples).numpy()
    difference = float(
        np.abs(np.asarray(found) - expected).max() / max(1.0, float(np.abs(expected).max()))
    )
    if not difference <= _AGREES:
        raise RunError(
            f"{path} would not give the features of {encoder.run.name}: they differ by"
            f" {difference:.1e}; nothing was exported"
        )
