"""Features from a file as condition: they belong to the right rows whatever is held out, and
what is wrong with a file is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cclk_paper.datasets.feature_files import read_features, row_ids

from cclk import datasets
from cclk.data import Split
from cclk.errors import DataError

ROWS = {"cifar10": (50, 10), "fashion-mnist": (60, 20)}


def write(path: Path, dataset: str = "cifar10", **changes: Any) -> Path:
    """A good file but for the changes; row i holds i, 100 + i in the order train, test. None
    leaves an array out.
    """
    train, test = ROWS[dataset]
    arrays: dict[str, Any] = {
        "features": (
            np.stack([np.arange(train + test), 100 + np.arange(train + test)], axis=1).astype(
                np.float32
            )
        ),
        "ids": np.concatenate([row_ids("train", train), row_ids("test", test)]),
        "metadata": np.array(json.dumps({"dataset": dataset, "encoder": "e", "version": "0"})),
    }
    kept = {name: value for name, value in (arrays | changes).items() if value is not None}
    np.savez(path, **kept)
    return path


def number(dataset: str, split: Split) -> torch.Tensor:
    """Which row of the small files each image is: they hold their number."""
    assert isinstance(split.x, torch.Tensor)
    if dataset == "cifar10":
        return split.x[:, 0, 0, 0].float()
    return split.x.flatten(1).amax(dim=1).float() - 1


@pytest.mark.parametrize("dataset", ROWS)
@pytest.mark.parametrize(("holdout", "seed"), [(0, 0), (7, 0), (20, 0), (20, 3)])
def test_each_row_has_its_own_features(
    data_dir: Path, tmp_path: Path, dataset: str, holdout: int, seed: int
) -> None:
    path = write(tmp_path / "f.npz", dataset)
    loaded = datasets.load(
        dataset, data_dir=data_dir, holdout=holdout, seed=seed, features=str(path)
    )
    assert (loaded.condition_kind, loaded.condition_names) == ("continuous", ("f0", "f1"))
    assert len(loaded.validation) == holdout
    for split in (loaded.train, loaded.validation):
        assert torch.equal(split.condition[:, 0], number(dataset, split))
        assert torch.equal(split.condition[:, 1], 100 + number(dataset, split))
    train, test = ROWS[dataset]
    assert loaded.test.condition[:, 0].tolist() == list(range(train, train + test))


def test_images_and_labels_stay_as_they_are(data_dir: Path, tmp_path: Path) -> None:
    plain = datasets.load("cifar10", data_dir=data_dir, holdout=20)
    loaded = datasets.load(
        "cifar10", data_dir=data_dir, holdout=20, features=write(tmp_path / "f.npz")
    )
    for one, two in (
        (plain.train, loaded.train),
        (plain.validation, loaded.validation),
        (plain.test, loaded.test),
    ):
        assert torch.equal(one.x, two.x)  # type: ignore[arg-type]
        assert torch.equal(one.y, two.y)
    assert plain.condition_kind == "categorical"


def spoilt(value: float) -> Callable[[], dict[str, Any]]:
    def change() -> dict[str, Any]:
        features = np.ones((60, 2), np.float32)
        features[51, 1] = value
        return {"features": features}

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: {"ids": None}, "it lacks ids"),
        (lambda: {"features": None, "metadata": None}, "it lacks features and metadata"),
        (
            lambda: {"features": np.ones((60, 2))},
            "features is float64 of shape (60, 2), not float32 (n, d)",
        ),
        (lambda: {"features": np.ones(60, np.float32)}, "features is float32 of shape (60,)"),
        (
            lambda: {"features": np.ones((60, 0), np.float32)},
            "features is float32 of shape (60, 0)",
        ),
        (
            lambda: {"ids": row_ids("train", 59)},
            "ids is <U14 of shape (59,), not one text for each of the 60 rows",
        ),
        (
            lambda: {"features": np.ones((70, 2), np.float32), "ids": row_ids("train", 70)},
            "it has 70 rows, but cifar10 has 50 samples to train on and 10 to test on",
        ),
        (
            lambda: {"ids": np.concatenate([row_ids("test", 10), row_ids("train", 50)])},
            "its row 0 is 'test/00000000', which is not the sample of cifar10 that belongs there",
        ),
        (spoilt(np.nan), "features is NaN or infinite in row 51 (test/00000001), column 1"),
        (spoilt(np.inf), "features is NaN or infinite in row 51 (test/00000001), column 1"),
        (lambda: {"metadata": np.array("[]")}, "its metadata does not name the dataset"),
        (
            lambda: {"metadata": np.array("not json")},
            "its metadata does not name the dataset",
        ),
        (
            lambda: {"features": np.array([{}] * 60)},
            "features is an array of Python objects",
        ),
        (
            lambda: {"metadata": np.array(json.dumps({"dataset": "fashion-mnist"}))},
            "holds features of fashion-mnist, not of cifar10",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(
    data_dir: Path, tmp_path: Path, change: Callable[[], dict[str, Any]], message: str
) -> None:
    path = write(tmp_path / "f.npz", **change())
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        datasets.load("cifar10", data_dir=data_dir, holdout=5, features=path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_npz(data_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    with pytest.raises(
        DataError,
        match=(
            r"the feature file .* does not exist: make it with cclk-paper features"
            r" cifar10 \(.*lists encoders\)$"
        ),
    ):
        datasets.load("cifar10", data_dir=data_dir, features=path)
    path.write_text("features")
    with pytest.raises(DataError, match=r"it is not an \.npz file, or it is truncated"):
        datasets.load("cifar10", data_dir=data_dir, features=path)
    whole = write(path).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"it is not an \.npz file, or it is truncated"):
        datasets.load("cifar10", data_dir=data_dir, features=path)
    write(path)
    content = bytearray(whole)
    content[200] ^= 255  # inside the features: the archive's checksum notices
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="features is damaged"):
        datasets.load("cifar10", data_dir=data_dir, features=path)


def test_a_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "f.npz")
    assert read_features("~/f.npz", "cifar10").metadata["encoder"] == "e"


def test_metadata_of_earlier_versions_is_read(tmp_path: Path) -> None:
    text = np.array(json.dumps({"dataset": "cifar10", "encoder": "older"}))
    path = write(tmp_path / "f.npz", metadata=None, about=text)
    assert read_features(path, "cifar10").metadata["encoder"] == "older"
