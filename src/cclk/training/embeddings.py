"""Files of embeddings: Parquet, CSV and .npz."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from cclk._files import make_parent, replace_file
from cclk.errors import RunError

Floats = npt.NDArray[np.float32]


def write_embeddings(path: Path, ids: list[str], width: int, batches: Iterable[Floats]) -> None:
    """Write features with their ids, atomically.

    Args:
        path: Parquet and CSV files get the columns id, f0, f1, ...; .npz files get the arrays
            `ids` and `features`. In CSV files, a quote precedes ids that a spreadsheet would
            compute as formulas.
        ids: The name of each row.
        width: The number of features.
        batches: The features, a batch of rows at a time.
    """
    writers = {".parquet": _parquet, ".csv": _csv, ".npz": _npz}
    if path.suffix not in writers:
        raise RunError(f"{path} must end in {', '.join(writers)}")
    make_parent(path)
    replace_file(path, lambda file: writers[path.suffix](file, _named(ids, batches), width))


def _named(ids: list[str], batches: Iterable[Floats]) -> Iterator[tuple[list[str], Floats]]:
    start = 0
    for features in batches:
        yield ids[start : start + len(features)], features
        start += len(features)


def _tables(batches: Iterator[tuple[list[str], Floats]], width: int) -> Iterator[Any]:
    import pyarrow as pa

    for names, features in batches:
        yield pa.table(
            {"id": names} | {f"f{column}": features[:, column] for column in range(width)}
        )


def _parquet(file: IO[bytes], batches: Iterator[tuple[list[str], Floats]], width: int) -> None:
    from pyarrow import parquet

    _each(batches, width, lambda schema: parquet.ParquetWriter(file, schema))


def _csv(file: IO[bytes], batches: Iterator[tuple[list[str], Floats]], width: int) -> None:
    from pyarrow import csv

    batches = (([_defused(name) for name in names], rows) for names, rows in batches)
    _each(batches, width, lambda schema: csv.CSVWriter(file, schema))


def _defused(text: str) -> str:
    """Put a quote before text that a spreadsheet would compute as a formula."""
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _each(batches: Iterator[tuple[list[str], Floats]], width: int, opened: Any) -> None:
    import pyarrow as pa

    schema = pa.schema(
        [("id", pa.string()), *((f"f{column}", pa.float32()) for column in range(width))]
    )
    with opened(schema) as writer:
        for table in _tables(batches, width):
            writer.write_table(table.cast(schema))


def _npz(file: IO[bytes], batches: Iterator[tuple[list[str], Floats]], width: int) -> None:
    names, features = [], []
    for ids, rows in batches:
        names += ids
        features.append(rows)
    np.savez(
        file,
        ids=np.array(names, dtype=np.str_),
        features=np.concatenate([np.empty((0, width), np.float32), *features]),
    )
