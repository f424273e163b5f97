"""UT-Zappos50K: 50,025 photographs of shoes of 21 kinds, with attributes such as material and
closure, in the official form.

    <data folder>/ut-zappos/ut-zap50k-data/meta-data.csv     CID,Category,SubCategory,HeelHeight,Insole,Closure,Gender,Material,ToeStyle
    <data folder>/ut-zappos/ut-zap50k-images-square/         <Category>/<SubCategory>/<brand>/<image>.jpg

`ut-zap50k-images/` serves where there is no `ut-zap50k-images-square/`, but its images are wider
than high and lose both ends of the shoe. A row belongs to the image with its CID for a name, `.`
for `-`: 100627-72 to 100627.72.jpg, in whatever folder.

The label is category and sub-category, 21 of them. The condition is a bit for each value that
occurs of HeelHeight (7), Insole (14), Closure (19), Gender (4), Material (63) and ToeStyle (19),
which in the official file makes the paper's 126; a cell may hold several values, `Leather;Suede`,
or none. Category and SubCategory are left out: they are the label, and the paper's 126 does not
hold their 4 and 21 values either, though it speaks of seven attributes. As in the paper, 7 of 10
rows drawn at random are for training.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cclk.columns import Column
from cclk.data.dataset import Dataset
from cclk.data.randomness import generator
from cclk.data.splits import Rows
from cclk.data.streamed import StreamedImages
from cclk.datasets.image_folder import at_line, image_dataset, image_files, own_folder
from cclk.errors import DataError

_ATTRIBUTES = ("HeelHeight", "Insole", "Closure", "Gender", "Material", "ToeStyle")
_COLUMNS = ("CID", "Category", "SubCategory", *_ATTRIBUTES)
_SQUARE, _ORIGINAL = "ut-zap50k-images-square", "ut-zap50k-images"

Shoes = list[tuple[int, dict[str, str]]]
"""The rows of the file, each with the number of its line."""


def load(
    *, data_dir: Path | None = None, seed: int = 0, size: int = 32, holdout: int = 3_500
) -> Dataset:
    """The dataset; `holdout` of the training images are kept for validation."""
    get = (
        f"get ut-zap50k-data.zip and {_SQUARE}.zip from"
        " https://vision.cs.utexas.edu/projects/finegrained/utzap50k/ and unpack both into that"
        " folder"
    )
    folder = own_folder(
        data_dir, "ut-zappos", title="UT-Zappos50K", parts=["ut-zap50k-data/meta-data.csv"], get=get
    )
    below = next((folder / name for name in (_SQUARE, _ORIGINAL) if (folder / name).is_dir()), None)
    if below is None:
        raise DataError(f"UT-Zappos50K is not complete in {folder}, {_SQUARE} not found: {get}")
    table = folder / "ut-zap50k-data" / "meta-data.csv"
    shoes = _read(table)
    images = StreamedImages(_match(table, shoes, below), size, cache_dir=folder.parent / "decoded")
    names = [f"{shoe['Category']}/{shoe['SubCategory']}" for _, shoe in shoes]
    classes, labels = np.unique(names, return_inverse=True)
    condition, condition_names = _bits(shoes)
    order = generator(seed, "ut-zappos split").permutation(len(shoes))
    training = len(shoes) * 7 // 10
    return image_dataset(
        "ut-zappos",
        images,
        labels.astype(np.int64),
        condition,
        _sorted(order[:training]),
        _sorted(order[training:]),
        classes=tuple(classes.tolist()),
        column=Column("attributes", width=len(condition_names), categories=condition_names),
        holdout=holdout,
        seed=seed,
        description=(
            f"UT-Zappos50K: {len(shoes)} shoes of {len(classes)} kinds with {len(condition_names)}"
            f" attributes, {size} x {size}"
        ),
    )


def _sorted(rows: Rows) -> Rows:
    return np.sort(rows)


def _read(path: Path) -> Shoes:
    shoes: Shoes = []
    seen: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = csv.reader(stream)
            header = [name.strip() for name in next(lines, [])]
            for name in _COLUMNS:
                if name not in header:
                    raise at_line(
                        path,
                        1,
                        f"there is no column {name}; the header must be {','.join(_COLUMNS)}",
                    )
            for cells in lines:
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise at_line(
                        path,
                        lines.line_num,
                        f"it has {len(cells)} cells, but the header has {len(header)}",
                    )
                shoe = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
                for name in ("CID", "Category", "SubCategory"):
                    if not shoe[name]:
                        raise at_line(path, lines.line_num, f"{name} is empty")
                if shoe["CID"] in seen:
                    raise at_line(
                        path,
                        lines.line_num,
                        f"CID {shoe['CID']} stands in line {seen[shoe['CID']]} already",
                    )
                seen[shoe["CID"]] = lines.line_num
                shoes.append((lines.line_num, shoe))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{path} is no CSV file in UTF-8 ({error}): get it again from its source"
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(shoes) < 2:
        raise DataError(
            f"{path} has {len(shoes)} rows, too few to split: get it again from its source"
        )
    return shoes


def _match(table: Path, shoes: Shoes, below: Path) -> list[Path]:
    """The image of each row, by its number alone: brands are written in several ways."""
    by_number: dict[str, list[Path]] = defaultdict(list)
    for path in image_files(below, below=True):
        by_number[path.stem.replace(".", "-")].append(path)
    images: list[Path] = []
    lost: list[tuple[int, str]] = []
    for line, shoe in shoes:
        found = by_number.get(shoe["CID"].replace(".", "-"), [])
        if len(found) > 1:
            kind = (shoe["Category"], shoe["SubCategory"])
            found = [path for path in found if path.relative_to(below).parts[:2] == kind] or found
        if len(found) > 1:
            raise at_line(
                table,
                line,
                f"CID {shoe['CID']} has several images, {found[0]} and {found[1]}: delete all"
                " but one",
            )
        if found:
            images.append(found[0])
        else:
            lost.append((line, shoe["CID"]))
    if lost:
        line, cid = lost[0]
        more = f", nor have {len(lost) - 1} others" if len(lost) > 1 else ""
        name = f"{cid.replace('-', '.')}.jpg"
        raise at_line(
            table,
            line,
            f"CID {cid} has no image {name} below {below}{more}: unpack all images there",
        )
    return images


def _bits(shoes: Shoes) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
    """A column for each value of each attribute, by attribute and then by value."""
    values = [
        {attribute: _values(shoe[attribute]) for attribute in _ATTRIBUTES} for _, shoe in shoes
    ]
    names = [
        (attribute, value)
        for attribute in _ATTRIBUTES
        for value in sorted({v for row in values for v in row[attribute]})
    ]
    column = {name: number for number, name in enumerate(names)}
    bits = np.zeros((len(shoes), len(names)), np.float32)
    for row, of_shoe in enumerate(values):
        for attribute, own in of_shoe.items():
            bits[row, [column[attribute, value] for value in own]] = 1
    return bits, tuple(f"{attribute}: {value}" for attribute, value in names)


def _values(cell: str) -> list[str]:
    return [value for part in cell.split(";") if (value := part.strip()) not in ("", "NA")]
