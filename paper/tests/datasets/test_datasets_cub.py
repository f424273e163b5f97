"""CUB-200-2011 from a small tree in the official layout."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from cclk import datasets
from cclk.data import Dataset
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError

IMAGES = [
    "001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg",
    "001.Black_footed_Albatross/Black_Footed_Albatross_0009_34.jpg",
    "001.Black_footed_Albatross/Black_Footed_Albatross_0002_55.jpg",
    "002.Laysan_Albatross/Laysan_Albatross_0001_545.jpg",
    "002.Laysan_Albatross/Laysan_Albatross_0002_1027.jpg",
    "002.Laysan_Albatross/Laysan_Albatross_0003_1033.jpg",
]
TRAINING = [0, 1, 1, 1, 1, 0]
ATTRIBUTES = [[0, 1, 1], [0, 0, 0], [1, 0, 1], [1, 1, 1], [0, 0, 1], [1, 0, 0]]


def numbered(lines: list[str]) -> str:
    return "".join(f"{number} {line}\n" for number, line in enumerate(lines, 1))


def write(folder: Path, within: str = "CUB_200_2011") -> Path:
    """The tree; image i is of value 40 i throughout."""
    root = folder / "cub" / within
    (root / "attributes").mkdir(parents=True)
    for number, name in enumerate(IMAGES):
        path = root / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300, 260), (40 * number,) * 3).save(path, quality=95)
    (root / "images.txt").write_text(numbered(IMAGES))
    (root / "classes.txt").write_text(
        numbered(["001.Black_footed_Albatross", "002.Laysan_Albatross"])
    )
    (root / "image_class_labels.txt").write_text(numbered(["1", "1", "1", "2", "2", "2"]))
    (root / "train_test_split.txt").write_text(numbered([str(part) for part in TRAINING]))
    marks = [
        f"{image} {attribute} {present} 3 27.7080\n"
        for image, row in enumerate(ATTRIBUTES, 1)
        for attribute, present in enumerate(row, 1)
    ]
    # As in the official file: some lines have a field too many.
    marks[4] = "2 2 0 1 0 3.5\n"
    (root / "attributes" / "image_attribute_labels.txt").write_text("".join(marks))
    # Beside the folder, where the official archive has it.
    (folder / "cub" / "attributes.txt").write_text(
        numbered(["has_bill_shape::dagger", "has_wing_color::blue", "has_size::small"])
    )
    return root


def load(folder: Path, **options: object) -> Dataset:
    return datasets.load("cub", data_dir=folder, **({"holdout": 0, "size": 8} | options))


@pytest.mark.parametrize("within", ["CUB_200_2011", "."])
def test_images_labels_split_and_attributes(tmp_path: Path, within: str) -> None:
    write(tmp_path, within)
    dataset = load(tmp_path)
    assert isinstance(dataset.train.x, StreamedImages)
    assert dataset.classes == ("Black footed Albatross", "Laysan Albatross")
    assert dataset.condition_names == (
        "has_bill_shape::dagger",
        "has_wing_color::blue",
        "has_size::small",
    )
    assert dataset.condition_kind == "continuous"
    assert (dataset.train.x[:].float().mean((1, 2, 3)) / 40).round().tolist() == [1, 2, 3, 4]
    assert dataset.train.y.tolist() == [0, 0, 1, 1]
    assert dataset.train.condition.tolist() == [ATTRIBUTES[row] for row in (1, 2, 3, 4)]
    assert (dataset.test.x[:].float().mean((1, 2, 3)) / 40).round().tolist() == [0, 5]
    assert dataset.test.y.tolist() == [0, 1]
    assert dataset.test.condition.tolist() == [ATTRIBUTES[row] for row in (0, 5)]
    assert len(dataset.validation) == 0
    assert [path.name for path in (tmp_path / "decoded").iterdir()]


def test_numbers_need_not_be_in_order(tmp_path: Path) -> None:
    root = write(tmp_path)
    before = load(tmp_path)
    for name in (
        "image_class_labels.txt",
        "train_test_split.txt",
        "attributes/image_attribute_labels.txt",
    ):
        (root / name).write_text("\n".join(reversed((root / name).read_text().splitlines())))
    after = load(tmp_path)
    assert torch.equal(after.train.y, before.train.y)
    assert torch.equal(after.train.condition, before.train.condition)
    (root / "images.txt").write_text(
        "\n".join(reversed((root / "images.txt").read_text().splitlines()))
    )
    turned = load(tmp_path)
    assert torch.equal(turned.train.y, before.train.y.flip(0))
    assert torch.equal(turned.train.condition, before.train.condition.flip(0))
    assert torch.equal(turned.train.x[:], before.train.x[:].flip(0))


def test_size_holdout_and_names(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "cub" / "attributes.txt").unlink()
    dataset = load(tmp_path, holdout=2, size=224)
    assert dataset.condition_names == ("attribute 1", "attribute 2", "attribute 3")
    assert dataset.train.x[:].shape == (2, 3, 224, 224)
    assert sorted(dataset.validation.y.tolist()) == [0, 1]
    with pytest.raises(DataError, match="holdout is 4: it must be an integer from 0 to 3"):
        load(tmp_path, holdout=4)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=(
            r"is not complete in \S+/cub, missing: images.txt, .*; get .* from"
            r" https://\S+ and unpack"
        ),
    ):
        load(tmp_path)
    root = write(tmp_path)
    (root / "train_test_split.txt").unlink()
    with pytest.raises(DataError, match=r"/CUB_200_2011, missing: train_test_split.txt; get"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("file", "find", "replace", "said"),
    [
        (
            "images.txt",
            "3 001",
            "three 001",
            r"images.txt, line 3: 'three 001.* is not image and path",
        ),
        ("images.txt", "3 001", "2 001", "images.txt, line 3: number 2 is in line 2 already"),
        ("images.txt", IMAGES[2], "", "images.txt, line 3: '3' is not image and path"),
        (
            "images.txt",
            IMAGES[2],
            "001.Black_footed_Albatross/none.jpg",
            r"the image .*/none.jpg is missing",
        ),
        (
            "classes.txt",
            "2 002",
            "x 002",
            "classes.txt, line 2: 'x 002.Laysan_Albatross' is not class and name",
        ),
        (
            "image_class_labels.txt",
            "4 2",
            "4 3",
            "image_class_labels.txt, line 4: class 3 is not in classes.txt",
        ),
        ("image_class_labels.txt", "4 2", "4 b", "line 4: class b is not in classes.txt"),
        ("image_class_labels.txt", "6 2\n", "", "image_class_labels.txt has no class of image 6"),
        ("image_class_labels.txt", "6 2\n", "6 2\n7 2\n", "line 7: image 7 is not in images.txt"),
        (
            "train_test_split.txt",
            "4 1",
            "4 2",
            r"train_test_split.txt, line 4: part 2 is neither 1 \(train\) nor 0 \(test\)",
        ),
        ("train_test_split.txt", " 0", " 1", "train_test_split.txt has no image to test on"),
        (
            "attributes/image_attribute_labels.txt",
            "2 3 0 3",
            "2 three 0 3",
            "labels.txt, line 6: '2 three 0 3 27.7080' is not image, attr",
        ),
        (
            "attributes/image_attribute_labels.txt",
            "2 3 0 3 27.7080",
            "2 3",
            "labels.txt, line 6: '2 3' is not image, attribute",
        ),
        (
            "attributes/image_attribute_labels.txt",
            "2 3 0 3",
            "2 3 2 3",
            r"line 6: the third field must be 1 \(present\) or 0",
        ),
        (
            "attributes/image_attribute_labels.txt",
            "2 3 0 3",
            "9 3 0 3",
            "line 6: its image is not in images.txt",
        ),
        (
            "attributes/image_attribute_labels.txt",
            "2 3 0 3",
            "2 0 0 3",
            "line 6: attributes count from 1",
        ),
        (
            "attributes/image_attribute_labels.txt",
            "2 3 0 3",
            "2 900000000000 0 3",
            "has 18 lines, but 6 images with 900000000000 attr",
        ),
        (
            "attributes/image_attribute_labels.txt",
            "2 3 0 3 27.7080\n",
            "",
            "has 17 lines, but 6 images with 3 attributes each need 18",
        ),
        (
            "attributes/image_attribute_labels.txt",
            "2 3 0 3",
            "2 1 0 3",
            "lacks attribute 3 of image 2 and repeats another",
        ),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, file: str, find: str, replace: str, said: str) -> None:
    path = write(tmp_path) / file
    text = path.read_text()
    assert find in text
    path.write_text(text.replace(find, replace))
    with pytest.raises(DataError, match=said) as error:
        load(tmp_path)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_empty_files_are_named(tmp_path: Path) -> None:
    root = write(tmp_path)
    (root / "attributes" / "image_attribute_labels.txt").write_text("\n")
    with pytest.raises(DataError, match=r"image_attribute_labels.txt is empty"):
        load(tmp_path)
    (root / "images.txt").write_text("")
    with pytest.raises(DataError, match=r"images.txt lists no images"):
        load(tmp_path)


def test_too_few_attribute_names(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "cub" / "attributes.txt").write_text("1 one\n3 three\n")
    with pytest.raises(DataError, match=r"attributes.txt has no name for attribute 2"):
        load(tmp_path)
