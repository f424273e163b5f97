"""Arrays from .npz files: splits, kinds, and a clear line for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cclk import datasets
from cclk.data import Split
from cclk.errors import DataError

N = 200


def arrays(**changes: Any) -> dict[str, Any]:
    random = np.random.default_rng(0)
    table = {
        "x": np.arange(N)[:, None] + random.random((N, 3)) / 2,
        "y": np.arange(N) % 4,
        "condition": random.normal(size=(N, 2)),
    }
    return {name: value for name, value in (table | changes).items() if value is not None}


def save(tmp_path: Path, **changes: Any) -> str:
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays(**changes))
    return str(path)


def rows(split: Split) -> list[int]:
    """Row i of the file holds i to i + 0.5 in x."""
    return split.x[:, 0].floor().long().tolist()


def test_drawn_split_is_70_15_15_stratified_and_the_same_each_time(tmp_path: Path) -> None:
    path = save(tmp_path)
    one, two = datasets.load(path), datasets.load(path)
    assert [len(split) for split in (one.train, one.validation, one.test)] == [140, 30, 30]
    assert sorted(rows(one.train) + rows(one.validation) + rows(one.test)) == list(range(N))
    assert rows(one.test) == rows(two.test)
    assert rows(one.test) != rows(datasets.load(path, seed=1).test)
    assert min(one.test.y.bincount().tolist()) >= 7
    assert torch.equal(one.train.y, torch.tensor(rows(one.train)) % 4)
    assert one.train.condition[5].tolist() == pytest.approx(
        arrays()["condition"][rows(one.train)[5]].tolist()
    )
    assert (one.name, one.classes, one.condition_kind) == (
        "mine",
        ("0", "1", "2", "3"),
        "continuous",
    )
    assert one.condition_names == ("condition 0", "condition 1")


@pytest.mark.parametrize("as_text", [True, False])
def test_split_array(tmp_path: Path, as_text: bool) -> None:
    codes = np.arange(N) % 3
    split = np.array(["train", "validation", "test"])[codes] if as_text else codes
    dataset = datasets.load(save(tmp_path, split=split))
    assert rows(dataset.train) == list(range(0, N, 3))
    assert rows(dataset.validation) == list(range(1, N, 3))
    assert rows(dataset.test) == list(range(2, N, 3))


def test_separate_arrays(tmp_path: Path) -> None:
    more = {f"{name}_test": value[:20] for name, value in arrays().items()}
    dataset = datasets.load(save(tmp_path, **more))
    assert [len(split) for split in (dataset.train, dataset.validation, dataset.test)] == [
        170,
        30,
        20,
    ]
    assert rows(dataset.test) == list(range(20))
    more |= {f"{name}_validation": value[20:30] for name, value in arrays().items()}
    path = save(tmp_path, **more)
    dataset = datasets.load(path)
    assert (rows(dataset.train), rows(dataset.validation)) == (list(range(N)), list(range(20, 30)))
    with pytest.raises(DataError, match="holdout is 5, but the file has validation rows already"):
        datasets.load(path, holdout=5)


def test_holdout(tmp_path: Path) -> None:
    path = save(tmp_path)
    assert len(datasets.load(path, holdout=0).validation) == 0
    assert [
        len(split)
        for split in (datasets.load(path, holdout=10).train, datasets.load(path, holdout=10).test)
    ] == [160, 30]


def test_images_text_labels_and_names(tmp_path: Path) -> None:
    x = np.arange(N, dtype=np.uint8)[:, None, None, None] + np.zeros((N, 1, 5, 6), np.uint8)
    y = np.array(["cat", "ant", "bee", "dog"])[np.arange(N) % 4]
    site = np.array(["Oslo", "Rome"])[np.arange(N) % 2]
    dataset = datasets.load(
        save(tmp_path, x=x, y=y, condition=site, condition_names=np.array(["site"]))
    )
    assert dataset.train.x.shape == (140, 1, 5, 6)
    assert dataset.train.x.dtype == torch.uint8
    assert dataset.classes == ("ant", "bee", "cat", "dog")
    number = dataset.train.x[:, 0, 0, 0].long()
    assert torch.equal(dataset.train.y, torch.tensor([2, 0, 1, 3])[number % 4])
    assert torch.equal(dataset.train.condition[:, 0].long(), number % 2)
    assert (dataset.condition_names, dataset.condition_kind) == (("site",), "categorical")


def test_classes_are_names_of_the_labels(tmp_path: Path) -> None:
    dataset = datasets.load(save(tmp_path, classes=np.array(list("abcde"))))
    assert dataset.classes == tuple("abcde")
    assert dataset.train.y.max() == 3
    with pytest.raises(
        DataError, match=r"y must be integers from 0 to 1, since classes has 2 names"
    ):
        datasets.load(save(tmp_path, classes=np.array(["a", "b"])))


def test_condition_kinds(tmp_path: Path) -> None:
    age = np.arange(N) % 60
    path = save(tmp_path, condition=age)
    assert datasets.load(path).condition_kind == "continuous"
    assert datasets.load(path).description.endswith(", condition is continuous")
    assert datasets.load(path, condition_kind="categorical").condition_kind == "categorical"
    path = save(tmp_path, condition=age % 10)
    assert datasets.load(path).condition_kind == "categorical"
    assert datasets.load(path, condition_kind="continuous").condition_kind == "continuous"
    assert (
        datasets.load(save(tmp_path, condition=np.stack([age, age], 1) % 2)).condition_kind
        == "continuous"
    ), "several values are a vector"
    # Identifiers that float32 could not tell apart.
    dataset = datasets.load(
        save(tmp_path, condition=10**9 + np.arange(N) % 2), condition_kind="categorical"
    )
    assert dataset.train.condition.unique().tolist() == [0, 1]
    with pytest.raises(
        DataError, match="condition has 2 columns; a categorical condition is a single one"
    ):
        datasets.load(save(tmp_path), condition_kind="categorical")
    with pytest.raises(DataError, match="condition_kind is 'ordinal'"):
        datasets.load(path, condition_kind="ordinal")


def test_a_condition_may_be_left_out(tmp_path: Path) -> None:
    for changes in ({}, {"x_test": np.zeros((3, 3)), "y_test": np.zeros(3, int)}):
        found = datasets.load(save(tmp_path, condition=None, **changes))
        assert (found.columns, found.condition_names, found.train.condition.shape) == (
            (),
            (),
            (len(found.train), 0),
        )


def test_categories_mean_the_same_in_every_part(tmp_path: Path) -> None:
    site = np.array(["Bonn", "Rome"])[np.arange(N) % 2]
    more = {f"{name}_test": value[:20] for name, value in arrays().items()} | {
        "condition_test": np.array(["Rome"] * 20)
    }
    dataset = datasets.load(save(tmp_path, condition=site, **more))
    assert dataset.test.condition.unique().tolist() == [1]


def nan_at(row: int, column: int) -> Any:
    values = arrays()["condition"]
    values[row, column] = np.nan
    return values


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "the array y is missing; the file holds x, condition"),
        (
            {
                "x_test": np.zeros((3, 3)),
                "y_test": np.zeros(3, int),
                "condition": None,
                "condition_test": np.zeros((3, 2)),
            },
            "the array condition is missing; the file holds x, y, x_test",
        ),
        ({"y": np.arange(N - 1)}, "x has 200 rows, but y has 199"),
        ({"condition": np.zeros((3, 2))}, "x has 200 rows, but condition has 3"),
        (
            {"condition": nan_at(7, 1)},
            "condition has 1 values that are NaN or infinite, the first in row 7, column 1",
        ),
        (
            {"x": np.full((N, 2), 1e300)},
            "x has 400 values that are NaN or infinite, the first in row 0, column 0",
        ),
        ({"x": np.array([{}] * N, dtype=object)}, "x is an array of Python objects"),
        ({"x": np.zeros((N, 3, 8, 8))}, "x holds images of dtype float64; store them as uint8"),
        (
            {"x": np.zeros((N, 8, 8, 3), np.uint8)},
            r"channels last; store x.transpose\(0, 3, 1, 2\)",
        ),
        ({"x": np.zeros((N, 8, 8), np.uint8)}, r"x is uint8 of shape \(200, 8, 8\)"),
        (
            {"x": np.zeros((0, 3)), "y": np.zeros(0, int), "condition": np.zeros((0, 1))},
            "x has no rows",
        ),
        ({"x": np.float64(3)}, "x is a single value"),
        ({"y": np.arange(N) / 2}, "y is float64"),
        ({"condition": np.zeros((N, 2, 2))}, r"condition is float64 of shape \(200, 2, 2\)"),
        ({"condition": np.zeros((N, 0))}, r"condition is float64 of shape \(200, 0\)"),
        (
            {"condition": np.full((N, 2), "a")},
            "condition is text; that is for one categorical column only",
        ),
        (
            {"condition_names": np.array(["a"])},
            r"condition_names is <U1 of shape \(1,\); it must be 2 texts",
        ),
        ({"split": np.array(["train"] * (N - 1) + ["tset"])}, r"split\[199\] is 'tset'"),
        ({"split": np.zeros(N, int)}, "none of its 200 rows are for test"),
        ({"split": np.zeros(3, int)}, r"x has 200 rows, but split has shape \(3,\)"),
        (
            {"x_val": np.zeros((3, 3))},
            "the array x_val is not used; parts are named x_validation and x_test",
        ),
        ({"x_test": np.zeros((3, 3))}, "the array y_test is missing"),
        (
            {
                "x_test": np.zeros((3, 4)),
                "y_test": np.zeros(3, int),
                "condition_test": np.zeros((3, 2)),
            },
            r"rows of x_test have shape \(4,\), but those of x have \(3,\)",
        ),
        (
            {
                "x_test": np.zeros((3, 3)),
                "y_test": np.zeros(3, int),
                "condition_test": np.zeros((3, 2)),
                "split": np.zeros(N, int),
            },
            "both an array split and arrays such as x_test",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = save(tmp_path, **changes)
    with pytest.raises(DataError, match=message) as caught:
        datasets.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_files_that_are_no_npz(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.npz: it does not exist"):
        datasets.load(str(tmp_path / "nowhere.npz"))
    (tmp_path / "mine.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"not an \.npz file, or it is truncated"):
        datasets.load(str(tmp_path / "mine.npz"))
    whole = Path(save(tmp_path)).read_bytes()
    (tmp_path / "mine.npz").write_bytes(whole[:-100])
    with pytest.raises(DataError, match=r"not an \.npz file, or it is truncated"):
        datasets.load(str(tmp_path / "mine.npz"))
    # One byte of the values flipped: the archive's own checksum tells.
    place = whole.index(b"y.npy") + 400
    (tmp_path / "mine.npz").write_bytes(
        whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]
    )
    with pytest.raises(DataError, match=r"mine\.npz: y is damaged"):
        datasets.load(str(tmp_path / "mine.npz"))
