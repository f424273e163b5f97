"""What is embedded, and the files that embeddings are written to."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cclk.data import DATASETS
from cclk.data import load as load_dataset
from cclk.data.dataset import DataError
from cclk.data.manifest import load_inputs
from cclk.data.streamed import StreamedPictures
from cclk.data.tables import Table
from cclk.files import replace_file
from cclk.training.files import RunError
from cclk.training.run import Run

Floats = npt.NDArray[np.float32]
_INPUT_OPTIONS = ("image", "features", "row_id", "size", "grey")


def samples_of(run: Run, source: str, data_dir: Path | None, row_id: str | None) -> tuple[Tensor | StreamedPictures, list[str]]:
    """The samples of a file or dataset, read as the run read its own, and their ids."""
    folder = data_dir or run.settings.data.data_dir
    if source.endswith((".csv", ".parquet")):
        options = {name: value for name, value in run.settings.data.dataset_options.items() if name in _INPUT_OPTIONS}
        if not options.get("image") and not options.get("features"):
            raise RunError(f"{run.folder} was not trained on a table, so its columns are not known: give an .npz file with x")
        if run.inputs:  # exactly the columns of the training, in their order, whatever order this file has
            options["features"] = run.inputs
        own = options.pop("row_id", None)
        if row_id is None and own is not None and own in Table(Path(source)).names:
            row_id = own
        return load_inputs(Path(source), data_dir=folder, row_id=row_id, **options)
    if source.endswith(".npz"):
        return _array(Path(source))
    if source not in DATASETS:
        raise DataError(f"{source} is neither a .csv, .parquet or .npz file nor one of {', '.join(DATASETS)}")
    dataset = load_dataset(source, data_dir=folder, seed=0, holdout=0)
    parts = {"train": dataset.train, "test": dataset.test}
    x = torch.cat([part.x[torch.arange(len(part))] for part in parts.values()])
    return x, [f"{name}/{row:08d}" for name, part in parts.items() for row in range(len(part))]


def _array(path: Path) -> tuple[Tensor, list[str]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            x = archive["x"]
            if x.ndim < 2:
                raise ValueError(f"x has {x.ndim} dimensions")
            ids = [str(name) for name in archive["ids"]] if "ids" in archive.files else [str(row + 1) for row in range(len(x))]
            if len(ids) != len(x):
                raise ValueError(f"it has {len(x)} samples and {len(ids)} ids")
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be embedded ({str(error).splitlines()[0]}): it must be an .npz file with an array x") from error
    if x.ndim == 4 and x.dtype != np.uint8:
        raise DataError(f"{path}: pictures x are {x.dtype}: they must be uint8, 0 to 255")
    samples = torch.from_numpy(x if x.ndim == 4 else x.astype(np.float32))
    if x.ndim != 4 and not samples.isfinite().all():
        raise DataError(f"{path}: x has values that are NaN or infinite: drop or impute them")
    return samples, ids


def write_embeddings(path: Path, ids: list[str], width: int, batches: Iterable[Floats]) -> None:
    """Features beside ids, whole or not at all: `id` and f0, f1, ... as columns, or arrays `ids` and `features` in an .npz file."""
    writers = {".parquet": _parquet, ".csv": _csv, ".npz": _npz}
    if path.suffix not in writers:
        raise RunError(f"--out {path} must end in {', '.join(writers)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda draft: writers[path.suffix](draft, _named(ids, batches), width))


def _named(ids: list[str], batches: Iterable[Floats]) -> Iterator[tuple[list[str], Floats]]:
    place = 0
    for features in batches:
        yield ids[place : place + len(features)], features
        place += len(features)


def _tables(batches: Iterator[tuple[list[str], Floats]], width: int) -> Iterator[Any]:
    import pyarrow as pa

    for names, features in batches:
        yield pa.table({"id": names} | {f"f{column}": features[:, column] for column in range(width)})


def _parquet(draft: Path, batches: Iterator[tuple[list[str], Floats]], width: int) -> None:
    from pyarrow import parquet

    _each(batches, width, lambda schema: parquet.ParquetWriter(draft, schema))


def _csv(draft: Path, batches: Iterator[tuple[list[str], Floats]], width: int) -> None:
    from pyarrow import csv

    _each(batches, width, lambda schema: csv.CSVWriter(draft, schema))


def _each(batches: Iterator[tuple[list[str], Floats]], width: int, opened: Any) -> None:
    import pyarrow as pa

    schema = pa.schema([("id", pa.string()), *((f"f{column}", pa.float32()) for column in range(width))])
    with opened(schema) as writer:
        for table in _tables(batches, width):
            writer.write_table(table.cast(schema))


def _npz(draft: Path, batches: Iterator[tuple[list[str], Floats]], width: int) -> None:
    names, features = [], []
    for some, found in batches:
        names += some
        features.append(found)
    with draft.open("wb") as file:
        np.savez(file, ids=np.array(names, dtype=np.str_), features=np.concatenate([np.empty((0, width), np.float32), *features]))
