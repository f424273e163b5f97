"""ImageNet-100: 100 of the classes of ImageNet-1k, about 127,000 photographs to train on and
5,000 to test on.

    <data folder>/imagenet-100/classes.txt          the classes, one per line: n02869837, and a name after it if you like
    <data folder>/imagenet-100/train/<class>/       its images, *.JPEG
    <data folder>/imagenet-100/val/<class>/

All of ImageNet may lie there (or be linked to): only the classes that are listed are used, and they
count in the order of the list. With a features file (`cclk features`) the condition is the features
of each image; without, it is the label.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from cclk.data.dataset import Dataset
from cclk.data.feature_files import features_column, read_features
from cclk.data.streamed import StreamedImages
from cclk.datasets.image_folder import (
    at_line,
    image_dataset,
    image_files,
    numbered_lines,
    own_folder,
)
from cclk.errors import DataError

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
    """The dataset; `holdout` of the training images are kept for validation.

    Args:
        classes: the list of classes; None: classes.txt in the folder of the dataset.
        features: a file made by `cclk features imagenet-100`, whose numbers are the condition then
            instead of the label.
    """
    get = (
        "get ImageNet (ILSVRC 2012) from https://image-net.org/ and put its classes there as"
        " train/<class>/ and val/<class>/"
    )
    folder = own_folder(data_dir, "imagenet-100", title="ImageNet-100", parts=_PARTS, get=get)
    names = _classes(
        Path(classes).expanduser() if classes is not None else folder / "classes.txt", folder
    )
    paths: list[Path] = []
    labels: list[int] = []
    lengths = []
    for part in _PARTS:
        for label, name in enumerate(names):
            found = image_files(folder / part / name)
            if not found:
                raise DataError(
                    f"{folder / part / name} holds no images: put those of this class there as"
                    " *.JPEG"
                )
            paths += found
            labels += [label] * len(found)
        lengths.append(len(paths))
    condition = None
    if features is not None:
        condition = _features(features, [path.relative_to(folder).as_posix() for path in paths])
    images = StreamedImages(paths, size, cache_dir=folder.parent / "decoded")
    about = "the label" if condition is None else f"{condition.shape[1]} features"
    return image_dataset(
        "imagenet-100",
        images,
        np.array(labels, np.int64),
        condition,
        np.arange(lengths[0]),
        np.arange(lengths[0], lengths[1]),
        classes=tuple(names.values()),
        column=None if condition is None else features_column(condition.shape[1]),
        holdout=holdout,
        seed=seed,
        description=(
            f"ImageNet-100: {len(paths)} photographs of {len(names)} kinds, condition: {about},"
            f" {size} x {size}"
        ),
    )


def _features(path: str | Path, ids: list[str]) -> npt.NDArray[np.float32]:
    """The features of these images, in this order; the file may hold others too."""
    found = read_features(path, "imagenet-100")
    place = {name: row for row, name in enumerate(found.ids.tolist())}
    if len(place) < len(found.ids):
        twice = next(name for row, name in enumerate(found.ids.tolist()) if place[name] != row)
        raise DataError(f"{found.path} has two rows for {twice}: make it anew with cclk features")
    missing = [name for name in ids if name not in place]
    if missing:
        raise DataError(
            f"{found.path} has no features of {len(missing)} of {len(ids)} images, among them"
            f" {', '.join(missing[:3])}: make it anew with cclk features, from these very images"
        )
    rows = np.array([place[name] for name in ids])
    # Not copied where it is in order already: this may well be the largest array of the dataset.
    return found.features if np.array_equal(rows, np.arange(len(place))) else found.features[rows]


def _classes(path: Path, folder: Path) -> dict[str, str]:
    """Folder and name of each class that is listed."""
    if not path.is_file():
        raise DataError(
            f"the list of classes {path} is missing: write the folder names of the classes into it,"
            " one per line"
        )
    names: dict[str, str] = {}
    for line, text in numbered_lines(path):
        own, _, name = text.partition(" ")
        if own in names:
            raise at_line(path, line, f"the class {own} stands there twice")
        for part in _PARTS:
            if not (folder / part / own).is_dir():
                raise at_line(
                    path, line, f"there is no class {own}: {folder / part / own} is no folder"
                )
        names[own] = name.strip() or own
    if not names:
        raise DataError(f"{path} lists no classes: write their folder names into it, one per line")
    return names
