"""Datasets by name, by the path of a file or by import path, in train, validation and test splits.

>>> from cclk import datasets
>>> digits = datasets.load("colordigits")
>>> digits.train.x.shape, digits.train.condition.shape
(torch.Size([1200, 3, 32, 32]), torch.Size([1200, 3]))
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from cclk.data.dataset import Dataset
from cclk.data.folder import data_folder
from cclk.errors import DataError
from cclk.registry import DATASETS

__all__ = ["DATASETS", "load", "takes_features"]


def load(
    name: str | Path, *, data_dir: Path | None = None, seed: int = 0, **options: Any
) -> Dataset:
    """Load a dataset.

    - A name, one of `DATASETS`.
    - The path of a table, .csv or .parquet (see `cclk.data.manifest`), or of a file of arrays,
      .npz (see `cclk.data.arrays`).
    - "package.module:function": a function that returns a `cclk.data.Dataset`. It is called with
      the options, and with `data_dir` and `seed` if it has parameters of these names.

    Args:
        name: Name, file or import path.
        data_dir: Folder of the files of downloaded datasets; default: the environment variable
            CCLK_DATA, else ~/.cache/cclk.
        seed: Seed of all randomness: colors, and which rows are held out.
        options: Options of the dataset, such as `holdout` (number of rows moved from the training
            to the validation split) or `colors`.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise DataError(f"seed is {seed!r}: it must be an integer of at least 0")
    name = str(name)
    arguments: dict[str, Any] = {"data_dir": data_dir, "seed": seed}
    if DATASETS.suffix(name):
        arguments["path"] = Path(name).expanduser()
    features = options.get("features")
    if isinstance(features, str | Path) and name in DATASETS:  # in a table, they are columns
        local = Path(features).expanduser()
        stored = data_folder(data_dir) / local
        options["features"] = stored if stored.exists() and not local.exists() else local
    dataset = DATASETS.create(name, arguments, options)
    if not isinstance(dataset, Dataset):
        raise DataError(
            f"the dataset {name!r} is a {type(dataset).__name__}: its function must return a"
            " cclk.data.Dataset"
        )
    return dataset


def takes_features(name: str) -> bool:
    """Return whether a dataset can have a file of features as its condition.

    Args:
        name: One of `DATASETS`.

    Example:
        >>> takes_features("cifar10"), takes_features("colordigits")
        (True, False)
    """
    return "features" in inspect.signature(DATASETS[name]).parameters
