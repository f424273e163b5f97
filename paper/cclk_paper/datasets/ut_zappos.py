"""UT-Zappos50K: 50,025 photographs of shoes of 21 kinds, with attributes such as material and
closure, in the official layout.

    <data folder>/ut-zappos/ut-zap50k-data/meta-data.csv     columns: CID, Category, SubCategory,
                            HeelHeight, Insole, Closure, Gender, Material, ToeStyle
    <data folder>/ut-zappos/ut-zap50k-images-square/         <Category>/<SubCategory>/<brand>/*.jpg

Without `ut-zap50k-images-square/`, `ut-zap50k-images/` is used, but its images are wider than high
and lose both ends of the shoe. A row belongs to the image named by its CID, with `.` for `-`:
100627-72 to 100627.72.jpg, in any folder.

The label is category and sub-category, 21 in total. The condition is one bit for each value of
HeelHeight (7), Insole (14), Closure (19), Gender (4), Material (63) and ToeStyle (19), in the
official file the paper's 126; a cell may hold several values, `Leather;Suede`, or none. Category
and SubCategory are the label, so they are not part of the condition; the paper's 126 does not
include their 4 and 21 values either, though the paper mentions seven attributes. As in the paper,
70 % of the rows, drawn at random, are for training.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cclk.columns import Column, encode
from cclk.data.dataset import Dataset
from cclk.data.folder import data_folder
from cclk.data.randomness import generator
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError
from cclk_paper.datasets.image_folder import at_line, check_files, damaged, image_files
from cclk_paper.datasets.labeled import Floats, held_out_dataset, labeled_split

_ATTRIBUTES = ("HeelHeight", "Insole", "Closure", "Gender", "Material", "ToeStyle")
_COLUMNS = ("CID", "Category", "SubCategory", *_ATTRIBUTES)
_TABLE = "ut-zap50k-data/meta-data.csv"
_SQUARE, _ORIGINAL = "ut-zap50k-images-square", "ut-zap50k-images"

Shoes = list[tuple[int, dict[str, str]]]
"""The rows of the table, each with its line number."""


def load(
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    size: int = 32,
    holdout: int = 3_500,
    attributes: int | None = None,
) -> Dataset:
    """Return the dataset; its condition is the attributes.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the split and of the rows held out.
        size: height and width of the images, in pixels.
        holdout: number of training images held out for validation.
        attributes: number of attributes in the condition, the most frequent ones; None: all.
    """
    folder = data_folder(data_dir) / "ut-zappos"
    get = (
        f"get ut-zap50k-data.zip and {_SQUARE}.zip from"
        " https://vision.cs.utexas.edu/projects/finegrained/utzap50k/ and unpack both into that"
        " folder"
    )
    images = _ORIGINAL if (folder / _ORIGINAL).is_dir() else _SQUARE
    images = _SQUARE if (folder / _SQUARE).is_dir() else images
    check_files(folder, "UT-Zappos50K", [_TABLE, images], get)
    table = folder / _TABLE
    shoes = _read(table)
    paths = _match(table, shoes, folder / images)
    names = [f"{shoe['Category']}/{shoe['SubCategory']}" for _, shoe in shoes]
    classes, labels = np.unique(names, return_inverse=True)
    condition, values = _most_frequent(*_attributes(shoes), attributes)
    streamed = StreamedImages(paths, size, cache_dir=folder.parent / "decoded")
    samples = labeled_split(streamed, labels, condition)
    order = generator(seed, "ut-zappos split").permutation(len(shoes))
    training = len(shoes) * 7 // 10
    return held_out_dataset(
        "ut-zappos",
        samples,
        np.sort(order[:training]),
        samples.subset(np.sort(order[training:])),
        classes=tuple(classes.tolist()),
        column=Column("attributes", width=len(values), categories=values),
        holdout=holdout,
        seed=seed,
        description=(
            f"UT-Zappos50K: {len(shoes)} shoes of {len(classes)} kinds with {len(values)}"
            f" attributes, {size} x {size}"
        ),
    )


def samples_per_value(counts: Sequence[int], data_dir: Path | None = None) -> dict[int, float]:
    """Return the mean number of shoes that share all of their most frequent attributes, by the
    number of attributes; {} where the official table is missing.

    Args:
        counts: numbers of attributes.
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
    """
    table = data_folder(data_dir) / "ut-zappos" / _TABLE
    if not table.exists():
        return {}
    condition, names = _attributes(_read(table))
    kept = {count: _most_frequent(condition, names, count)[0] for count in counts}
    return {count: len(part) / len(np.unique(part, axis=0)) for count, part in kept.items()}


def _read(path: Path) -> Shoes:
    shoes: Shoes = []
    seen: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = csv.reader(stream)
            header = [name.strip() for name in next(lines, [])]
            if lacking := [name for name in _COLUMNS if name not in header]:
                columns = ",".join(_COLUMNS)
                raise at_line(
                    path, 1, f"column {lacking[0]} is missing; the header must be {columns}"
                )
            for cells in filter(None, lines):
                shoe = {name: cell.strip() for name, cell in zip(header, cells, strict=False)}
                wrong, number = "", lines.line_num
                if len(cells) != len(header):
                    wrong = f"it has {len(cells)} cells, but the header has {len(header)}"
                elif empty := [name for name in _COLUMNS[:3] if not shoe[name]]:
                    wrong = f"{empty[0]} is empty"
                elif shoe["CID"] in seen:
                    wrong = f"CID {shoe['CID']} is in line {seen[shoe['CID']]} already"
                if wrong:
                    raise at_line(path, number, wrong)
                seen[shoe["CID"]] = number
                shoes.append((number, shoe))
    except (UnicodeDecodeError, csv.Error) as error:
        raise damaged(path, f"is not a CSV file in UTF-8 ({error})") from error
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror or error})") from error
    if len(shoes) < 2:
        raise damaged(path, f"has {len(shoes)} rows, too few to split")
    return shoes


def _match(table: Path, shoes: Shoes, folder: Path) -> list[Path]:
    """Return the image of each row by its CID alone, because spellings of brands vary."""
    by_cid: dict[str, list[Path]] = defaultdict(list)
    for path in image_files(folder, recursive=True):
        by_cid[path.stem.replace(".", "-")].append(path)
    images: list[Path] = []
    missing: list[tuple[int, str]] = []
    for line, shoe in shoes:
        paths = by_cid.get(shoe["CID"].replace(".", "-"), [])
        if len(paths) > 1:
            kind = (shoe["Category"], shoe["SubCategory"])
            paths = [path for path in paths if path.relative_to(folder).parts[:2] == kind] or paths
        if len(paths) > 1:
            both = " and ".join(str(path.relative_to(folder)) for path in paths[:2])
            raise at_line(
                table, line, f"CID {shoe['CID']} has several images, {both}: delete all but one"
            )
        images += paths
        if not paths:
            missing.append((line, shoe["CID"]))
    if missing:
        line, cid = missing[0]
        more = f", nor have {len(missing) - 1} others" if len(missing) > 1 else ""
        raise at_line(
            table,
            line,
            f"CID {cid} has no image {cid.replace('-', '.')}.jpg below {folder}{more}: unpack all"
            " images there",
        )
    return images


def _attributes(shoes: Shoes) -> tuple[Floats, tuple[str, ...]]:
    """Return one column for each value of each attribute, and their names."""
    tables, names = [], []
    for attribute in _ATTRIBUTES:
        cells = [
            ";".join(value for value in shoe[attribute].split(";") if value.strip() != "NA")
            for _, shoe in shoes
        ]
        table, column = encode(np.array(cells, dtype=object), "attributes", attribute)
        tables.append(table)
        names += [name.replace("=", ": ", 1) for name in column.categories]
    return np.concatenate(tables, axis=1).astype(np.float32), tuple(names)


def _most_frequent(
    condition: Floats, names: tuple[str, ...], count: int | None
) -> tuple[Floats, tuple[str, ...]]:
    """Keep the most frequent attributes, in their order."""
    if count is None or count >= len(names):
        return condition, names
    if count < 1:
        raise DataError(f"attributes is {count}: it must be at least 1")
    kept = np.sort(np.argsort(-condition.sum(axis=0), kind="stable")[:count])
    return condition[:, kept], tuple(names[column] for column in kept)
