"""CUB-200-2011: 11,788 photographs of birds of 200 species, with 312 binary attributes each, in
the official form.

    <data folder>/cub/CUB_200_2011/     or its content straight in <data folder>/cub/
        images.txt                      <image> <path below images/>
        classes.txt                     <class> <name>
        image_class_labels.txt          <image> <class>
        train_test_split.txt            <image> <1 to train on, 0 to test on>
        attributes/image_attribute_labels.txt    <image> <attribute> <1 present, 0 not> <certainty> <seconds>
        images/

The condition is whether each attribute is present, however certain that is. The names of the
attributes are in attributes.txt, which the official archive has beside CUB_200_2011/; without it
they are numbered. The split is the official one, 5,994 and 5,794.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cclk.columns import Column
from cclk.data.dataset import Dataset
from cclk.data.splits import Rows
from cclk.data.streamed import StreamedImages
from cclk.datasets.image_folder import at_line, image_dataset, numbered_lines, own_folder
from cclk.errors import DataError

_FILES = ("images.txt", "classes.txt", "image_class_labels.txt", "train_test_split.txt")
_MARKS = "attributes/image_attribute_labels.txt"


def load(
    *, data_dir: Path | None = None, seed: int = 0, size: int = 224, holdout: int = 600
) -> Dataset:
    """The dataset; `holdout` of the training images are kept for validation."""
    get = (
        "get CUB_200_2011.tgz from https://www.vision.caltech.edu/datasets/cub_200_2011/ and unpack"
        " it into that folder"
    )
    parts = [*_FILES, _MARKS, "images"]
    base = own_folder(data_dir, "cub", title="CUB-200-2011", parts=[], get=get)
    within = "cub/CUB_200_2011" if (base / "CUB_200_2011").is_dir() else "cub"
    folder = own_folder(data_dir, within, title="CUB-200-2011", parts=parts, get=get)
    files = [(image, name) for _, image, name in _pairs(folder / "images.txt", "image and path")]
    if not files:
        raise DataError(f"{folder / 'images.txt'} lists no images: get it again from its source")
    place = {image: row for row, (image, _) in enumerate(files)}
    classes = {number: name for _, number, name in _pairs(folder / "classes.txt", "class and name")}
    code = {number: index for index, number in enumerate(classes)}
    labels = _column(
        folder / "image_class_labels.txt", place, code, "class", "is not in classes.txt"
    )
    training = _column(
        folder / "train_test_split.txt",
        place,
        {0: 0, 1: 1},
        "part",
        "is neither 1 (train) nor 0 (test)",
    )
    condition = _attributes(folder / _MARKS, place)
    for part, rows in (("train", training == 1), ("test", training == 0)):
        if not rows.any():
            raise DataError(
                f"{folder / 'train_test_split.txt'} has no image to {part} on: get it again from"
                " its source"
            )
    images = StreamedImages(
        [folder / "images" / name for _, name in files], size, cache_dir=base.parent / "decoded"
    )
    return image_dataset(
        "cub",
        images,
        labels,
        condition,
        np.flatnonzero(training == 1),
        np.flatnonzero(training == 0),
        classes=tuple(_plain(name) for name in classes.values()),
        column=Column(
            "attributes", width=condition.shape[1], categories=_names(folder, condition.shape[1])
        ),
        holdout=holdout,
        seed=seed,
        description=(
            f"CUB-200-2011: {len(files)} birds of {len(classes)} species with {condition.shape[1]}"
            f" attributes, {size} x {size}"
        ),
    )


def _plain(name: str) -> str:
    """001.Black_footed_Albatross is Black footed Albatross."""
    number, _, rest = name.partition(".")
    return (rest if number.isdigit() and rest else name).replace("_", " ")


def _pairs(path: Path, what: str) -> Iterator[tuple[int, int, str]]:
    """Line, number and text of each line; a number stands in one line only."""
    seen: dict[int, int] = {}
    for line, text in numbered_lines(path):
        number, _, rest = text.partition(" ")
        if not number.isdecimal() or not rest.strip():
            raise at_line(path, line, f"{text[:60]!r} is not {what}")
        if int(number) in seen:
            raise at_line(path, line, f"number {number} stands in line {seen[int(number)]} already")
        seen[int(number)] = line
        yield line, int(number), rest.strip()


def _column(path: Path, place: dict[int, int], code: dict[int, int], what: str, wrong: str) -> Rows:
    """A value for each image, by the code of the number in the file."""
    values = np.full(len(place), -1, np.int64)
    for line, image, text in _pairs(path, f"image and {what}"):
        if image not in place:
            raise at_line(path, line, f"image {image} is not in images.txt")
        if not text.isdecimal() or int(text) not in code:
            raise at_line(path, line, f"{what} {text} {wrong}")
        values[place[image]] = code[int(text)]
    if (values < 0).any():
        raise DataError(
            f"{path} says nothing of image {list(place)[int(np.argmax(values < 0))]}: get it again"
            " from its source"
        )
    return values


def _attributes(path: Path, place: dict[int, int]) -> npt.NDArray[np.float32]:
    """Whether each attribute is present in each image."""
    if next(numbered_lines(path), None) is None:
        raise DataError(f"{path} is empty: get it again from its source")
    try:
        # Some official lines have more than five fields; the first three are right in all.
        marks = np.loadtxt(
            path, dtype=np.int64, usecols=(0, 1, 2), comments=None, ndmin=2, encoding="utf-8"
        )
    except (ValueError, OSError) as error:
        raise _bad_mark(path) or DataError(
            f"{path} cannot be read ({error}): get it again from its source"
        ) from error
    image, attribute, present = marks.T
    numbers = np.array(list(place))
    for wrong, what in (
        (~np.isin(image, numbers), "its image is not in images.txt"),
        (attribute < 1, "attributes count from 1"),
        ((present != 0) & (present != 1), "the third field must be 1 (present) or 0"),
    ):
        if wrong.any():
            raise at_line(path, _line_of(path, int(np.argmax(wrong))), what)
    images, attributes = len(numbers), int(attribute.max())
    if len(marks) != images * attributes:
        raise DataError(
            f"{path} has {len(marks)} lines, but {images} images with {attributes} attributes each"
            f" need {images * attributes}: get it again from its source"
        )
    by_number = np.argsort(numbers)
    row = by_number[np.searchsorted(numbers, image, sorter=by_number)]
    result = np.full((images, attributes), -1, np.float32)
    result[row, attribute - 1] = present
    if (result < 0).any():
        first, column = np.argwhere(result < 0)[0]
        raise DataError(
            f"{path} says nothing of attribute {column + 1} of image {numbers[first]}, and"
            " something else twice: get it again"
        )
    return result


def _bad_mark(path: Path) -> DataError | None:
    """What is wrong with the first line that is not three whole numbers and more."""
    for line, text in numbered_lines(path):
        fields = text.split()
        if len(fields) < 3 or not all(field.lstrip("-").isdecimal() for field in fields[:3]):
            return at_line(
                path, line, f"{text[:60]!r} is not image, attribute, 1 or 0, certainty and seconds"
            )
    return None


def _line_of(path: Path, record: int) -> int:
    return next(line for number, (line, _) in enumerate(numbered_lines(path)) if number == record)


def _names(folder: Path, count: int) -> tuple[str, ...]:
    for path in (
        folder / "attributes" / "attributes.txt",
        folder / "attributes.txt",
        folder.parent / "attributes.txt",
    ):
        if path.is_file():
            names = {number: name for _, number, name in _pairs(path, "attribute and name")}
            lacking = [number for number in range(1, count + 1) if number not in names]
            if lacking:
                raise DataError(
                    f"{path} has no name for attribute {lacking[0]}: get it again from its source,"
                    " or delete it"
                )
            return tuple(names[number] for number in range(1, count + 1))
    return tuple(f"attribute {number}" for number in range(1, count + 1))
