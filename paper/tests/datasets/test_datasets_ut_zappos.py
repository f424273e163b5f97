"""UT-Zappos50K from a small tree in the official layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from cclk_paper.datasets.ut_zappos import samples_per_value
from PIL import Image

from cclk import datasets
from cclk.data import Dataset
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError

HEADER = "CID,Category,SubCategory,HeelHeight,Insole,Closure,Gender,Material,ToeStyle"
ROWS = """\
100627-72,Shoes,Oxfords,,,Lace up,Men,Leather,
100627-255,Shoes,Oxfords,Flat,Padded,Lace up,Men,Leather;Suede,Round Toe
7965452-6,Boots,Ankle,1in - 1 3/4in,,Zipper;Pull-on,Women,Suede,Round Toe;Capped Toe
7965453-6,Boots,Prewalker Boots,NA,,,Boys;Girls,,
8000001-1,Sandals,Flat,Flat,,Buckle,Women,Rubber,Open Toe
8000002-1,Sandals,Flat,Flat,,Buckle,Women,Rubber,Open Toe
8000003-1,Slippers,Slipper Flats,Flat,,,Women,Rubber,
8000004-1,Slippers,Slipper Flats,Flat,,,Women,"Rubber",
8000005-1,Shoes,Flats,Flat,,,Women,Leather,
8000006-1,Shoes,Oxfords,Flat,,Lace up,Men,Leather,
"""
BRANDS = {"Oxfords": "Bostonian", "Ankle": "A. Brand, Inc.", "Flat": "Teva%2E"}
NAMES = (
    "HeelHeight: 1in - 1 3/4in", "HeelHeight: Flat", "Insole: Padded",
    "Closure: Buckle", "Closure: Lace up", "Closure: Pull-on", "Closure: Zipper",
    "Gender: Boys", "Gender: Girls", "Gender: Men", "Gender: Women",
    "Material: Leather", "Material: Rubber", "Material: Suede",
    "ToeStyle: Capped Toe", "ToeStyle: Open Toe", "ToeStyle: Round Toe",
)  # fmt: skip


def write(
    folder: Path, rows: str = ROWS, images: str = "ut-zap50k-images-square", header: str = HEADER
) -> Path:
    """The tree; the image of row i is of value 10 i throughout. Returns the table."""
    table = folder / "ut-zappos" / "ut-zap50k-data" / "meta-data.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(f"{header}\n{rows}")
    for number, line in enumerate(ROWS.splitlines()):
        cid, category, kind = line.split(",")[:3]
        path = (
            folder
            / "ut-zappos"
            / images
            / category
            / kind
            / BRANDS.get(kind, "Brand")
            / f"{cid.replace('-', '.')}.jpg"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (136, 136), (10 * number,) * 3).save(path, quality=95)
    return table


def load(folder: Path, **options: object) -> Dataset:
    return datasets.load("ut-zappos", data_dir=folder, **({"holdout": 2} | options))


def every_row(dataset: Dataset) -> dict[int, tuple[str, list[str]]]:
    """Class and attributes of each shoe, by the number its image shows."""
    rows = {}
    for split in (dataset.train, dataset.validation, dataset.test):
        for x, y, bits in zip(split.x[:], split.y, split.condition, strict=True):
            assert set(bits.tolist()) <= {0.0, 1.0}
            present = [dataset.condition_names[bit] for bit in bits.nonzero()[:, 0].tolist()]
            rows[round(x.float().mean().item() / 10)] = dataset.classes[int(y)], present
    return rows


def test_images_labels_and_attributes(tmp_path: Path) -> None:
    write(tmp_path)
    dataset = load(tmp_path)
    assert isinstance(dataset.train.x, StreamedImages)
    assert dataset.train.x.shape == (5, 3, 32, 32)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (5, 2, 3)
    assert dataset.condition_names == NAMES
    assert dataset.condition_kind == "continuous"
    kinds = (
        "Boots/Ankle",
        "Boots/Prewalker Boots",
        "Sandals/Flat",
        "Shoes/Flats",
        "Shoes/Oxfords",
        "Slippers/Slipper Flats",
    )
    assert dataset.classes == kinds
    assert every_row(dataset) == {
        0: ("Shoes/Oxfords", ["Closure: Lace up", "Gender: Men", "Material: Leather"]),
        1: (
            "Shoes/Oxfords",
            [
                "HeelHeight: Flat",
                "Insole: Padded",
                "Closure: Lace up",
                "Gender: Men",
                "Material: Leather",
                "Material: Suede",
                "ToeStyle: Round Toe",
            ],
        ),
        2: (
            "Boots/Ankle",
            [
                "HeelHeight: 1in - 1 3/4in",
                "Closure: Pull-on",
                "Closure: Zipper",
                "Gender: Women",
                "Material: Suede",
                "ToeStyle: Capped Toe",
                "ToeStyle: Round Toe",
            ],
        ),
        3: ("Boots/Prewalker Boots", ["Gender: Boys", "Gender: Girls"]),
        4: (
            "Sandals/Flat",
            [
                "HeelHeight: Flat",
                "Closure: Buckle",
                "Gender: Women",
                "Material: Rubber",
                "ToeStyle: Open Toe",
            ],
        ),
        5: (
            "Sandals/Flat",
            [
                "HeelHeight: Flat",
                "Closure: Buckle",
                "Gender: Women",
                "Material: Rubber",
                "ToeStyle: Open Toe",
            ],
        ),
        6: ("Slippers/Slipper Flats", ["HeelHeight: Flat", "Gender: Women", "Material: Rubber"]),
        7: ("Slippers/Slipper Flats", ["HeelHeight: Flat", "Gender: Women", "Material: Rubber"]),
        8: ("Shoes/Flats", ["HeelHeight: Flat", "Gender: Women", "Material: Leather"]),
        9: (
            "Shoes/Oxfords",
            ["HeelHeight: Flat", "Closure: Lace up", "Gender: Men", "Material: Leather"],
        ),
    }
    assert (tmp_path / "decoded").is_dir()


def test_the_label_is_not_in_the_condition(tmp_path: Path) -> None:
    write(tmp_path)
    assert {name.partition(":")[0] for name in load(tmp_path).condition_names}.isdisjoint(
        {"Category", "SubCategory"}
    )


def test_seven_of_ten_rows_are_for_training(tmp_path: Path) -> None:
    """Of 50,025 rows that is the paper's 35,017 and 15,008."""
    assert (50_025 * 7 // 10, 50_025 - 50_025 * 7 // 10) == (35_017, 15_008)
    write(tmp_path)
    tests = []
    for seed in range(6):
        dataset = load(tmp_path, seed=seed, holdout=0)
        assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (7, 0, 3)
        assert sorted(every_row(dataset)) == list(range(10))
        again = load(tmp_path, seed=seed, holdout=2)
        assert torch.equal(again.test.x[:], dataset.test.x[:])
        tests.append(again.test.x[:].float().mean((1, 2, 3)).tolist())
    assert len({tuple(test) for test in tests}) > 2


def test_the_size_and_the_original_images(tmp_path: Path) -> None:
    write(tmp_path, images="ut-zap50k-images")
    assert load(tmp_path, size=8).train.x[:].shape == (5, 3, 8, 8)
    # Square images are preferred where both are there.
    write(tmp_path)
    images = load(tmp_path).train.x
    assert isinstance(images, StreamedImages)
    assert "ut-zap50k-images-square" in images.paths[0]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "ut-zappos"
    said = (
        r"UT-Zappos50K is not complete in \S+/ut-zappos, missing: .*meta-data.csv, .*; get .* from"
        r" https://vision.cs.utexas.edu\S+ and unpack"
    )
    with pytest.raises(DataError, match=said):
        load(tmp_path)
    (folder / "ut-zap50k-data").mkdir(parents=True)
    (folder / "ut-zap50k-data" / "meta-data.csv").write_text(f"{HEADER}\n{ROWS}")
    with pytest.raises(DataError, match="missing: ut-zap50k-images-square; get"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("find", "replace", "said"),
    [
        (
            "7965453-6,Boots",
            "7965453-6,Boots,more",
            "line 5: it has 10 cells, but the header has 9",
        ),
        ("7965453-6,Boots,Prewalker Boots", "7965453-6,Boots,", "line 5: SubCategory is empty"),
        ("7965453-6", "100627-72", "line 5: CID 100627-72 is in line 2 already"),
        (
            "8000001-1",
            "8111111-1",
            r"line 6: CID 8111111-1 has no image 8111111\.1\.jpg below .*square: unpack",
        ),
    ],
)
def test_bad_rows_are_named_by_line(tmp_path: Path, find: str, replace: str, said: str) -> None:
    table = write(tmp_path, ROWS.replace(find, replace))
    with pytest.raises(DataError, match=said) as error:
        load(tmp_path)
    assert str(table) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_bad_table_is_named(tmp_path: Path) -> None:
    table = write(tmp_path, header=HEADER.replace("Insole", "Sole"))
    with pytest.raises(
        DataError,
        match=r"meta-data\.csv, line 1: column Insole is missing; the header must be CID,",
    ):
        load(tmp_path)
    table.write_text("")
    with pytest.raises(DataError, match="column CID is missing"):
        load(tmp_path)
    table.write_text(f"{HEADER}\n")
    with pytest.raises(DataError, match="has 0 rows, too few to split"):
        load(tmp_path)
    table.write_bytes(f"{HEADER}\n".encode() + b"\xff\xfe,a\n")
    with pytest.raises(DataError, match="is not a CSV file in UTF-8"):
        load(tmp_path)


def test_lost_images_are_counted(tmp_path: Path) -> None:
    write(tmp_path)
    for path in (tmp_path / "ut-zappos").rglob("800000[345].1.jpg"):
        path.unlink()
    with pytest.raises(
        DataError, match=r"line 8: CID 8000003-1 has no image .*, nor have 2 others"
    ):
        load(tmp_path)


def test_a_image_in_two_folders_is_taken_from_that_of_its_kind(tmp_path: Path) -> None:
    write(tmp_path)
    images = tmp_path / "ut-zappos" / "ut-zap50k-images-square"
    (images / "Aaa" / "Oxfords" / "Other").mkdir(parents=True)
    copy = images / "Aaa" / "Oxfords" / "Other" / "100627.72.jpg"
    Image.new("RGB", (9, 9), "white").save(copy)
    assert every_row(load(tmp_path))[0][0] == "Shoes/Oxfords"
    # A hidden file, such as some systems leave beside each image, is none.
    (copy.parent / "._100627.255.jpg").write_text("not a image")
    assert len(every_row(load(tmp_path))) == 10
    copy.rename(images / "Shoes" / "Oxfords" / "100627.72.jpg")
    with pytest.raises(
        DataError, match=r"line 2: CID 100627-72 has several images, .* and .*: delete all but one"
    ):
        load(tmp_path)


def test_the_most_frequent_attributes(tmp_path: Path) -> None:
    assert samples_per_value([2], tmp_path) == {}, "the official table is not there"
    write(tmp_path)
    dataset = load(tmp_path, attributes=2)
    assert dataset.condition_names == ("HeelHeight: Flat", "Gender: Women")
    assert dataset.train.condition.shape == (5, 2)
    assert load(tmp_path, attributes=100).condition_names == NAMES
    # Flat and for women: both (5 of the 10 shoes), neither (2), only one of them (2 and 1).
    assert samples_per_value([1, 2, 100], tmp_path) == {1: 5.0, 2: 2.5, 100: 10 / 8}
    with pytest.raises(DataError, match="attributes is 0: it must be at least 1"):
        load(tmp_path, attributes=0)


def test_impossible_options(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(DataError, match="holdout is 7: it must be an integer from 0 to 6"):
        load(tmp_path, holdout=7)
    with pytest.raises(DataError, match="size is 0: it must be"):
        load(tmp_path, size=0)
    with pytest.raises(
        DataError, match="the dataset 'ut-zappos' has no option 'colors': it takes size, holdout"
    ):
        load(tmp_path, colors="palette")


def test_held_out_rows_are_stratified(tmp_path: Path) -> None:
    """Of two kinds of shoes, as large a share among the rows held out as among all training
    rows, give or take one.
    """
    rows = "".join(
        f"9{number:05}-1,Shoes,{('Oxfords', 'Flats')[number % 2]},,,,Men,Leather,\n"
        for number in range(24)
    )
    write(tmp_path, rows)
    folder = tmp_path / "ut-zappos" / "ut-zap50k-images-square" / "Shoes"
    for number in range(24):
        Image.new("L", (4, 4)).save(folder / f"9{number:05}.1.jpg")
    dataset = load(tmp_path, holdout=8, size=4)
    both = dataset.train.y.bincount() + dataset.validation.y.bincount()
    assert np.abs(dataset.validation.y.bincount().numpy() - 8 * both.numpy() / 16).max() <= 1
