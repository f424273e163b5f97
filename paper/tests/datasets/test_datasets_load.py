"""`load`: names, options, seeds, and what every dataset must hold to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cclk import datasets
from cclk.data import Dataset, Split
from cclk.errors import DataError

IN_MEMORY = ("colordigits", "colormnist", "cifar10", "fashion-mnist")


def small(name: str, data_dir: Path, **options: object) -> Dataset:
    return datasets.load(name, data_dir=data_dir, **({"holdout": 7} | options))


@pytest.mark.parametrize("name", IN_MEMORY)
def test_every_dataset_keeps_the_contract(name: str, data_dir: Path) -> None:
    dataset = small(name, data_dir)
    assert dataset.name == name
    assert len(dataset.validation) == 7
    for split in (dataset.train, dataset.validation, dataset.test):
        assert split.x.dtype == torch.uint8
        assert split.x.shape[2:] == (32, 32)
        assert split.x.is_contiguous()
        assert split.condition.shape == (len(split), len(dataset.condition_names))
        assert split.y.min() >= 0
        assert split.y.max() < len(dataset.classes)
    assert "\n" not in dataset.description


@pytest.mark.parametrize("name", IN_MEMORY)
def test_loading_twice_gives_the_same(name: str, data_dir: Path) -> None:
    one, two = small(name, data_dir, holdout=20), small(name, data_dir, holdout=20)
    for part in ("train", "validation", "test"):
        a, b = getattr(one, part), getattr(two, part)
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)
        assert torch.equal(a.condition, b.condition)


@pytest.mark.parametrize("name", IN_MEMORY)
def test_holdout_moves_rows_and_loses_none(name: str, data_dir: Path) -> None:
    whole, cut = small(name, data_dir, holdout=0), small(name, data_dir, holdout=20)
    assert len(whole.validation) == 0
    assert whole.validation.x.shape[1:] == whole.train.x.shape[1:]
    assert (len(cut.train), len(cut.validation)) == (len(whole.train) - 20, 20)
    assert torch.equal(cut.test.x, whole.test.x)

    def rows(*splits: Split) -> list[bytes]:
        return sorted(x.numpy().tobytes() for split in splits for x in split.x)

    assert rows(cut.train, cut.validation) == rows(whole.train)
    # Twenty rows out of ten (nearly) equally frequent labels: two of each, give or take one.
    counts = cut.validation.y.bincount(minlength=10)
    assert (counts - 2).abs().max() <= (1 if name == "colordigits" else 0)


def test_the_seed_chooses_which_rows_are_held_out(data_dir: Path) -> None:
    one, two = (
        datasets.load("cifar10", data_dir=data_dir, holdout=20, seed=seed) for seed in (0, 1)
    )
    assert not torch.equal(one.validation.x, two.validation.x)


@pytest.mark.parametrize("holdout", [-1, 60, 2.5, True])
def test_an_impossible_holdout_is_refused(data_dir: Path, holdout: object) -> None:
    with pytest.raises(DataError, match=r"holdout is .*: it must be an integer from 0 to 59"):
        small("colormnist", data_dir, holdout=holdout)


def test_unknown_names_and_options_are_named(data_dir: Path) -> None:
    with pytest.raises(
        DataError, match=r"unknown dataset 'mnits': choose colordigits, .*imagenet-100, .* \.npz"
    ):
        datasets.load("mnits")
    with pytest.raises(DataError, match="'cifar10' has no option 'colors': it takes holdout"):
        datasets.load("cifar10", data_dir=data_dir, colors="uniform")
    with pytest.raises(DataError, match="has no option 'path'"):
        datasets.load("mine.npz", path="other.npz")
    with pytest.raises(DataError, match="seed is -1"):
        datasets.load("colordigits", seed=-1)


def test_cifar_images_labels_and_condition(data_dir: Path) -> None:
    dataset = small("cifar10", data_dir, holdout=0)
    assert dataset.train.x[37, :, 5, 9].tolist() == [37, 38, 39]
    assert dataset.train.y[:12].tolist() == [*range(10), 0, 1]
    assert dataset.test.x[3, :, 0, 0].tolist() == [103, 104, 105]
    assert dataset.condition_kind == "categorical"
    assert torch.equal(dataset.train.condition[:, 0], dataset.train.y.float())
    assert dataset.classes[9] == "truck"


def test_fashion_images_are_padded_and_gray(data_dir: Path) -> None:
    dataset = small("fashion-mnist", data_dir, holdout=0)
    assert dataset.train.x.shape == (60, 1, 32, 32)
    # Sample 13 has the value 14 at row 3, column 27 of its 28 x 28.
    assert dataset.train.x[13].nonzero().tolist() == [[0, 3 + 2, 27 + 2]]
    assert dataset.train.x[13, 0, 5, 29] == 14
    assert torch.equal(dataset.train.condition[:, 0], dataset.train.y.float())


def test_small_fashion_images_are_means_over_blocks(data_dir: Path) -> None:
    full = small("fashion-mnist", data_dir, holdout=0)
    half = small("fashion-mnist", data_dir, holdout=0, pixels=16)
    blocks = full.train.x.float().unfold(2, 2, 2).unfold(3, 2, 2)
    assert torch.equal(half.train.x, blocks.mean((-1, -2)).round().to(torch.uint8))
    with pytest.raises(DataError, match="pixels is 20: choose 32, 16 or 8"):
        small("fashion-mnist", data_dir, pixels=20)
