"""A whole evaluation: its keys, its values on features whose content is known, and its edges."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
import torch

import cclk
from cclk.columns import Column
from cclk.evaluation import ColumnLeakage, Estimate, Samples, evaluate, two_probes
from cclk.evaluation.feature_splits import carve
from cclk.evaluation.intervals import (
    bootstrap,
    explained_variance,
    mean_squared_error,
    share_correct,
)
from cclk.evaluation.probes import FeatureScaler, fit_classifier, fit_ridge, predict_neighbors


def make(
    n: int, seed: int, *, leak: float = 1.0, classes: int = 4, kind: str = "continuous"
) -> Samples:
    """Features = label one-hot + leak * condition, mixed by a fixed matrix; colors in 0..255."""
    random = np.random.default_rng(seed)
    y, color = random.integers(0, classes, n), random.uniform(0, 255, (n, 3))
    parts = np.concatenate(
        [2 * np.eye(classes)[y], leak * (color - 127) / 74, random.normal(size=(n, 3))], axis=1
    )
    mixed = parts @ np.random.default_rng(99).normal(
        size=(parts.shape[1], 24)
    ) + 0.1 * random.normal(size=(n, 24))
    condition = color if kind == "continuous" else np.floor(color[:, :1] / 128)
    return Samples(mixed, y, condition)


def splits(**options: object) -> tuple[Samples, Samples, Samples]:
    return make(500, 1, **options), make(150, 2, **options), make(300, 3, **options)  # type: ignore[arg-type]


COLOR = (Column("color", width=3),)
NOTHING = Samples(np.zeros((0, 24)), np.zeros(0), np.zeros((0, 3)))


def value(found: Estimate | None) -> float:
    assert found is not None
    return found.value


def test_leakage_is_that_of_the_panel() -> None:
    """The same numbers as `cclk.leakage`, which measures them on the same splits."""
    train, validation, test = (part.subset(np.arange(140)) for part in splits())
    found = evaluate(train, validation, test, COLOR, 3)
    joined = np.concatenate([part.features for part in (train, validation, test)])
    colors = np.concatenate([part.condition for part in (train, validation, test)])
    names = np.repeat(["train", "validation", "test"], [140, 140, 140])
    assert found.leakage == cclk.leakage(joined, {"color": colors}, names, 3)
    assert value(found.leakage.worst) > 0.95
    assert value(found.accuracy.linear) > 0.97
    assert value(found.accuracy.knn) > 0.9


def test_two_probes_of_a_leak() -> None:
    found = two_probes(*splits())
    assert set(found) == {
        "linear_r2", "nonlinear_r2", "linear_mse", "nonlinear_mse", "baseline_mse",
    }  # fmt: skip
    assert found["linear_r2"] > 0.98
    assert found["nonlinear_r2"] > 0.98
    assert found["baseline_mse"] == pytest.approx(255**2 / 12, rel=0.1), (
        "in the condition's own units"
    )
    assert found["linear_mse"] == pytest.approx((1 - found["linear_r2"]) * 255**2 / 12, rel=0.1)


class Recorder:
    """Stands in for the training of the nonlinear probe: keeps what it is given, and answers
    twice the linear probe.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, largest: int = 20_000) -> None:
        self.given: dict[str, Any] = {}
        module = importlib.import_module("cclk.evaluation.two_probes")
        assert module.LARGEST_TRAINING_SET == 20_000
        monkeypatch.setattr(module, "LARGEST_TRAINING_SET", largest)
        monkeypatch.setattr(module, "fit_mlp", self.fit)

    def fit(self, *given: Any) -> Callable[[np.ndarray], np.ndarray]:
        names = ("features", "target", "validation", "validation_target", "start", "seed")
        self.given = dict(zip(names, given, strict=True))
        return lambda features: 2 * self.given["start"](features)


def test_numbers_are_those_of_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation, test = splits(leak=0.2)
    test = Samples(
        test.features, test.y, test.condition + 50
    )  # so that the means of the splits differ
    recorder = Recorder(monkeypatch)
    found = evaluate(train, validation, test, seed=4, bootstrap=30)
    scale = FeatureScaler.fit(train.features)
    x, held, query = (scale(part.features) for part in (train, validation, test))
    label = fit_classifier(x, train.y, 4, held, validation.y)
    near = predict_neighbors(train.features, train.y, 4, test.features)
    mean, spread = train.condition.mean(axis=0), train.condition.std(axis=0)
    ridge = fit_ridge(
        x, (train.condition - mean) / spread, held, (validation.condition - mean) / spread
    )
    linear, network, weight = (
        ridge(query) * spread + mean,
        2 * ridge(query) * spread + mean,
        spread**-2.0,
    )
    accuracies = {
        "linear": share_correct(label(query).argmax(axis=1), test.y),
        "knn": share_correct(near, test.y),
    }
    assert {name: astuple(one) for name, one in vars(found.accuracy).items()} == {
        name: astuple(one) for name, one in bootstrap(accuracies, 30, 4).items()
    }
    statistics = {
        "baseline_mse": mean_squared_error(
            np.broadcast_to(mean, test.condition.shape), test.condition
        ),
        "linear_r2": explained_variance(linear, test.condition, weight),
        "linear_mse": mean_squared_error(linear, test.condition),
        "nonlinear_r2": explained_variance(network, test.condition, weight),
        "nonlinear_mse": mean_squared_error(network, test.condition),
    }
    assert two_probes(train, validation, test, 4) == {
        name: one.value for name, one in bootstrap(statistics, 1, 4).items()
    }
    assert found.how == {
        "validation_from": "its own split",
        "train": 500,
        "validation": 150,
        "test": 300,
        "bootstrap": 30,
        "seed": 4,
        "accuracy_c": label.strength,
    }
    assert recorder.given["seed"] == 4
    np.testing.assert_allclose(recorder.given["validation"], held)
    np.testing.assert_allclose(
        recorder.given["validation_target"], (validation.condition - mean) / spread
    )


