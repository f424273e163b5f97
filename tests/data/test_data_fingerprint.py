"""A fingerprint changes with what would move rows between splits or change what is learnt, and with nothing else."""

from __future__ import annotations

from dataclasses import replace

import torch

from cclk.data.dataset import Dataset, Split
from cclk.data.fingerprint import fingerprint


def dataset() -> Dataset:
    split = Split(torch.arange(12.0).reshape(6, 2), torch.arange(6), torch.arange(6.0)[:, None], tuple("abcdef"))
    return Dataset("table", split, split.subset(torch.arange(2)), split.subset(torch.arange(3)), tuple("012345"), ("z",), "continuous", "")


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


def test_pictures_are_told_by_their_shape() -> None:
    whole = dataset()
    with_pictures = [replace(whole, train=replace(whole.train, x=torch.zeros(6, 3, size, 4, dtype=torch.uint8))) for size in (4, 5)]
    assert len({fingerprint(found) for found in with_pictures}) == 2
