"""Fashion-MNIST's garment attributes: what they say, how often they are wrong, and what they
depend on.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cclk_paper.datasets.garments import CLASSES, PROPERTIES, attribute_names, draw_attributes

from cclk import datasets
from cclk.data import Dataset
from cclk.errors import DataError


def load(data_dir: Path, **options: Any) -> Dataset:
    return datasets.load("fashion-mnist", data_dir=data_dir, **({"holdout": 20} | options))


def test_without_noise_they_are_facts_about_the_garment(data_dir: Path) -> None:
    dataset = load(data_dir, attributes=12, noise=0)
    assert dataset.condition_kind == "continuous"
    assert dataset.condition_names == PROPERTIES
    have = {
        dataset.classes[int(y)]: {
            name for name, value in zip(PROPERTIES, row, strict=True) if value
        }
        for y, row in zip(dataset.train.y, dataset.train.condition, strict=True)
    }
    assert have["Shirt"] == {"sleeves", "long sleeves", "opens in front", "upper body"}
    assert have["Ankle boot"] == {"footwear", "covers the ankle", "for the cold"}
    assert have["Bag"] == {"handle"}
    assert len({frozenset(properties) for properties in have.values()}) == len(CLASSES) == 10, (
        "no two kinds are alike"
    )


def test_further_columns_are_further_readings() -> None:
    labels = (np.arange(4000) % 10).astype(np.uint8)
    assert attribute_names(26)[12:14] == ("sleeves 2", "footwear 2")
    assert attribute_names(26)[24:] == ("sleeves 3", "footwear 3")
    quiet = draw_attributes(labels, 26, 0.0, 0, "train")
    assert np.array_equal(quiet[:, 12:24], quiet[:, :12])
    noisy = draw_attributes(labels, 26, 0.2, 0, "train")
    # Two readings, each wrong in one of five, agree in 0.8^2 + 0.2^2 of the cases.
    assert abs((noisy[:, 12:24] == noisy[:, :12]).mean() - 0.68) < 0.01


@pytest.mark.parametrize("noise", [0.05, 0.1, 0.3])
def test_each_entry_is_wrong_with_the_given_probability(noise: float) -> None:
    labels = (np.arange(20_000) % 10).astype(np.uint8)
    wrong = draw_attributes(labels, 14, 0.0, 0, "train") != draw_attributes(
        labels, 14, noise, 0, "train"
    )
    assert np.abs(wrong.mean(axis=0) - noise).max() < 0.015
    # Columns err independently.
    assert np.abs(np.corrcoef(wrong.T) - np.eye(14)).max() < 0.04


def test_entries_depend_on_seed_row_and_column_alone(data_dir: Path) -> None:
    few, many = (load(data_dir, attributes=count, noise=0.3) for count in (3, 30))
    assert torch.equal(few.train.condition, many.train.condition[:, :3])
    assert torch.equal(few.test.condition, many.test.condition[:, :3])
    other = load(data_dir, attributes=30, noise=0.3, seed=1, holdout=0)
    whole = load(data_dir, attributes=30, noise=0.3, holdout=0)
    assert not torch.equal(other.train.condition, whole.train.condition)
    # Each image of the small files holds its number, plus one: the same garment has the same
    # attributes, held out or not.
    assert isinstance(many.train.x, torch.Tensor)
    assert isinstance(many.validation.x, torch.Tensor)
    for split in (many.train, many.validation):
        assert isinstance(split.x, torch.Tensor)
        rows = split.x.flatten(1).amax(dim=1).long() - 1
        assert torch.equal(split.condition, whole.train.condition[rows])
    # The test part errs on its own.
    labels = np.zeros(400, np.uint8)
    assert not np.array_equal(
        draw_attributes(labels, 3, 0.3, 0, "train"), draw_attributes(labels, 3, 0.3, 0, "test")
    )


def test_without_attributes_the_label_is_the_condition(data_dir: Path) -> None:
    dataset = load(data_dir)
    assert (dataset.condition_kind, dataset.condition_names) == ("categorical", ("label",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attributes": -1}, "attributes is -1: it must be an integer"),
        ({"attributes": 2.5}, "attributes is 2.5: it must be an integer"),
        ({"attributes": True}, "attributes is True: it must be an integer"),
        ({"attributes": 4, "noise": 0.6}, "noise is 0.6: it must be a probability from 0 to 0.5"),
        ({"attributes": 4, "noise": -0.1}, "noise is -0.1: it must be"),
        ({"attributes": 4, "noise": float("nan")}, "noise is nan: it must be"),
        ({"attributes": 4, "noise": "much"}, "noise is 'much': it must be"),
        ({"attributes": 4, "features": "f.npz"}, "features and attributes are both set"),
    ],
)
def test_mistakes_are_named(data_dir: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        load(data_dir, **options)
