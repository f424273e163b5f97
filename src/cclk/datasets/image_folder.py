"""What the datasets of image files share: finding their folder, reading their lists, and making
the splits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.data.folder import data_folder
from cclk.data.splits import Rows, hold_out, stratified_order
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError

_ENDINGS = (".jpg", ".jpeg", ".png")


def own_folder(
    data_dir: Path | None, name: str, *, title: str, parts: Sequence[str], get: str
) -> Path:
    """The folder of a dataset that cannot be fetched freely; where a part of it is missing, one
    line says what to do.

    Args:
        parts: what must be in the folder.
        get: where to get what, to end "unpack it there" or the like.
    """
    folder = data_folder(data_dir) / name
    missing = [part for part in parts if not (folder / part).exists()]
    if missing:
        raise DataError(
            f"{title} is not complete in {folder}, {', '.join(missing)} not found: {get}"
        )
    return folder


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not empty, each with its number from 1."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if text := line.strip():
                    yield number, text
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is no UTF-8 text ({error.reason} at byte {error.start}): get it again from its"
            " source"
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror or error}): put it there"
        ) from error


def at_line(path: Path, number: int, what: str) -> DataError:
    """A complaint about one line of a file."""
    return DataError(f"{path}, line {number}: {what}")


def image_files(folder: Path, *, below: bool = False) -> list[Path]:
    """The images in a folder, or also in all folders below it, by name; hidden files are passed
    over.
    """
    found: list[Path] = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(folders) if below else []
        found.extend(
            Path(root, file)
            for file in sorted(files)
            if file.lower().endswith(_ENDINGS) and not file.startswith(".")
        )
    return found


def image_dataset(
    name: str,
    images: StreamedImages,
    labels: Rows,
    condition: npt.NDArray[np.float32] | None,
    train: Rows,
    test: Rows,
    *,
    classes: tuple[str, ...],
    column: Column | None = None,
    holdout: int,
    seed: int,
    description: str,
) -> Dataset:
    """The dataset whose `train` rows, less those held out, and `test` rows are for that. No
    condition: the label is the condition.
    """
    kept, held_out = hold_out(stratified_order(labels[train], seed), holdout)
    y = torch.from_numpy(labels)
    values: Tensor = y[:, None].float() if condition is None else torch.from_numpy(condition)

    def split(rows: Rows) -> Split:
        return Split(images, y, values).subset(torch.from_numpy(rows))

    return Dataset(
        name=name,
        train=split(train[kept]),
        validation=split(train[held_out]),
        test=split(test),
        classes=classes,
        columns=(column or Column("label", "categorical", 1, classes),),
        description=description,
    )
