"""Feature files, as written by `cclk-paper features`: the features of another encoder for every
sample of a dataset.

    features    float32 (n, d)
    ids         text (n,): "train/00000012", the part of the dataset and the row in it; for samples
                with files, the path below the folder of the dataset, such as
                "train/n01440764/n01440764_10026.JPEG"
    metadata    JSON text: the dataset, the encoder and the version that wrote the file

A dataset loaded with `features=FILE` has them as its condition, whichever rows are held out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cclk.columns import Column
from cclk.data.npz import read_npz
from cclk.errors import DataError


@dataclass(frozen=True)
class FeatureFile:
    """The contents of a feature file.

    Args:
        path: the file.
        features: float32 (n, d).
        ids: the sample of each row, (n,).
        metadata: the dataset, the encoder and the version that wrote the file.
    """

    path: Path
    features: npt.NDArray[np.float32]
    ids: npt.NDArray[np.str_]
    metadata: dict[str, object]


def row_ids(part: str, rows: int) -> npt.NDArray[np.str_]:
    """Return the ids of samples without files.

    >>> row_ids("train", 2).tolist()
    ['train/00000000', 'train/00000001']
    """
    return np.array([f"{part}/{row:08d}" for row in range(rows)], dtype=np.str_)


def read_features(path: Path | str, dataset: str) -> FeatureFile:
    """Read a feature file; nothing in it is unpickled.

    Args:
        path: the file.
        dataset: the dataset that the features must belong to.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise DataError(
            f"the feature file {path} does not exist: make it with cclk-paper features"
            f" {dataset} (cclk-paper features --help lists encoders)"
        )
    try:
        arrays = read_npz(path)
        if "about" in arrays:
            arrays.setdefault("metadata", arrays["about"])
        missing = [name for name in ("features", "ids", "metadata") if name not in arrays]
        if missing:
            raise ValueError(f"it lacks {' and '.join(missing)}")
        features, ids = arrays["features"], arrays["ids"]
        if features.dtype != np.float32 or features.ndim != 2 or 0 in features.shape:
            raise ValueError(
                f"features is {features.dtype} of shape {features.shape}, not float32 (n, d)"
            )
        if ids.dtype.kind != "U" or ids.shape != (len(features),):
            raise ValueError(
                f"ids is {ids.dtype} of shape {ids.shape}, not one text for each of the"
                f" {len(features)} rows of features"
            )
        try:
            metadata: Any = json.loads(str(arrays["metadata"][()]))
            written_for = " ".join(str(metadata["dataset"]).split())[:100]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError("its metadata does not name the dataset") from error
        # In blocks: a mask of all values would take a quarter of the memory of the features.
        for start in range(0, len(features), 4096):
            bad = ~np.isfinite(features[start : start + 4096])
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise ValueError(
                    f"features is NaN or infinite in row {start + row} ({ids[start + row]}), column"
                    f" {column}"
                )
    except ValueError as error:
        raise invalid_features(path, str(error)) from error
    if written_for != dataset:
        raise DataError(
            f"{path} holds features of {written_for}, not of {dataset}: make a file for it with"
            f" cclk-paper features {dataset}"
        )
    return FeatureFile(path, features, ids, metadata)


def read_row_features(
    path: Path | str, dataset: str, train: int, test: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], Column]:
    """Return the features of the training and the test samples, in the order of the dataset's
    files, and their column.

    Args:
        path: the feature file.
        dataset: the dataset that the features must belong to.
        train: its number of training samples.
        test: its number of test samples.
    """
    file = read_features(path, dataset)
    if len(file.ids) != train + test:
        raise invalid_features(
            file.path,
            f"it has {len(file.ids)} rows, but {dataset} has {train} samples to train on and"
            f" {test} to test on",
        )
    wrong = file.ids != np.concatenate([row_ids("train", train), row_ids("test", test)])
    if wrong.any():
        row = int(np.argmax(wrong))
        raise invalid_features(
            file.path,
            f"its row {row} is {str(file.ids[row])!r}, which is not the sample of {dataset} that"
            " belongs there",
        )
    column = features_column(file.features.shape[1])
    return file.features[:train], file.features[train:], column


def invalid_features(path: Path, what: str) -> DataError:
    """Return an error that states what is wrong with a feature file."""
    return DataError(
        f"{path} is not a valid feature file: {what}; regenerate it with cclk-paper features"
    )


def features_column(width: int) -> Column:
    """Return the column of features in a condition: a vector with one length scale."""
    return Column(
        "features", "embedding", width=width, categories=tuple(f"f{n}" for n in range(width))
    )
