"""What is measured of an encoder: the same numbers as an evaluation, and nothing of the test
split while choices are made.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from cclk_paper.experiments.measure import LOWER_IS_BETTER, TITLES, Measure, leakage_of, measure
from cclk_paper.probes import two_probes
from torch import Tensor

from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.evaluation import Samples, evaluate
from cclk.evaluation.probes import FeatureScaler, fit_classifier

ALL: tuple[Measure, ...] = tuple(name for name in TITLES if name != "auc")
"""Of a label with three classes."""


def split(rows: int, seed: int) -> Split:
    """Vectors in which label and condition can be read, not perfectly."""
    random = np.random.default_rng(seed)
    y, condition = random.integers(0, 3, rows), random.uniform(0, 255, (rows, 2))
    x = np.concatenate(
        [np.eye(3)[y], condition / 255, np.cos(condition / 30)], axis=1
    ) + 0.6 * random.normal(size=(rows, 7))
    return Split(
        torch.from_numpy(x).float(), torch.from_numpy(y), torch.from_numpy(condition).float()
    )


def dataset(held_out: int = 40) -> Dataset:
    columns = (Column("pq", width=2, categories=("p", "q")),)
    return Dataset(
        "made up", split(120, 0), split(held_out, 1), split(60, 2), ("a", "b", "c"), columns, ""
    )


def embed(part: Split) -> tuple[Tensor, Tensor]:
    """The features are the vectors; the projections must not be looked at."""
    assert isinstance(part.x, Tensor)
    return part.x, torch.full((len(part), 2), torch.nan)


def samples(part: Split) -> Samples:
    return Samples(embed(part)[0], part.y, part.condition)


def expected(*parts: Samples) -> dict[str, float]:
    """The values of an evaluation with seed 3, written out by hand."""
    found = evaluate(*parts, (Column("pq", width=2),), 3, bootstrap=1)
    estimates = {
        "accuracy": found.accuracy.linear,
        "knn": found.accuracy.knn,
        "worst_r2": found.leakage["pq"].worst,
    }
    values = {name: estimate.value for name, estimate in estimates.items() if estimate}
    return values | two_probes(*parts, seed=3)


def test_on_test_it_is_an_evaluation() -> None:
    made = dataset()
    values = expected(samples(made.train), samples(made.validation), samples(made.test))
    assert measure(made, embed, ALL, "test", 3) == values
    assert len(set(values.values())) == len(ALL), "else a mix-up could not be seen"


def test_on_validation_a_part_of_the_training_split_chooses() -> None:
    made = dataset()
    nothing = samples(made.train.subset(torch.arange(0)))
    values = expected(samples(made.train), nothing, samples(made.validation))
    assert measure(made, embed, ALL, "validation", 3) == values
    assert values != measure(made, embed, ALL, "test", 3)


def test_on_validation_the_test_split_is_never_seen() -> None:
    made = dataset()
    spoilt = Split(
        torch.full_like(made.test.x, torch.nan),
        made.test.y,
        torch.full_like(made.test.condition, torch.nan),
    )  # type: ignore[arg-type]
    unseen = replace(made, test=spoilt)

    def watched(part: Split) -> tuple[Tensor, Tensor]:
        assert part is not spoilt
        return embed(part)

    assert measure(unseen, watched, ALL, "validation", 0) == measure(
        made, embed, ALL, "validation", 0
    )
    with pytest.raises(ValueError, match="test"):
        measure(unseen, embed, ALL, "test", 0)


def test_labels_alone_do_not_look_at_the_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which makes them quick."""
    inside = importlib.import_module("cclk_paper.experiments.measure")
    monkeypatch.setattr(inside, "two_probes", lambda *_: pytest.fail("probes were fitted"))
    panel = importlib.import_module("cclk.evaluation.evaluate")
    monkeypatch.setattr(panel, "measure_leakage", lambda *_, **__: pytest.fail("a panel"))
    assert list(measure(dataset(), embed, ("knn", "accuracy"), "test", 0)) == ["knn", "accuracy"]


def test_a_leak_that_has_no_such_number_is_told() -> None:
    categories = dataset()
    one_column: dict[str, Any] = {"columns": (Column("p", "categorical"),)} | {
        name: replace(part, condition=(part.condition[:, :1] / 100).floor())
        for name, part in (
            ("train", categories.train),
            ("validation", categories.validation),
            ("test", categories.test),
        )
    }
    with pytest.raises(
        ValueError,
        match=(
            r"^linear_r2 cannot be measured on made up: its condition is categorical, not"
            r" continuous"
        ),
    ):
        measure(replace(categories, **one_column), embed, ("accuracy", "linear_r2"), "test", 0)
    worst = measure(replace(categories, **one_column), embed, ("worst_r2",), "test", 0)
    assert worst["worst_r2"] < 1, "the panel reads categories too"
    made = dataset()
    constant = replace(
        made, test=replace(made.test, condition=torch.ones_like(made.test.condition))
    )
    with pytest.raises(
        ValueError, match=r"^linear_mse cannot be measured on made up: its condition is constant"
    ):
        measure(constant, embed, ("linear_mse",), "test", 0)


def test_nothing_held_out_is_told() -> None:
    with pytest.raises(
        ValueError, match=r"^the validation split of made up is empty: hold out some"
    ):
        measure(dataset(held_out=0), embed, ("accuracy",), "validation", 0)
    assert measure(dataset(held_out=0), embed, ("accuracy",), "test", 0)["accuracy"] > 0.5, (
        "the probe's strength is chosen otherwise"
    )


def test_the_area_under_the_curve_is_that_of_the_linear_classifier() -> None:
    def binary(part: Split) -> Split:
        return replace(part, y=(part.y > 0).long())

    data = dataset()
    two = replace(
        data,
        train=binary(data.train),
        validation=binary(data.validation),
        test=binary(data.test),
        classes=("a", "b or c"),
    )
    measures = measure(two, embed, ("accuracy", "auc"), "test", 3)
    train, held, test = (samples(part) for part in (two.train, two.validation, two.test))
    scaler = FeatureScaler.fit(train.features)
    probe = fit_classifier(scaler(train.features), train.y, 2, scaler(held.features), held.y)
    scores = probe(scaler(test.features))
    margin = scores[:, 1] - scores[:, 0]
    assert measures["accuracy"] == pytest.approx(((margin > 0) == test.y).mean())
    ordered = margin[test.y == 1][:, None] > margin[test.y == 0]
    assert measures["auc"] == pytest.approx(ordered.mean())
    assert 0.7 < measures["auc"] < 1
    with pytest.raises(ValueError, match=r"^auc cannot be measured on made up: it has 3 classes,"):
        measure(data, embed, ("auc",), "test", 3)
    one = replace(two, test=replace(two.test, y=torch.zeros_like(two.test.y)))
    with pytest.raises(ValueError, match=r"both of them in the training and in the test split"):
        measure(one, embed, ("auc",), "test", 3)


def test_every_measure_has_words_and_a_direction() -> None:
    assert set(get_args(Measure)) == set(TITLES)
    assert len(set(TITLES.values())) == len(TITLES)
    assert {"worst_r2", "linear_r2", "nonlinear_r2"} == LOWER_IS_BETTER
    assert leakage_of(TITLES) == "worst_r2"
    assert leakage_of(("accuracy", "auc", "knn")) is None
    assert leakage_of(("accuracy", "nonlinear_r2")) == "nonlinear_r2"
    assert leakage_of(("accuracy", "linear_r2")) is None
