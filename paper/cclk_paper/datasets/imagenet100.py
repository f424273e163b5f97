"""ImageNet-100: 100 of the classes of ImageNet-1k, approximately 127,000 training and 5,000 test
photographs.

    <data folder>/imagenet-100/classes.txt      one class per line: n02869837, optionally a name
    <data folder>/imagenet-100/train/<class>/   images, *.JPEG
    <data folder>/imagenet-100/val/<class>/

The folders may contain (or link to) all of ImageNet: only the listed classes are used, numbered in
the order of the list. The condition is the label or, with a feature file, the features.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cclk.data.dataset import Dataset
from cclk.data.folder import data_folder
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError
from cclk_paper.datasets.feature_files import features_column, invalid_features, read_features
from cclk_paper.datasets.image_folder import at_line, check_files, image_files, numbered_lines
from cclk_paper.datasets.labeled import Floats, held_out_dataset, labeled_split

_PARTS = ("train", "val")


def load(
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    size: int = 224,
    holdout: int = 5_000,
    classes: str | Path | None = None,
    features: str | Path | None = None,
) -> Dataset:
    """Return the dataset; its condition is the label, or features.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the rows held out.
        size: height and width of the images, in pixels.
        holdout: number of training images held out for validation.
        classes: the list of classes; None: classes.txt in the folder of the dataset.
        features: a file written by `cclk-paper features imagenet-100`, used as condition instead of
            the label.
    """
    folder = data_folder(data_dir) / "imagenet-100"
    get = (
        "get ImageNet (ILSVRC 2012) from https://image-net.org/ and put its classes there as"
        " train/<class>/ and val/<class>/"
    )
    check_files(folder, "ImageNet-100", _PARTS, get)
    names = _classes(
        Path(classes).expanduser() if classes is not None else folder / "classes.txt", folder
    )
    paths: list[Path] = []
    labels: list[int] = []
    lengths = []
    for part in _PARTS:
        for label, name in enumerate(names):
            images = image_files(folder / part / name)
            if not images:
                raise DataError(
                    f"{folder / part / name} holds no images: put those of this class there as"
                    " *.JPEG"
                )
            paths += images
            labels += [label] * len(images)
        lengths.append(len(paths))
    condition, column, kind = None, None, "the label"
    if features is not None:
        condition = _features(features, [path.relative_to(folder).as_posix() for path in paths])
        column, kind = features_column(condition.shape[1]), f"{condition.shape[1]} features"
    streamed = StreamedImages(paths, size, cache_dir=folder.parent / "decoded")
    samples = labeled_split(streamed, np.array(labels), condition)
    return held_out_dataset(
        "imagenet-100",
        samples,
        np.arange(lengths[0]),
        samples.subset(np.arange(lengths[0], lengths[1])),
        classes=tuple(names.values()),
        column=column,
        holdout=holdout,
        seed=seed,
        description=(
            f"ImageNet-100: {len(paths)} photographs of {len(names)} kinds, condition: {kind},"
            f" {size} x {size}"
        ),
    )


def _features(path: str | Path, ids: list[str]) -> Floats:
    """Return the features of these images, in this order; the file may hold others."""
    file = read_features(path, "imagenet-100")
    stored: list[str] = file.ids.tolist()
    row_of = {name: row for row, name in enumerate(stored)}
    if len(row_of) < len(stored):
        repeated = next(name for row, name in enumerate(stored) if row_of[name] != row)
        raise invalid_features(file.path, f"it has two rows for {repeated}")
    missing = [name for name in ids if name not in row_of]
    if missing:
        raise invalid_features(
            file.path,
            f"it has no features of {len(missing)} of {len(ids)} images, such as"
            f" {', '.join(missing[:3])}",
        )
    rows = np.array([row_of[name] for name in ids])
    # Copied only if reordered: this may be the largest array of the dataset.
    return file.features if np.array_equal(rows, np.arange(len(stored))) else file.features[rows]


def _classes(path: Path, folder: Path) -> dict[str, str]:
    """Return the names of the listed classes by their folders."""
    if not path.is_file():
        raise DataError(
            f"the list of classes {path} is missing: write the folder names of the classes into it,"
            " one per line"
        )
    names: dict[str, str] = {}
    for line, text in numbered_lines(path):
        own, _, name = text.partition(" ")
        if own in names:
            raise at_line(path, line, f"the class {own} is listed twice")
        for part in _PARTS:
            if not (folder / part / own).is_dir():
                raise at_line(
                    path,
                    line,
                    f"the class {own} does not exist: {folder / part / own} is not a folder",
                )
        names[own] = name.strip() or own
    if not names:
        raise DataError(f"{path} lists no classes: write their folder names into it, one per line")
    return names
