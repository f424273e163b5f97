"""Datasets by name or by the path of a file, in train, validation and test splits.

>>> from cclk import datasets
>>> digits = datasets.load("colordigits")
>>> digits.train.x.shape, digits.train.condition.shape
(torch.Size([1200, 3, 32, 32]), torch.Size([1200, 3]))
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cclk.data.dataset import Dataset
from cclk.data.folder import data_folder
from cclk.errors import DataError

_MODULES = {
    "colordigits": "cclk.datasets.colordigits",
    "colormnist": "cclk.datasets.colormnist",
    "cifar10": "cclk.datasets.cifar10",
    "fashion-mnist": "cclk.datasets.fashion_mnist",
    "ut-zappos": "cclk.datasets.ut_zappos",
    "cub": "cclk.datasets.cub",
    "imagenet-100": "cclk.datasets.imagenet100",
}
DATASETS = tuple(_MODULES)
"""The names `load` knows; it also takes the path of a .csv, .parquet or .npz file."""

__all__ = ["DATASETS", "load", "takes_features"]


def load(name: str, *, data_dir: Path | None = None, seed: int = 0, **options: Any) -> Dataset:
    """A dataset by name, or by the path of a table (see `cclk.data.manifest`) or of a file of
    arrays (see `cclk.data.arrays`).

    Args:
        name: one of `DATASETS`, or a path that ends in .csv, .parquet or .npz.
        data_dir: where the files of downloaded datasets are; else the environment variable
            CCLK_DATA, else ~/.cache/cclk.
        seed: of everything drawn: colors, and which rows are held out. The same seed gives the same
            dataset.
        options: what the dataset itself takes, such as `holdout` (rows moved from train to
            validation) or `colors`.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise DataError(f"seed is {seed!r}: it must be an integer of at least 0")
    given: dict[str, Any] = {"seed": seed, **options}
    if str(name).endswith(".npz"):
        module, given["path"] = "cclk.data.arrays", Path(name).expanduser()
    elif str(name).endswith((".csv", ".parquet")):
        module, given["path"], given["data_dir"] = (
            "cclk.data.manifest",
            Path(name).expanduser(),
            data_dir,
        )
    elif name in _MODULES:
        module, given["data_dir"] = _MODULES[name], data_dir
    else:
        raise DataError(
            f"there is no dataset {name!r}: choose {', '.join(DATASETS)}, or the path of a .csv,"
            " .parquet or .npz file"
        )
    loader = _loader(module)
    known = inspect.signature(loader).parameters
    for option in options:
        if option not in known or option == "path":
            own = [key for key in known if key not in ("path", "data_dir", "seed")]
            raise DataError(f"{name} has no option {option!r}: it takes {', '.join(own)}")
    if module != "cclk.data.manifest" and isinstance(given.get("features"), str | Path):
        given["features"] = _found(Path(given["features"]).expanduser(), data_dir)
    return loader(**given)


def takes_features(name: str) -> bool:
    """Whether the dataset of this name, one of `DATASETS`, can have a file of features as its
    condition.

    >>> takes_features("cifar10"), takes_features("colordigits")
    (True, False)
    """
    return "features" in inspect.signature(_loader(_MODULES[name])).parameters


def _loader(module: str) -> Callable[..., Dataset]:
    load: Callable[..., Dataset] = importlib.import_module(module).load
    return load


def _found(path: Path, data_dir: Path | None) -> Path:
    """A file given by a relative path is looked for here first, then in the data folder."""
    there = data_folder(data_dir) / path
    return there if there.exists() and not path.exists() else path
