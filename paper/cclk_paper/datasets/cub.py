"""CUB-200-2011: 11,788 photographs of birds of 200 species with 312 binary attributes, in the
official layout.

    <data folder>/cub/CUB_200_2011/     or its contents directly in <data folder>/cub/
        images.txt                      <image> <path below images/>
        classes.txt                     <class> <name>
        image_class_labels.txt          <image> <class>
        train_test_split.txt            <image> <1 train, 0 test>
        attributes/image_attribute_labels.txt    <image> <attribute> <1 present, 0 not>
                                                 <certainty> <seconds>
        images/

The condition is the presence of each attribute, however certain. Attributes are named by
attributes.txt, which the official archive holds beside CUB_200_2011/; without it they are numbered.
The split is the official one, 5,994 and 5,794.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cclk.columns import Column
from cclk.data.dataset import Dataset
from cclk.data.folder import data_folder
from cclk.data.splits import Rows
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError
from cclk_paper.datasets.image_folder import at_line, check_files, damaged, numbered_lines
from cclk_paper.datasets.labeled import Floats, held_out_dataset, labeled_split

_FILES = ("images.txt", "classes.txt", "image_class_labels.txt", "train_test_split.txt")
_MARKS = "attributes/image_attribute_labels.txt"


def load(
    *, data_dir: Path | None = None, seed: int = 0, size: int = 224, holdout: int = 600
) -> Dataset:
    """Return the dataset; its condition is the attributes.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the rows held out.
        size: height and width of the images, in pixels.
        holdout: number of training images held out for validation.
    """
    folder = base = data_folder(data_dir) / "cub"
    if (base / "CUB_200_2011").is_dir():
        folder = base / "CUB_200_2011"
    get = (
        "get CUB_200_2011.tgz from https://www.vision.caltech.edu/datasets/cub_200_2011/ and unpack"
        f" it into {base}"
    )
    check_files(folder, "CUB-200-2011", [*_FILES, _MARKS, "images"], get)
    lists, classes_file, labels_file, split_file = (folder / name for name in _FILES)
    files = {image: name for _, image, name in _pairs(lists, "image and path")}
    if not files:
        raise damaged(lists, "lists no images")
    row_of = {image: row for row, image in enumerate(files)}
    classes = {number: name for _, number, name in _pairs(classes_file, "class and name")}
    code = {number: index for index, number in enumerate(classes)}
    labels = _column(labels_file, row_of, code, "class", "is not in classes.txt")
    training = _column(
        split_file, row_of, {0: 0, 1: 1}, "part", "is neither 1 (train) nor 0 (test)"
    )
    condition = _attributes(folder / _MARKS, row_of)
    train, test = np.flatnonzero(training == 1), np.flatnonzero(training == 0)
    for part, rows in (("train", train), ("test", test)):
        if len(rows) == 0:
            raise damaged(split_file, f"has no image to {part} on")
    images = StreamedImages(
        [folder / "images" / name for name in files.values()],
        size,
        cache_dir=base.parent / "decoded",
    )
    samples = labeled_split(images, labels, condition)
    width = condition.shape[1]
    return held_out_dataset(
        "cub",
        samples,
        train,
        samples.subset(test),
        classes=tuple(_plain(name) for name in classes.values()),
        column=Column("attributes", width=width, categories=_names(folder, width)),
        holdout=holdout,
        seed=seed,
        description=(
            f"CUB-200-2011: {len(files)} birds of {len(classes)} species with {width} attributes,"
            f" {size} x {size}"
        ),
    )


def _plain(name: str) -> str:
    """Return "Black footed Albatross" for "001.Black_footed_Albatross"."""
    number, _, rest = name.partition(".")
    return (rest if number.isdigit() and rest else name).replace("_", " ")


def _pairs(path: Path, what: str) -> Iterator[tuple[int, int, str]]:
    """Yield line, number and text of each line; numbers must differ."""
    seen: dict[int, int] = {}
    for line, text in numbered_lines(path):
        number, _, rest = text.partition(" ")
        if not number.isdecimal() or not rest.strip():
            raise at_line(path, line, f"{text[:60]!r} is not {what}")
        if int(number) in seen:
            raise at_line(path, line, f"number {number} is in line {seen[int(number)]} already")
        seen[int(number)] = line
        yield line, int(number), rest.strip()


def _column(
    path: Path, row_of: dict[int, int], code: dict[int, int], what: str, wrong: str
) -> Rows:
    """Return the code of each image's value."""
    values = np.full(len(row_of), -1, np.int64)
    for line, image, text in _pairs(path, f"image and {what}"):
        if image not in row_of:
            raise at_line(path, line, f"image {image} is not in images.txt")
        if not text.isdecimal() or int(text) not in code:
            raise at_line(path, line, f"{what} {text} {wrong}")
        values[row_of[image]] = code[int(text)]
    if (values < 0).any():
        raise damaged(path, f"has no {what} of image {list(row_of)[int(np.argmax(values < 0))]}")
    return values


def _attributes(path: Path, row_of: dict[int, int]) -> Floats:
    """Return whether each attribute is present in each image."""
    if next(numbered_lines(path), None) is None:
        raise damaged(path, "is empty")
    try:
        # Some official lines have more than five fields; the first three are right in all.
        marks = np.loadtxt(
            path, dtype=np.int64, usecols=(0, 1, 2), comments=None, ndmin=2, encoding="utf-8"
        )
    except (ValueError, OSError) as error:
        raise _bad_mark(path) or damaged(path, f"cannot be read ({error})") from error
    image, attribute, present = marks.T
    numbers = np.array(list(row_of))
    for wrong, what in (
        (~np.isin(image, numbers), "its image is not in images.txt"),
        (attribute < 1, "attributes count from 1"),
        ((present != 0) & (present != 1), "the third field must be 1 (present) or 0"),
    ):
        if wrong.any():
            lines = [line for line, _ in numbered_lines(path)]
            raise at_line(path, lines[int(np.argmax(wrong))], what)
    images, attributes = len(numbers), int(attribute.max())
    if len(marks) != images * attributes:
        raise damaged(
            path,
            f"has {len(marks)} lines, but {images} images with {attributes} attributes each need"
            f" {images * attributes}",
        )
    by_number = np.argsort(numbers)
    row = by_number[np.searchsorted(numbers, image, sorter=by_number)]
    result = np.full((images, attributes), -1, np.float32)
    result[row, attribute - 1] = present
    if (result < 0).any():
        first, column = np.argwhere(result < 0)[0]
        raise damaged(
            path, f"lacks attribute {column + 1} of image {numbers[first]} and repeats another"
        )
    return result


def _bad_mark(path: Path) -> DataError | None:
    """Return an error for the first line that does not begin with three integers."""
    for line, text in numbered_lines(path):
        fields = text.split()
        if len(fields) < 3 or not all(field.lstrip("-").isdecimal() for field in fields[:3]):
            return at_line(
                path, line, f"{text[:60]!r} is not image, attribute, 1 or 0, certainty and seconds"
            )
    return None


def _names(folder: Path, count: int) -> tuple[str, ...]:
    for parent in (folder / "attributes", folder, folder.parent):
        path = parent / "attributes.txt"
        if path.is_file():
            names = {number: name for _, number, name in _pairs(path, "attribute and name")}
            lacking = [number for number in range(1, count + 1) if number not in names]
            if lacking:
                raise damaged(path, f"has no name for attribute {lacking[0]}")
            return tuple(names[number] for number in range(1, count + 1))
    return tuple(f"attribute {number}" for number in range(1, count + 1))
