"""Rotated Fashion-MNIST: geometry, angles and splits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_files import idx_bytes

from cclk import datasets
from cclk.data import Dataset
from cclk.errors import DataError

ROWS = 200


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    """Fashion-MNIST in miniature: vertical bars, whose brightness is the row of the image."""
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    for part, count in (("train", 190), ("t10k", 40)):
        images = np.zeros((count, 28, 28), np.uint8)
        images[:, 2:26, 12:16] = 55 + np.arange(count, dtype=np.uint8)[:, None, None]
        labels = (np.arange(count) % 10).astype(np.uint8)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx_bytes(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    return tmp_path


def load(data_dir: Path, **options: Any) -> Dataset:
    return datasets.load("rotated-fashion", data_dir=data_dir, **({"rows": ROWS} | options))


def original_rows(x: object) -> torch.Tensor:
    """The rows of the original files, by the brightness of the bars."""
    assert isinstance(x, torch.Tensor)
    return x.flatten(1).amax(dim=1).long() - 55


def test_splits_and_labels(bars: Path) -> None:
    dataset = load(bars)
    assert [len(part) for part in (dataset.train, dataset.validation, dataset.test)] == [
        140, 30, 30,
    ]  # fmt: skip
    assert dataset.train.x.shape == (140, 1, 32, 32)
    assert (dataset.condition_names, dataset.condition_kind) == (("angle",), "continuous")
    assert dataset.classes[0] == "T-shirt/top"
    rows = torch.cat([original_rows(part.x) for part in (dataset.train, dataset.validation)])
    assert len(set(rows.tolist())) == 170, "no image is in two splits"
    for part in (dataset.train, dataset.validation, dataset.test):
        assert torch.equal(part.y, original_rows(part.x) % 10)
    assert len(load(bars, holdout=7).validation) == 7


def test_the_condition_is_the_angle_of_the_image(bars: Path) -> None:
    dataset = load(bars, holdout=0)
    angles = dataset.train.condition[:, 0]
    assert angles.abs().max() <= 60
    assert angles.min() < -50
    assert angles.max() > 50
    assert abs(float(angles.mean())) < 8
    # The long axis of a vertical bar, from the second moments of its pixels.
    assert isinstance(dataset.train.x, torch.Tensor)
    image = dataset.train.x[:, 0].double()
    mass = image.sum(dim=(1, 2))
    row, column = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    row, column = row - 15.5, column - 15.5
    rr, cc, rc = (
        (image * product).sum(dim=(1, 2)) / mass for product in (row**2, column**2, row * column)
    )
    measured = torch.rad2deg(0.5 * torch.atan2(2 * rc, rr - cc))
    assert (measured - angles).abs().max() < 3


def test_corners_stay_inside(bars: Path) -> None:
    dataset = load(bars, holdout=0)
    assert isinstance(dataset.train.x, torch.Tensor)
    image = dataset.train.x[:, 0].double()
    scale = (32 / 40) ** 2 * 24 * 4
    brightness = original_rows(dataset.train.x) + 55
    assert (image.sum(dim=(1, 2)) / brightness / scale - 1).abs().max() < 0.05


def test_images_are_a_function_of_the_seed(bars: Path) -> None:
    first, same, other = (load(bars, seed=seed, holdout=0) for seed in (0, 0, 1))
    assert torch.equal(torch.as_tensor(first.train.x), torch.as_tensor(same.train.x))
    assert torch.equal(first.test.condition, same.test.condition)
    assert not torch.equal(first.train.condition, other.train.condition)
    # The angle of an image does not depend on the number of images.
    fewer = load(bars, rows=100, holdout=0)
    angle = dict(
        zip(original_rows(first.train.x).tolist(), first.train.condition.tolist(), strict=True)
    )
    rows = original_rows(fewer.train.x).tolist()
    assert fewer.train.condition.tolist() == [angle[row] for row in rows]


@pytest.mark.parametrize("rows", [19, 224, 100.0, True])
def test_a_bad_number_of_rows_is_named(bars: Path, rows: object) -> None:
    message = f"rows is {rows!r}: it must be an integer from 20 to 223"
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load(bars, rows=rows)


def test_a_damaged_file_is_named(bars: Path) -> None:
    (bars / "fashion-mnist" / "t10k-images-idx3-ubyte").write_bytes(b"\0")
    with pytest.raises(DataError, match="t10k-images-idx3-ubyte in "):
        load(bars)
