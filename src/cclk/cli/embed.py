"""`cclk embed`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cclk.cli.output import QUIET, TRUST_CODE, notify

_DATA = Parameter(
    help="a .csv or .parquet table with the run's input columns, an .npz file with x, or a"
    " dataset's name"
)
_ROW_ID = Parameter(
    help="column that names each row; default: the run's own, else the row's number"
)


def embed(
    run: Annotated[Path, Parameter(help="folder of a finished run")],
    data: Annotated[str, _DATA],
    *,
    out: Annotated[Path, Parameter(help="file to write: .parquet, .csv or .npz")],
    data_dir: Annotated[Path | None, Parameter(help="folder of dataset files")] = None,
    row_id: Annotated[str | None, _ROW_ID] = None,
    batch_size: Annotated[int, Parameter(help="samples at a time")] = 256,
    trust_code: Annotated[list[str] | None, TRUST_CODE] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Embed data with the encoder of a run: one row of features for each sample, with its id.

    `cclk embed runs/people new.csv --out embeddings.parquet`

    Samples are read and embedded a batch at a time. Neither label nor condition is needed.
    """
    from cclk.run import Run
    from cclk.training._process import retain_freed_memory

    retain_freed_memory()
    opened = Run(run, trust_code=trust_code or False)
    rows = opened.embed(
        data, out, data_dir=data_dir, row_id=row_id, batch_size=batch_size, quiet=quiet
    )
    notify(f"written: {rows}", quiet)
