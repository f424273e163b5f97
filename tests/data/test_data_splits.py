"""Orders that mix the labels evenly, and the rows that are held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from cclk.data.randomness import generator
from cclk.data.splits import draw_groups, hold_out, stratified_order
from cclk.errors import DataError


def test_every_stretch_has_the_labels_in_proportion() -> None:
    labels = np.random.default_rng(0).choice(
        np.array(["a", "b", "c", "d"]), 200, p=[0.6, 0.25, 0.1, 0.05]
    )
    order = stratified_order(labels, 3)
    assert sorted(order.tolist()) == list(range(200))
    for label in np.unique(labels):
        share = np.cumsum(labels[order] == label) - np.arange(1, 201) * (labels == label).mean()
        assert np.abs(share).max() <= 1, (
            f"up to any place, {label} is as frequent as overall, to one row"
        )
        assert (np.diff(order[labels[order] == label]) < 0).any(), (
            "rows of a label are in random order"
        )


def test_the_order_is_a_function_of_the_seed() -> None:
    """The k-th row of a label that has n rows, in a random order of all rows, lies at (k + 1/2)
    / n of the way.
    """
    labels = np.random.default_rng(1).integers(0, 3, 100)
    drawn = generator(5, "stratified order").permutation(100).tolist()
    seen, places = Counter[int](), {}
    for row in drawn:
        places[row] = (seen[labels[row]] + 0.5) / (labels == labels[row]).sum()
        seen[labels[row]] += 1
    assert stratified_order(labels, 5).tolist() == sorted(drawn, key=places.__getitem__)
    assert stratified_order(labels, 6).tolist() != stratified_order(labels, 5).tolist()
    assert stratified_order(np.zeros(0, np.int64), 0).tolist() == []


def test_held_out_rows_are_the_last_of_the_order() -> None:
    train, held = hold_out(np.array([4, 0, 3, 2, 1]), 2)
    assert (train.tolist(), held.tolist()) == ([0, 3, 4], [1, 2])
    train, held = hold_out(np.array([4, 0, 3, 2, 1]), 0)
    assert (train.tolist(), held.tolist()) == ([0, 1, 2, 3, 4], [])
    assert len(hold_out(np.arange(5), 4)[0]) == 1


@pytest.mark.parametrize("holdout", [-1, 5, 2.0, True])
def test_a_holdout_leaves_rows_to_train_on(holdout: int) -> None:
    with pytest.raises(DataError, match="must be an integer from 0 to 4"):
        hold_out(np.arange(5), holdout)


@pytest.mark.parametrize("sizes", [[1] * 100, [7] * 30, [90, 4, 3, 3], [50, 50], range(1, 20)])
def test_groups_are_drawn_as_one(sizes: Sequence[int]) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    rest, drawn = draw_groups(groups, round(0.15 * len(groups)), 0)
    assert sorted([*rest, *drawn]) == list(range(len(groups)))
    assert min(len(rest), len(drawn)) > 0
    assert not set(groups[rest]) & set(groups[drawn])
    if max(sizes) < 8:
        assert abs(len(drawn) - 0.15 * len(groups)) <= max(sizes)
    again = draw_groups(groups.astype(str), round(0.15 * len(groups)), 0)
    assert len(again[1])


def test_one_group_cannot_be_divided() -> None:
    with pytest.raises(DataError, match="all 5 rows are of one group"):
        draw_groups(np.zeros(5), 1, 0)
