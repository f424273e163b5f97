"""The commands that use a trained encoder: embed new data, export to other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from cclk.cli.say import QUIET, say
from cclk.errors import RunError
from cclk.training.trained import Format


def embed(
    run: Annotated[Path, Parameter(help="folder of a finished run")],
    data: Annotated[
        str,
        Parameter(
            help=(
                "a .csv or .parquet table with the run's input columns, an .npz file with x, or a"
                " dataset's name"
            )
        ),
    ],
    *,
    out: Annotated[Path, Parameter(help="file to write: .parquet, .csv or .npz")],
    data_dir: Annotated[Path | None, Parameter(help="where dataset files are")] = None,
    row_id: Annotated[
        str | None,
        Parameter(help="column that names each row; default: the run's own, else the row's number"),
    ] = None,
    batch_size: Annotated[int, Parameter(help="samples at a time")] = 256,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Embed data with the encoder of a run: one row of features for each sample, beside its id.

    `cclk embed runs/people new.csv --out embeddings.parquet`

    Samples are read and embedded a batch at a time. Neither label nor condition is needed.
    """
    from cclk.cli.embedding import write_embeddings
    from cclk.training.run import Run
    from cclk.training.samples import read_samples
    from cclk.training.trained import TrainedEncoder

    if batch_size < 1:
        raise RunError(f"--batch-size is {batch_size}: it must be at least 1")
    opened = Run(run)
    encoder = TrainedEncoder(opened)
    x, ids = read_samples(opened, data, data_dir, row_id)
    if tuple(x.shape[1:]) != encoder.shape:
        raise RunError(
            f"samples of {data} have the shape {tuple(x.shape[1:])}, but {run} was trained on"
            f" {encoder.shape}"
        )
    write_embeddings(out, ids, encoder.width, _batches(encoder, x, batch_size, quiet))
    say(f"written: {out}, {len(ids):,} rows of {encoder.width} features", quiet)


def export(
    run: Annotated[Path, Parameter(help="folder of a finished run")],
    *,
    format: Annotated[  # noqa: A002
        Format, Parameter(help="onnx, safetensors, or torch (a program of torch.export)")
    ] = "onnx",
    out: Annotated[
        Path | None, Parameter(help="file to write; default: RUN/export.onnx, .safetensors or .pt2")
    ] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Write the encoder of a run in the format of other tools, checked to give the same features.

    `cclk export runs/people --format onnx`
    """
    from cclk.training.run import Run
    from cclk.training.trained import export as write

    path = write(Run(run), format, out)
    say(f"written: {path}", quiet)


def _batches(encoder: Any, x: Any, size: int, quiet: bool) -> Any:
    from rich.progress import track

    console, total = Console(stderr=True, quiet=quiet), -(-len(x) // size)
    return track(
        encoder.batches(x, size),
        "embedding",
        total,
        console=console,
        disable=quiet or not console.is_terminal,
    )
