"""Bootstrap intervals: against a plain loop, and against theory."""

from __future__ import annotations

import numpy as np
import pytest

from cclk.evaluation.estimate import Change
from cclk.evaluation.intervals import (
    bootstrap,
    explained_variance,
    share_correct,
)


def test_values_are_the_textbook_ones() -> None:
    random = np.random.default_rng(0)
    truth, prediction = (random.normal(size=(50, 3)) * [1, 10, 100] + 1000 for _ in range(2))
    found = bootstrap({"r2": explained_variance(prediction, truth)}, 10, 0)["r2"].value
    error, spread = (((part - truth) ** 2).sum() for part in (prediction, truth.mean(axis=0)))
    assert found == pytest.approx(1 - error / spread)
    assert found < 0, "negative values are reported as they are"


def test_intervals_are_those_of_a_plain_loop() -> None:
    random = np.random.default_rng(1)
    truth = random.normal(size=(40, 2))
    prediction = truth + random.normal(size=(40, 2))
    measure = explained_variance(prediction, truth)
    found = bootstrap({"r2": measure}, 500, 7)["r2"]
    draws = np.random.default_rng((7, 2)).integers(40, size=(500, 40))
    values = []
    for rows in draws:
        p, t = prediction[rows], truth[rows]
        values.append(1 - ((p - t) ** 2).sum() / ((t - t.mean(axis=0)) ** 2).sum())
    np.testing.assert_allclose([found.low, found.high], np.quantile(values, [0.025, 0.975]))


def test_share_has_the_width_that_theory_gives() -> None:
    truth = np.zeros(10_000, np.int64)
    answers = (np.arange(10_000) % 10 == 0).astype(np.int64)
    found = bootstrap({"accuracy": share_correct(answers, truth)}, 1000, 0)["accuracy"]
    assert found.value == pytest.approx(0.9)
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.sqrt(0.09 / 10_000), rel=0.1)
    assert found.low < 0.9 < found.high


def test_a_resample_without_spread_does_not_break_the_interval() -> None:
    truth = np.array([[0.0], [1.0]])
    found = bootstrap({"r2": explained_variance(truth * 0.5, truth)}, 100, 0)["r2"]
    assert np.isfinite([found.value, found.low, found.high]).all()


def test_a_large_offset_does_not_cost_precision() -> None:
    random = np.random.default_rng(2)
    truth = random.normal(size=(60, 2))
    prediction = truth + 0.5 * random.normal(size=(60, 2))
    plain, shifted = (
        bootstrap({"r2": explained_variance(prediction + by, truth + by)}, 50, 0)["r2"]
        for by in (0.0, np.array([2.0**30, 0.0]))
    )
    assert (shifted.value, shifted.low, shifted.high) == pytest.approx(
        (plain.value, plain.low, plain.high), rel=1e-5
    )


def test_resamples_are_the_same_in_any_number_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk holds no more counts than allowed, or one resample where not even that fits."""
    measures = {"accuracy": share_correct(np.arange(40) % 3, np.zeros(40, np.int64))}
    whole, sizes, bincount = bootstrap(measures, 7, 0), [], np.bincount
    monkeypatch.setattr(
        np,
        "bincount",
        lambda drawn, minlength: [sizes.append(len(drawn)), bincount(drawn, minlength=minlength)][
            1
        ],
    )
    for chunk, expected in ((100, [80, 80, 80, 40]), (39, [40] * 7)):
        sizes.clear()
        monkeypatch.setattr("cclk.evaluation.intervals._CHUNK", chunk)
        assert bootstrap(measures, 7, 0) == whole
        assert sizes == expected


def test_one_resample_is_enough() -> None:
    found = bootstrap({"accuracy": share_correct(np.arange(40) % 3, np.zeros(40, np.int64))}, 1, 0)[
        "accuracy"
    ]
    assert found.low == found.high


def test_no_resamples_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 resample"):
        bootstrap({"a": share_correct(np.zeros(3, np.int64), np.zeros(3, np.int64))}, 0, 0)


@pytest.mark.parametrize(("rows", "cost"), [(1, "too few rows to tell"), (5000, "nothing lost")])
@pytest.mark.parametrize("answer", [0, 1])
def test_equal_answers_are_uncertain_if_they_are_few(rows: int, cost: str, answer: int) -> None:
    statistic = share_correct(np.full(rows, answer), np.ones(rows, np.int64))
    found = bootstrap({"accuracy": statistic}, 100, 0)["accuracy"]
    assert found.value == answer
    assert Change(found, found).cost == cost
