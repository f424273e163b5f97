"""Files of features, as `cclk features` writes them: numbers of some other encoder for every
sample of a dataset.

    features    float32 (n, d)
    ids         (n,) text: "train/00000012", the sample's place in its part of the dataset's own files; of images that have files of their
                own, the path under the dataset's folder, such as
                "train/n01440764/n01440764_10026.JPEG"
    about       JSON text: the dataset, the encoder and the version that made the file

A dataset that is loaded with `features=FILE` has them as its condition, whichever rows it holds
out.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cclk.columns import Column
from cclk.errors import DataError

_ARRAYS = ("features", "ids", "about")


@dataclass(frozen=True)
class FeatureFile:
    """What a file of features holds: `features` (n, d), `ids` (n,), and what is told about them."""

    path: Path
    features: npt.NDArray[np.float32]
    ids: npt.NDArray[np.str_]
    about: dict[str, Any]


def row_ids(part: str, rows: int) -> npt.NDArray[np.str_]:
    """The ids of samples that have no files of their own.

    >>> row_ids("train", 2).tolist()
    ['train/00000000', 'train/00000001']
    """
    return np.array([f"{part}/{row:08d}" for row in range(rows)], dtype=np.str_)


def read_features(path: Path | str, dataset: str) -> FeatureFile:
    """The file of features, made for this dataset; nothing in it is unpickled."""
    path = Path(path).expanduser()
    arrays = _read(path)
    features, ids = arrays["features"], arrays["ids"]
    if features.dtype != np.float32 or features.ndim != 2 or 0 in features.shape:
        raise _error(
            path, f"features is {features.dtype} of shape {features.shape}, not float32 (n, d)"
        )
    if ids.dtype.kind != "U" or ids.shape != (len(features),):
        raise _error(
            path,
            f"ids is {ids.dtype} of shape {ids.shape}, not one text for each of the {len(features)}"
            " rows of features",
        )
    try:
        about = json.loads(str(arrays["about"][()]))
        made_for = about["dataset"]
    except (KeyError, TypeError, ValueError) as error:
        raise _error(path, "about does not say for which dataset it was made") from error
    if made_for != dataset:
        raise DataError(
            f"{path} holds features of {made_for}, not of {dataset}: make some with cclk features"
            f" {dataset} --out FILE.npz"
        )
    # One row at a time would be slow, all of them at once a quarter of the file's size.
    for start in range(0, len(features), 4096):
        bad = ~np.isfinite(features[start : start + 4096])
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise _error(
                path,
                f"features is NaN or infinite in row {start + row} ({ids[start + row]}), column"
                f" {column}",
            )
    return FeatureFile(path, features, ids, about)


def read_row_features(
    path: Path | str, dataset: str, train: int, test: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Features of the `train` and `test` samples of a dataset, in the order of its own files."""
    found = read_features(path, dataset)
    if len(found.ids) != train + test:
        raise _error(
            found.path,
            f"it has {len(found.ids)} rows, but {dataset} has {train} samples to train on and"
            f" {test} to test on",
        )
    wrong = found.ids != np.concatenate([row_ids("train", train), row_ids("test", test)])
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _error(
            found.path,
            f"its row {row} is {str(found.ids[row])!r}, which is not the sample of {dataset} that"
            " belongs there",
        )
    return found.features[:train], found.features[train:]


def _read(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise DataError(
            f"there is no file of features {path}: make it with cclk features DATASET --encoder"
            f" ENCODER --out {path} (cclk features --help lists encoders)"
        )
    try:
        if not zipfile.is_zipfile(path):
            raise _error(path, "it is not an .npz file, or cut short")
        with np.load(path, allow_pickle=False) as archive:
            missing = [name for name in _ARRAYS if name not in archive.files]
            if missing:
                raise _error(path, f"it lacks {' and '.join(missing)}")
            return {name: archive[name] for name in _ARRAYS}
    except DataError:
        raise
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise _error(
            path,
            "it cannot be read"
            f" ({str(error).splitlines()[0] if str(error) else type(error).__name__})",
        ) from error


def _error(path: Path, what: str) -> DataError:
    return DataError(f"{path} is no good file of features: {what}; make it anew with cclk features")


def features_column(width: int) -> Column:
    """The features of a file as one column of a condition: a vector with one length scale."""
    return Column(
        "features", width=width, categories=tuple(f"f{number}" for number in range(width))
    )