def test_the_network_is_fitted_on_a_random_part_of_a_large_training_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, validation, test = splits()
    scaled, chosen = FeatureScaler.fit(train.features)(train.features).tolist(), []
    for seed, largest, size in ((0, 100, 100), (1, 100, 100), (0, 500, 500)):
        recorder = Recorder(monkeypatch, largest)
        two_probes(train, validation, test, seed)
        rows = [scaled.index(row) for row in recorder.given["features"].tolist()]
        assert rows == sorted(np.random.default_rng((seed, 3)).permutation(500)[:size])
        target = (train.condition - train.condition.mean(axis=0)) / train.condition.std(axis=0)
        np.testing.assert_allclose(recorder.given["target"], target[rows])
        chosen.append(rows)
        monkeypatch.undo()
    assert chosen[0] != chosen[1]
    assert chosen[0][-1] > 400, "not the first of them"


def test_a_column_that_is_constant_in_training_counts_for_nothing_in_r2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither where the mean of equal numbers is rounded, nor where the column varies in the
    test split.
    """
    Recorder(monkeypatch)
    parts = splits()
    assert np.full((500, 4), 0.3).std(axis=0).all(), "rounding"
    extra = [np.full(500, 0.3), np.full(150, 0.3), np.random.default_rng(0).normal(size=300)]
    more = [
        Samples(s.features, s.y, np.column_stack([s.condition, column]))
        for s, column in zip(parts, extra, strict=True)
    ]
    plain, found = (two_probes(*given)["linear_r2"] for given in (parts, more))
    assert found == pytest.approx(plain)


def test_defaults() -> None:
    how = evaluate(*splits()).how
    assert (how["seed"], how["bootstrap"]) == (0, 1000)


def test_fifteen_percent_of_the_training_split_are_carved() -> None:
    whole = Samples(np.arange(40.0)[:, None], np.arange(40), np.arange(40.0))
    train, validation = carve(whole, 0)
    assert (len(train), len(validation)) == (34, 6)
    assert sorted([*train.y, *validation.y]) == list(range(40))
    for part in (train, validation):
        assert (
            part.y.tolist()
            == sorted(part.y)
            == part.features[:, 0].tolist()
            == part.condition[:, 0].tolist()
        )
    for seed in (0, 1):
        assert carve(whole, seed)[1].y.tolist() == sorted(
            np.random.default_rng((seed, 1)).permutation(40)[:6]
        )
    assert [len(part) for part in carve(whole.subset(np.arange(2)), 0)] == [1, 1]


def test_samples_are_kept_in_the_types_that_probes_take() -> None:
    frozen = np.arange(6.0).reshape(3, 2)
    frozen.flags.writeable = False
    samples = Samples(frozen, [0, 1, 0], torch.tensor([1, 2, 3]))
    assert (samples.features.dtype, samples.y.dtype, samples.condition.dtype) == (
        np.float32,
        np.int64,
        np.float64,
    )
    again = Samples(samples.features, samples.y, frozen)
    assert again.condition.flags.writeable, "torch warns about arrays that it could not write to"
    assert again.features is samples.features, "nothing is copied without need"


def test_no_leak_is_no_leak() -> None:
    found = two_probes(*splits(leak=0.0))
    assert abs(found["linear_r2"]) < 0.06
    assert abs(found["nonlinear_r2"]) < 0.1


def test_a_leak_that_only_the_network_sees() -> None:
    def fold(samples: Samples) -> Samples:
        return Samples(samples.features, samples.y, np.abs(samples.condition - 127.5))

    found = two_probes(*(fold(part) for part in splits()))
    assert found["linear_r2"] < 0.1
    assert found["nonlinear_r2"] > 0.8


def test_r2_pools_columns_in_units_of_their_training_spread() -> None:
    """One column is read perfectly and one not at all: half the variance, whatever their units."""
    random = np.random.default_rng(0)

    def part(n: int) -> Samples:
        x = random.normal(size=(n, 4))
        return Samples(
            x,
            x[:, 0] > 0,
            np.stack([1000 * x[:, 0], random.normal(size=n), np.full(n, 3.3)], axis=1),
        )

    found = two_probes(part(2000), part(500), part(2000))
    assert found["linear_r2"] == pytest.approx(0.5, abs=0.03)
    assert found["linear_mse"] == pytest.approx(1 / 3, rel=0.2), "mean over the three columns"


def test_same_seed_same_answer_and_tensors_are_taken() -> None:
    train, validation, test = splits()
    age = (Column("age"),)
    train, validation, test = (
        Samples(s.features[:100], s.y[:100], s.condition[:100, :1])
        for s in (train, validation, test)
    )
    first = evaluate(train, validation, test, age, 5, bootstrap=20)
    as_tensors = [
        Samples(
            torch.tensor(s.features).requires_grad_(), torch.tensor(s.y), torch.tensor(s.condition)
        )
        for s in (train, validation, test)
    ]
    assert evaluate(*as_tensors, age, 5, bootstrap=20) == first
    assert Samples(
        torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(2), torch.ones(2)
    ).condition.shape == (2, 1)


def test_validation_is_carved_from_train_where_there_is_none() -> None:
    train, _, test = splits()
    found = evaluate(train, NOTHING, test, bootstrap=20)
    assert found.how["validation_from"] == "the training split"
    assert found.how["train"] + found.how["validation"] == 500
    assert value(found.accuracy.linear) > 0.97


@pytest.mark.parametrize("constant", [0, 2])
def test_a_constant_condition_shows_no_leak(constant: int) -> None:
    parts = list(splits())
    parts[constant] = Samples(
        parts[constant].features, parts[constant].y, np.full((len(parts[constant]), 3), 0.1)
    )
    found = evaluate(*parts, COLOR, bootstrap=20)
    assert found.leakage.columns == {"color": ColumnLeakage()}
    assert two_probes(*parts) == {}
    assert value(found.accuracy.linear) > 0.97


def test_collapsed_features_and_unseen_classes_are_measured_not_refused() -> None:
    train, validation, test = splits()
    flat = [
        Samples(np.full_like(s.features, 0.3), np.where(s is train, s.y % 2, s.y), s.condition)
        for s in (train, validation, test)
    ]
    found = evaluate(*flat, COLOR, bootstrap=20)
    assert value(found.accuracy.linear) < 0.5
    assert abs(value(found.leakage.worst)) < 0.05
    assert abs(two_probes(*flat)["linear_r2"]) < 0.05
    unseen = [
        Samples(s.features, np.zeros(len(s)), s.y % (2 if s is train else 3))
        for s in (train, validation, test)
    ]
    found = evaluate(*unseen, (Column("kind", "categorical"),), bootstrap=20)
    assert value(found.accuracy.linear) == 1.0
    assert value(found.leakage["kind"].accuracy["linear"]) < 0.9


def test_bad_input_gets_one_clear_message() -> None:
    train, validation, test = splits()
    broken = Samples(test.features.copy(), test.y, test.condition)
    broken.features[3, 7] = np.nan
    with pytest.raises(
        ValueError,
        match=(r"of the test split contain NaN or infinity in 1 of 24 columns \(the first is 7\)"),
    ):
        evaluate(train, validation, broken)
    broken = Samples(test.features, test.y, test.condition.copy())
    broken.condition[5, 1:] = np.inf
    with pytest.raises(
        ValueError,
        match=r"condition of the validation split contain .* in 2 of 3 columns \(the first is 1\)",
    ):
        evaluate(train, broken, test)
    with pytest.raises(ValueError, match="of the training split contain"):
        evaluate(broken, validation, test)
    with pytest.raises(ValueError, match="test split is empty"):
        evaluate(train, validation, NOTHING)
    with pytest.raises(ValueError, match=r"columns describe 1 values of the condition, and .* 3"):
        evaluate(train, validation, test, (Column("age"),))
    with pytest.raises(ValueError, match="4 rows, y 3 and condition 4"):
        Samples(np.zeros((4, 2)), np.zeros(3), np.zeros((4, 1)))
    for shapes in ([(4,), (4,), (4, 1)], [(4, 2), (4, 1), (4, 1)], [(4, 2), (4,), (4, 1, 1)]):
        with pytest.raises(
            ValueError, match=re.escape(f"got {shapes[0]}, {shapes[1]} and {shapes[2]}")
        ):
            Samples(*map(np.zeros, shapes))
    with pytest.raises(ValueError, match="has 1 samples"):
        evaluate(train.subset(np.array([0])), NOTHING, test)


def test_every_column_of_a_mixed_condition_has_its_own_leak() -> None:
    train, validation, test = (part.subset(np.arange(150)) for part in splits())
    category = [Samples(s.features, s.y, s.y) for s in (train, validation, test)]
    both = [
        Samples(s.features, s.y, np.column_stack([s.condition, s.y]))
        for s in (train, validation, test)
    ]
    color = Column("number. of", width=3)
    kind = Column("kind", "categorical")
    found = evaluate(*both, (color, kind), bootstrap=20)
    assert found.leakage.columns == {
        "number. of": (
            evaluate(train, validation, test, (color,), bootstrap=20).leakage["number. of"]
        ),
        "kind": evaluate(*category, (kind,), bootstrap=20).leakage["kind"],
    }
    assert len(evaluate(train, validation, test, bootstrap=5).leakage) == 0
