"""ImageNet-100 from a small tree in the official layout, with the label or features from a file
as condition.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cclk import datasets
from cclk.data import Dataset
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError

CLASSES = {"n02869837": "bonnet", "n01749939": "green mamba", "n02106550": "Rottweiler"}
FRAMES = {"train": 4, "val": 2}


def write(folder: Path) -> Path:
    """The tree, with one class more than is listed; class c shows 60 c, and 10 more with each
    image.
    """
    root = folder / "imagenet-100"
    for part, count in FRAMES.items():
        for number, name in enumerate([*CLASSES, "n99999999"]):
            own = root / part / name
            own.mkdir(parents=True)
            for frame in range(count):
                Image.new("RGB", (40, 30), (60 * number + 10 * frame,) * 3).save(
                    own / f"{name}_{frame}.JPEG", "JPEG", quality=95
                )
    (root / "classes.txt").write_text("".join(f"{wnid} {name}\n" for wnid, name in CLASSES.items()))
    return root


def ids(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.glob("*/*/*.JPEG"))


def features(root: Path, **changes: Any) -> Path:
    """The features of image i of class c of the tree: (part, c, i); in an order of their own,
    and with some to spare.
    """
    names = ids(root)
    values = [
        [
            float(name.startswith("val")),
            float([*CLASSES, "n99999999"].index(name.split("/")[1])),
            float(name[-6]),
        ]
        for name in names
    ]
    metadata = np.array(json.dumps({"dataset": "imagenet-100", "encoder": "e", "version": "0"}))
    arrays = {
        "features": np.array(values, np.float32),
        "ids": np.array(names),
        "metadata": metadata,
    } | changes
    path = root.parent / "features.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def load(folder: Path, **options: object) -> Dataset:
    return datasets.load("imagenet-100", data_dir=folder, **({"holdout": 0, "size": 8} | options))


def shown(dataset: Dataset) -> list[list[int]]:
    return [
        (split.x[:].float().mean((1, 2, 3)) / 10).round().int().tolist()
        for split in (dataset.train, dataset.validation, dataset.test)
    ]


def test_images_labels_and_split(tmp_path: Path) -> None:
    write(tmp_path)
    dataset = load(tmp_path)
    assert isinstance(dataset.train.x, StreamedImages)
    assert dataset.classes == ("bonnet", "green mamba", "Rottweiler")
    assert shown(dataset) == [[0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15], [], [0, 1, 6, 7, 12, 13]]
    assert dataset.train.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert dataset.test.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert dataset.condition_kind == "categorical"
    assert dataset.condition_names == ("label",)
    assert torch.equal(dataset.train.condition, dataset.train.y[:, None].float())
    assert (tmp_path / "decoded").is_dir() is True


def test_another_list_of_classes(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "two.txt").write_text("n02106550\n\nn99999999\n")
    dataset = load(tmp_path, classes=str(tmp_path / "two.txt"), size=5)
    assert dataset.classes == ("n02106550", "n99999999")
    assert dataset.train.x.shape == (8, 3, 5, 5)
    assert shown(dataset)[2] == [12, 13, 18, 19]


def test_held_out_rows_are_stratified(tmp_path: Path) -> None:
    write(tmp_path)
    dataset = load(tmp_path, holdout=3)
    assert sorted(dataset.validation.y.tolist()) == [0, 1, 2]
    assert sorted(shown(dataset)[0] + shown(dataset)[1]) == shown(load(tmp_path))[0]


@pytest.mark.parametrize("spare", [True, False])
def test_features_are_the_condition(tmp_path: Path, spare: bool) -> None:
    root = write(tmp_path)
    path = features(root)
    if not spare:
        kept = [row for row, name in enumerate(ids(root)) if "n99999999" not in name]
        path = features(root, features=rows(root)[kept], ids=np.array(ids(root))[kept])
    dataset = load(tmp_path, features=path, holdout=3)
    assert dataset.condition_kind == "continuous"
    assert dataset.condition_names == ("f0", "f1", "f2")
    for part, split, values in zip(
        (0, 0, 1), (dataset.train, dataset.validation, dataset.test), shown(dataset), strict=True
    ):
        assert split.condition.tolist() == [[part, value // 6, value % 6] for value in values]
        assert split.condition[:, 1].tolist() == split.y.tolist()


def test_features_in_the_order_of_the_dataset(tmp_path: Path) -> None:
    root = write(tmp_path)
    spoken = [
        name
        for part in FRAMES
        for wnid in CLASSES
        for name in ids(root)
        if name.startswith(f"{part}/{wnid}/")
    ]
    values = np.arange(len(spoken), dtype=np.float32)[:, None]
    dataset = load(tmp_path, features=features(root, features=values, ids=np.array(spoken)))
    assert dataset.train.condition[:, 0].tolist() == list(range(12))
    assert dataset.test.condition[:, 0].tolist() == list(range(12, 18))


def rows(root: Path) -> Any:
    with np.load(features(root)) as stored:
        return stored["features"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda root: {"ids": np.array([*ids(root)[:-1], ids(root)[3]])},
            r"has two rows for train/n01749939/n01749939_3\.JPEG; regenerate it",
        ),
        (
            lambda root: {
                "ids": np.array([name.replace("n01749939_2", "other") for name in ids(root)])
            },
            (
                r"has no features of 1 of 18 images, such as train/n01749939/n01749939_2\.JPEG;"
                r" regenerate it with cclk-paper features"
            ),
        ),
        (
            lambda root: {
                "features": (
                    np.where(np.arange(24)[:, None] == 5, np.nan, rows(root)).astype(np.float32)
                )
            },
            r"NaN or infinite in row 5 \(train/n02106550/n02106550_1\.JPEG\)",
        ),
        (lambda root: {"ids": None}, "it lacks ids"),
        (
            lambda root: {"metadata": np.array('{"dataset": "cifar10"}')},
            "holds features of cifar10, not of imagenet-100",
        ),
    ],
)
def test_bad_features_are_named(tmp_path: Path, change: Any, said: str) -> None:
    root = write(tmp_path)
    path = features(root, **change(root))
    with pytest.raises(DataError, match=said) as error:
        load(tmp_path, features=path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_of_features(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(
        DataError,
        match=r"the feature file .*none\.npz does not exist: make it with cclk-paper features",
    ):
        load(tmp_path, features=str(tmp_path / "none.npz"))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "imagenet-100"
    with pytest.raises(
        DataError,
        match=(
            rf"ImageNet-100 is not complete in {folder}, missing: train, val; get .*"
            r" https://image-net.org/"
        ),
    ):
        load(tmp_path)
    root = write(tmp_path)
    (root / "classes.txt").unlink()
    with pytest.raises(DataError, match=r"the list of classes .*classes.txt is missing: write"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "n02869837\nn00000000\n",
            r"classes.txt, line 2: the class n00000000 does not exist: .*/train/n00000000 is not a",
        ),
        ("n02869837\n\nn02869837\n", "classes.txt, line 3: the class n02869837 is listed twice"),
        ("\n", "classes.txt lists no classes"),
    ],
)
def test_a_bad_list_of_classes_is_named(tmp_path: Path, text: str, said: str) -> None:
    root = write(tmp_path)
    (root / "classes.txt").write_text(text)
    with pytest.raises(DataError, match=said):
        load(tmp_path)


def test_an_empty_class_is_named(tmp_path: Path) -> None:
    root = write(tmp_path)
    for path in (root / "val" / "n01749939").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"val/n01749939 holds no images"):
        load(tmp_path)


def test_a_damaged_image_is_named_when_it_is_read(tmp_path: Path) -> None:
    root = write(tmp_path)
    path = root / "train" / "n01749939" / "n01749939_0.JPEG"
    path.write_text("no image")
    dataset = load(tmp_path)
    with pytest.raises(DataError, match=f"{path} is not an image"):
        dataset.train.x[torch.arange(12)]
