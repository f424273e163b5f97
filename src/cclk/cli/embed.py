"""`cclk embed`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from cyclopts import Parameter

from cclk.cli.output import QUIET, TRUST_CODE, notify
from cclk.errors import RunError

if TYPE_CHECKING:
    from cclk.backbones import Extractor
    from cclk.training.samples import Samples

_RUN = Parameter(help="folder of a finished run; with --backbone, the images instead")
_DATA = Parameter(
    help="a .csv or .parquet table with the run's input columns, an .npz file with x, or a"
    " dataset's name"
)
_ROW_ID = Parameter(
    help="column that names each row; default: the run's own, else the row's number"
)
_BACKBONE = Parameter(
    help="a pretrained image encoder instead of a run: mobilenetv2, network.onnx,"
    " open_clip:MODEL/WEIGHTS, package.module:factory, or an encoder by name with --weights"
)
_IMAGE = Parameter(help="with --backbone, the column of a table with paths of images")
_SIZE = Parameter(help="with --backbone, pixels; images of tables are cropped to a square")
_WEIGHTS = Parameter(help="with --backbone, a .safetensors file of weights")


def embed(
    run: Annotated[str, _RUN],
    data: Annotated[str | None, _DATA] = None,
    *,
    out: Annotated[Path, Parameter(help="file to write: .parquet, .csv or .npz")],
    data_dir: Annotated[Path | None, Parameter(help="folder of dataset files")] = None,
    row_id: Annotated[str | None, _ROW_ID] = None,
    backbone: Annotated[str | None, _BACKBONE] = None,
    image: Annotated[str | None, _IMAGE] = None,
    image_size: Annotated[int, _SIZE] = 224,
    weights: Annotated[Path | None, _WEIGHTS] = None,
    batch_size: Annotated[int, Parameter(help="samples at a time")] = 256,
    trust_code: Annotated[list[str] | None, TRUST_CODE] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Embed data with the encoder of a run: one row of features for each sample, with its id.

    `cclk embed runs/people new.csv --out embeddings.parquet`

    `cclk embed images.csv --image path --backbone mobilenetv2 --out embeddings.parquet`

    Samples are read and embedded a batch at a time. Neither label nor condition is needed.
    """
    from cclk.training._process import retain_freed_memory

    retain_freed_memory()
    if (backbone is None) == (data is None):
        raise RunError("pass the folder of a run and its data, or only images with --backbone")
    if backbone is None:
        from cclk.run import Run

        Run(run, trust_code=trust_code or False).embed(
            data or "", out, data_dir=data_dir, row_id=row_id, batch_size=batch_size, quiet=quiet
        )
    else:
        from cclk.backbones import build_extractor
        from cclk.training.embeddings import write_embeddings
        from cclk.training.samples import read_images

        if batch_size < 1:
            raise RunError(f"--batch-size is {batch_size}: it must be at least 1")
        images, ids = read_images(run, image, image_size, data_dir, row_id)
        if len(images.shape) != 4 or not ids:
            raise RunError(f"{run} contains no images to run {backbone} on")
        extractor = build_extractor(
            backbone, channels=images.shape[1], pixels=images.shape[-1], weights=weights,
            trust_code=trust_code or False,
        )  # fmt: skip
        batches = _features(extractor, images, batch_size, quiet)
        first = next(batches)
        write_embeddings(out, ids, first.shape[1], itertools.chain([first], batches))
    notify(f"written: {out}", quiet)


def _features(
    extractor: Extractor, images: Samples, size: int, quiet: bool
) -> Iterator[npt.NDArray[np.float32]]:
    """Yield the features of a batch of images at a time, with a progress bar."""
    from rich.progress import track

    from cclk._terminal import Console

    console = Console(stderr=True)
    starts = range(0, len(images), size)
    shown = not quiet and console.is_terminal
    for start in track(starts, extractor.name, console=console, disable=not shown):
        features = extractor(images[start : start + size])
        if not bool(features.isfinite().all()):
            raise RunError(
                f"{extractor.name} returns NaN or infinite features in rows {start} to"
                f" {start + len(features) - 1}: check its weights"
            )
        yield features.numpy()
