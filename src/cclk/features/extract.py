"""Run an extractor over a dataset, and write what it gives into one file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch

import cclk
from cclk import datasets
from cclk.data import Dataset, Split
from cclk.data.feature_files import row_ids
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError, FeatureError
from cclk.features.extractor import Extractor
from cclk.files import replace_file

SPLITS = ("train", "validation", "test")


def load_whole(
    name: str, *, data_dir: Path | None = None, options: Mapping[str, Any] | None = None
) -> Dataset:
    """A dataset with all its training rows in the order of its own files: nothing is held out,
    so that the features fit any holdout.
    """
    options = dict(options or {})
    if "holdout" in options:
        raise DataError(
            "holdout is no option here: features are made of all samples, and fit whichever are"
            " held out later"
        )
    # An .npz file may have validation rows of its own.
    whole = {} if name.endswith(".npz") else {"holdout": 0}
    return datasets.load(name, data_dir=data_dir, **(whole | options))


def extract(
    dataset: Dataset,
    extractor: Extractor,
    out: Path,
    *,
    batch_size: int = 64,
    splits: Sequence[str] = SPLITS,
    quiet: bool = False,
) -> Path:
    """Write the features of every image of these splits, in order; see `cclk.data.feature_files`
    for what is in the file.

    Features are kept on the disk while they are made, so memory holds one batch of them.
    """
    if batch_size < 1:
        raise FeatureError(f"batch_size is {batch_size}: it must be at least 1")
    if out.suffix != ".npz":
        raise FeatureError(f"features are written as an .npz file, but out is {out}")
    for name in splits:
        if name not in SPLITS:
            raise FeatureError(f"there is no split {name!r}: choose {', '.join(SPLITS)}")
    if dataset.train.x.ndim != 4:
        raise FeatureError(
            f"{dataset.name} has vectors, not images: there is nothing to run an image encoder on"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    chosen = {
        name: split for name in SPLITS if name in splits and len(split := getattr(dataset, name))
    }
    ids = _ids(dataset, chosen)
    metadata = {
        "dataset": dataset.name,
        "encoder": extractor.name,
        **extractor.about,
        "version": cclk.__version__,
    }
    # A file without a name: however this ends, nothing of it stays.
    with tempfile.TemporaryFile(dir=out.parent) as raw:
        features = _fill(raw, extractor, chosen, ids, batch_size, quiet)

        def write(draft: Path) -> None:
            with draft.open("wb") as stream:
                np.savez(
                    stream, features=features, ids=ids, metadata=np.array(json.dumps(metadata))
                )

        replace_file(out, write)
    return out


def _fill(
    raw: IO[bytes],
    extractor: Extractor,
    splits: Mapping[str, Split],
    ids: npt.NDArray[np.str_],
    batch_size: int,
    quiet: bool,
) -> npt.NDArray[np.float32]:
    """The features, in a file that is mapped into memory."""
    features: npt.NDArray[np.float32] | None = None
    done = 0
    with _progress(f"{extractor.name} features", len(ids), quiet) as advance:
        for split in splits.values():
            for start in range(0, len(split), batch_size):
                # Streamed images come by their numbers or by a slice, in fresh memory.
                batch = extractor(split.x[start : start + batch_size])
                if features is None:
                    features = np.memmap(raw, np.float32, "w+", shape=(len(ids), batch.shape[1]))
                bad = ~torch.isfinite(batch).all(dim=1)
                if bad.any():
                    row = int(bad.nonzero()[0])
                    raise FeatureError(
                        f"the encoder {extractor.name} gives NaN or infinite features for"
                        f" {ids[done + row]}: check its weights"
                    )
                features[done : done + len(batch)] = batch.numpy()
                done += len(batch)
                advance(len(batch))
    if features is None:
        raise FeatureError("there are no images in these splits")
    return features


def _ids(dataset: Dataset, splits: Mapping[str, Split]) -> npt.NDArray[np.str_]:
    """One text per row: the place in its split, or the path of its file under the folder of all
    of the dataset's files.
    """
    every = [
        split.x.paths
        for split in (dataset.train, dataset.validation, dataset.test)
        if isinstance(split.x, StreamedImages)
    ]
    folders = {os.path.dirname(path) for paths in every for path in paths}  # noqa: PTH120 - millions of paths
    root = os.path.commonpath(folders) if folders else ""
    parts = []
    for name, split in splits.items():
        if isinstance(split.x, StreamedImages):
            parts.append(
                np.array(
                    [Path(os.path.relpath(path, root)).as_posix() for path in split.x.paths],
                    dtype=np.str_,
                )
            )
        else:
            parts.append(row_ids(name, len(split)))
    return np.concatenate(parts) if parts else np.empty(0, np.str_)


@contextmanager
def _progress(title: str, total: int, quiet: bool) -> Iterator[Any]:
    """A bar on a terminal, a line when it is over elsewhere."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True, quiet=quiet)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, TextColumn("left"), TimeRemainingColumn(), console=console, disable=quiet
    ) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)
