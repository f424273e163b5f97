"""A fingerprint changes with what would move rows between splits or change what is learned, and
with nothing else.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image

from cclk import datasets
from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.data.fingerprint import fingerprint


def dataset() -> Dataset:
    split = Split(
        torch.arange(12.0).reshape(6, 2),
        torch.arange(6),
        torch.arange(6.0)[:, None],
        tuple("abcdef"),
    )
    return Dataset(
        "table",
        split,
        split.subset(torch.arange(2)),
        split.subset(torch.arange(3)),
        tuple("012345"),
        (Column("z"),),
        "",
    )


def test_the_same_data_have_the_same_fingerprint() -> None:
    assert fingerprint(dataset()) == fingerprint(replace(dataset(), name="elsewhere"))


def test_other_data_have_another() -> None:
    whole = dataset()
    train = whole.train
    others = [
        replace(whole, train=train.subset(torch.tensor([1, 0, 2, 3, 4, 5]))),
        replace(whole, train=train.subset(torch.arange(5))),
        replace(whole, train=replace(train, y=train.y.flip(0))),
        replace(whole, train=replace(train, condition=train.condition + 1)),
        replace(whole, train=replace(train, x=train.x * 2)),  # type: ignore[operator]
        replace(whole, train=replace(train, ids=tuple("abcdeg"))),
        replace(whole, validation=whole.test),
        replace(whole, test=whole.validation),
    ]
    found = [fingerprint(other) for other in (whole, *others)]
    assert len(set(found)) == len(found)


def test_images_in_memory_are_looked_at() -> None:
    whole = dataset()
    images = torch.arange(6 * 48).reshape(6, 3, 4, 4).to(torch.uint8)
    found = [images, images.flip(0), images.reshape(6, 3, 2, 8)]
    assert len({fingerprint(replace(whole, train=replace(whole.train, x=x))) for x in found}) == 3
    loose = images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert fingerprint(replace(whole, train=replace(whole.train, x=loose))) == fingerprint(
        replace(whole, train=replace(whole.train, x=images))
    )


def test_images_in_files_are_told_by_their_names_wherever_they_are(tmp_path: Path) -> None:
    """Where a category is all that is known of a row, only its file tells it from others of the
    category.
    """
    names = [f"{number:02d}.png" for number in range(40)]
    (tmp_path / "a" / "faces").mkdir(parents=True)
    for name in names:
        Image.new("RGB", (4, 4)).save(tmp_path / "a" / "faces" / name)

    def found(folder: str, names: list[str]) -> Dataset:
        rows = "".join(
            f"faces/{name},{'Oslo' if row < 20 else 'Bonn'}\n" for row, name in enumerate(names)
        )
        (tmp_path / folder / "people.csv").write_text(f"path,site\n{rows}")
        return datasets.load(
            str(tmp_path / folder / "people.csv"),
            image="path",
            condition="site",
            size=4,
            data_dir=tmp_path,
        )

    before = fingerprint(found("a", names))
    assert fingerprint(found("a", names)) == before
    assert fingerprint(found("a", names[:20][::-1] + names[20:])) != before
    shutil.move(tmp_path / "a", tmp_path / "elsewhere")
    assert fingerprint(found("elsewhere", names)) == before


def test_replaced_images_change_the_fingerprint(tmp_path: Path) -> None:
    """By the sizes of all files, and by the bytes of some of them."""
    for number in range(20):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / f"{number}.bmp")
    rows = "".join(f"{number}.bmp,{number}\n" for number in range(20))
    (tmp_path / "a.csv").write_text(f"path,age\n{rows}")

    def found() -> str:
        return fingerprint(
            datasets.load(
                str(tmp_path / "a.csv"), image="path", condition="age", size=4, data_dir=tmp_path
            )
        )

    before = found()
    assert found() == before
    for number in range(20):  # of the same size
        Image.new("RGB", (4, 4), (0, number + 1, 0)).save(tmp_path / f"{number}.bmp")
    assert found() != before
