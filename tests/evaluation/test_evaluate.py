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

from cclk.evaluation import Estimate, FeatureScores, Samples, TwoProbes, evaluate
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


NOTHING = Samples(np.zeros((0, 24)), np.zeros(0), np.zeros((0, 3)))


def estimates(scores: FeatureScores) -> dict[str, Estimate]:
    """Every estimate by its name."""
    (leakage,) = scores.leakage.values()
    named = {"accuracy": vars(scores.accuracy), "leakage": vars(leakage)}
    return {
        f"{group}.{name}": found
        for group, fields in named.items()
        for name, found in fields.items()
        if found is not None
    }


def value(found: Estimate | None) -> float:
    assert found is not None
    return found.value


def test_continuous_condition_has_exactly_these_scores() -> None:
    found = evaluate(*splits(), "continuous", 0, bootstrap=200)
    scores = estimates(found)
    assert {name: one.unit for name, one in scores.items()} == {
        "accuracy.linear": "accuracy",
        "accuracy.knn": "accuracy",
        "leakage.linear": "r2",
        "leakage.nonlinear": "r2",
        "leakage.linear_mse": "mse",
        "leakage.nonlinear_mse": "mse",
        "leakage.baseline": "mse",
    }
    assert all(one.low <= one.value <= one.high for one in scores.values())
    assert scores["accuracy.linear"].value > 0.97
    assert scores["accuracy.knn"].value > 0.9
    assert scores["leakage.linear"].value > 0.98
    assert scores["leakage.nonlinear"].value > 0.98
    assert scores["leakage.baseline"].value == pytest.approx(255**2 / 12, rel=0.1), (
        "in the condition's own units"
    )
    assert scores["leakage.linear_mse"].value == pytest.approx(
        (1 - scores["leakage.linear"].value) * 255**2 / 12, rel=0.1
    )
    assert found.how["validation_from"] == "its own split"


class Recorder:
    """Stands in for the training of the nonlinear probe: keeps what it is given, and answers
    twice the linear probe.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, largest: int = 20_000) -> None:
        self.given: dict[str, Any] = {}
        module = importlib.import_module("cclk.evaluation.evaluate")
        assert module.LARGEST_TRAINING_SET == 20_000
        monkeypatch.setattr(module, "LARGEST_TRAINING_SET", largest)
        monkeypatch.setattr(module, "fit_mlp", self.fit)

    def fit(self, *given: Any) -> Callable[[np.ndarray], np.ndarray]:
        names = ("features", "target", "validation", "validation_target", "start", "task", "seed")
        self.given = dict(zip(names, given, strict=True))
        return lambda features: 2 * self.given["start"](features)


def test_numbers_are_those_of_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation, test = splits(leak=0.2)
    test = Samples(
        test.features, test.y, test.condition + 50
    )  # so that the means of the splits differ
    recorder = Recorder(monkeypatch)
    found = evaluate(train, validation, test, "continuous", 4, bootstrap=30)
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
    statistics = {
        "accuracy.linear": share_correct(label(query).argmax(axis=1), test.y),
        "accuracy.knn": share_correct(near, test.y),
        "leakage.baseline": mean_squared_error(
            np.broadcast_to(mean, test.condition.shape), test.condition
        ),
        "leakage.linear": explained_variance(linear, test.condition, weight),
        "leakage.linear_mse": mean_squared_error(linear, test.condition),
        "leakage.nonlinear": explained_variance(network, test.condition, weight),
        "leakage.nonlinear_mse": mean_squared_error(network, test.condition),
    }
    expected = bootstrap(statistics, 30, 4)
    assert {name: astuple(one) for name, one in estimates(found).items()} == {
        name: astuple(one) for name, one in expected.items()
    }
    assert found.how == {
        "validation_from": "its own split",
        "train": 500,
        "validation": 150,
        "test": 300,
        "bootstrap": 30,
        "seed": 4,
        "accuracy_c": label.strength,
        "condition_alpha": ridge.strength,
        "nonlinear_train": 500,
    }
    assert (recorder.given["task"], recorder.given["seed"]) == ("regression", 4)
    np.testing.assert_allclose(recorder.given["validation"], held)
    np.testing.assert_allclose(
        recorder.given["validation_target"], (validation.condition - mean) / spread
    )


def test_categories_are_compared_with_the_training_splits_majority(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the test split has another one, and categories that the training split lacks:
    those are never answered.
    """
    train, validation, test = splits()
    sites = [np.where(split.condition[:, 0] < 100, -3, 8) for split in (train, validation, test)]
    sites[0][:400] = np.where(train.condition[:400, 0] < 200, -3, 8)
    sites[1][:20], sites[2][:100], sites[2][100:130] = 99, 9, -7
    recorder = Recorder(monkeypatch)
    found = evaluate(
        *(
            Samples(s.features, s.y, z)
            for s, z in zip((train, validation, test), sites, strict=True)
        ),
        "categorical",
        0,
        20,
    )
    scale, target = FeatureScaler.fit(train.features), (sites[0] == 8).astype(np.int64)
    number = [{-3: 0, 8: 1}.get(site, 2) for site in sites[1].tolist()]
    linear = fit_classifier(
        scale(train.features), target, 2, scale(validation.features), np.array(number)
    )
    answers = np.array([-3, 8])[linear(scale(test.features)).argmax(axis=1)]
    assert value(found.leakage["condition"].linear) == pytest.approx((answers == sites[2]).mean())
    assert value(found.leakage["condition"].nonlinear) == pytest.approx(
        (answers == sites[2]).mean()
    )
    assert (sites[0] == -3).mean() > 0.5 > (sites[2] == -3).mean()
    assert value(found.leakage["condition"].baseline) == pytest.approx((sites[2] == -3).mean())
    assert found.how["condition_c"] == linear.strength
    given = recorder.given
    assert given["task"] == "classification"
    np.testing.assert_array_equal(given["target"], target)
    np.testing.assert_array_equal(
        given["validation_target"], number[20:], "the loss has no class for the others"
    )
    np.testing.assert_allclose(given["validation"], scale(validation.features)[20:])


def test_a_validation_split_of_unknown_categories_alone_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, validation, test = (Samples(s.features, s.y, s.y % 2) for s in splits())
    recorder = Recorder(monkeypatch)
    evaluate(
        train,
        Samples(validation.features, validation.y, np.full(150, 7)),
        test,
        "categorical",
        bootstrap=5,
    )
    np.testing.assert_array_equal(recorder.given["validation"], recorder.given["features"])
    np.testing.assert_array_equal(recorder.given["validation_target"], train.y % 2)


def test_the_network_is_fitted_on_a_random_part_of_a_large_training_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, validation, test = splits()
    scaled, chosen = FeatureScaler.fit(train.features)(train.features).tolist(), []
    for seed, largest, size in ((0, 100, 100), (1, 100, 100), (0, 500, 500)):
        recorder = Recorder(monkeypatch, largest)
        found = evaluate(train, validation, test, "continuous", seed, bootstrap=5)
        assert found.how["nonlinear_train"] == size
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
    plain, found = (
        estimates(evaluate(*given, "continuous", bootstrap=5))["leakage.linear"].value
        for given in (parts, more)
    )
    assert found == pytest.approx(plain)


def test_defaults() -> None:
    how = evaluate(*splits(), "continuous", leakage=False).how
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
    found = evaluate(*splits(leak=0.0), "continuous", 0, bootstrap=50).leakage["condition"]
    assert abs(value(found.linear)) < 0.06
    assert abs(value(found.nonlinear)) < 0.1


def test_a_leak_that_only_the_network_sees() -> None:
    def fold(samples: Samples) -> Samples:
        return Samples(samples.features, samples.y, np.abs(samples.condition - 127.5))

    found = evaluate(*(fold(part) for part in splits()), "continuous", 0, bootstrap=50).leakage[
        "condition"
    ]
    assert value(found.linear) < 0.1
    assert value(found.nonlinear) > 0.8


def test_categorical_condition_has_accuracies() -> None:
    found = evaluate(*splits(kind="categorical"), "categorical", 0, bootstrap=50).leakage[
        "condition"
    ]
    assert {name: one and one.unit for name, one in vars(found).items()} == {
        "linear": "accuracy",
        "nonlinear": "accuracy",
        "baseline": "accuracy",
        "linear_mse": None,
        "nonlinear_mse": None,
    }
    assert value(found.linear) > 0.95
    assert value(found.nonlinear) > 0.95
    assert value(found.baseline) == pytest.approx(0.5, abs=0.1)


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

    found = evaluate(part(2000), part(500), part(2000), "continuous", 0, bootstrap=50).leakage[
        "condition"
    ]
    assert value(found.linear) == pytest.approx(0.5, abs=0.03)
    assert value(found.linear_mse) == pytest.approx(1 / 3, rel=0.2), "mean over the three columns"


def test_same_seed_same_answer_and_tensors_are_taken() -> None:
    train, validation, test = splits()
    first = evaluate(train, validation, test, "continuous", 5, bootstrap=20)
    as_tensors = [
        Samples(
            torch.tensor(s.features).requires_grad_(), torch.tensor(s.y), torch.tensor(s.condition)
        )
        for s in (train, validation, test)
    ]
    assert evaluate(*as_tensors, "continuous", 5, bootstrap=20) == first
    assert Samples(
        torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(2), torch.ones(2)
    ).condition.shape == (2, 1)


def test_validation_is_carved_from_train_where_there_is_none() -> None:
    train, _, test = splits()
    found = evaluate(train, NOTHING, test, "continuous", 0, bootstrap=20)
    assert found.how["validation_from"] == "the training split"
    assert found.how["train"] + found.how["validation"] == 500
    assert value(found.accuracy.linear) > 0.97


@pytest.mark.parametrize("constant", [0, 2])
def test_a_constant_condition_shows_no_leak(constant: int) -> None:
    parts = list(splits())
    parts[constant] = Samples(
        parts[constant].features, parts[constant].y, np.full((len(parts[constant]), 3), 0.1)
    )
    found = evaluate(*parts, "continuous", 0, bootstrap=20)
    assert found.leakage == {"condition": TwoProbes()}
    assert value(found.accuracy.linear) > 0.97


def test_collapsed_features_and_unseen_classes_are_measured_not_refused() -> None:
    train, validation, test = splits()
    flat = [
        Samples(np.full_like(s.features, 0.3), np.where(s is train, s.y % 2, s.y), s.condition)
        for s in (train, validation, test)
    ]
    found = evaluate(*flat, "continuous", 0, bootstrap=20)
    assert value(found.accuracy.linear) < 0.5
    assert abs(value(found.leakage["condition"].linear)) < 0.05
    unseen = [
        Samples(s.features, np.zeros(len(s)), s.y % (2 if s is train else 3))
        for s in (train, validation, test)
    ]
    found = evaluate(*unseen, "categorical", 0, bootstrap=20)
    assert value(found.accuracy.linear) == 1.0
    assert value(found.leakage["condition"].linear) < 0.9


def test_bad_input_gets_one_clear_message() -> None:
    train, validation, test = splits()
    broken = Samples(test.features.copy(), test.y, test.condition)
    broken.features[3, 7] = np.nan
    with pytest.raises(
        ValueError,
        match=(r"of the test split contain NaN or infinity in 1 of 24 columns \(the first is 7\)"),
    ):
        evaluate(train, validation, broken, "continuous")
    broken = Samples(test.features, test.y, test.condition.copy())
    broken.condition[5, 1:] = np.inf
    with pytest.raises(
        ValueError,
        match=r"condition of the validation split contain .* in 2 of 3 columns \(the first is 1\)",
    ):
        evaluate(train, broken, test, "continuous")
    with pytest.raises(ValueError, match="of the training split contain"):
        evaluate(broken, validation, test, "continuous")
    with pytest.raises(ValueError, match="test split is empty"):
        evaluate(train, validation, NOTHING, "continuous")
    with pytest.raises(ValueError, match="kind must be"):
        evaluate(train, validation, test, "color")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one column of integers, got 3"):
        evaluate(train, validation, test, "categorical")
    with pytest.raises(ValueError, match="4 rows, y 3 and condition 4"):
        Samples(np.zeros((4, 2)), np.zeros(3), np.zeros((4, 1)))
    for shapes in ([(4,), (4,), (4, 1)], [(4, 2), (4, 1), (4, 1)], [(4, 2), (4,), (4, 1, 1)]):
        with pytest.raises(
            ValueError, match=re.escape(f"got {shapes[0]}, {shapes[1]} and {shapes[2]}")
        ):
            Samples(*map(np.zeros, shapes))
    with pytest.raises(ValueError, match="has 1 samples"):
        evaluate(train.subset(np.array([0])), NOTHING, test, "continuous")


def test_every_column_of_a_mixed_condition_has_its_own_leak() -> None:
    train, validation, test = splits()
    category = [Samples(s.features, s.y, s.y) for s in (train, validation, test)]
    both = [
        Samples(s.features, s.y, np.column_stack([s.condition, s.y]))
        for s in (train, validation, test)
    ]
    width = train.condition.shape[1]
    parts = [
        ("number. of", "continuous", slice(0, width)),
        ("kind", "categorical", slice(width, width + 1)),
    ]
    found = evaluate(*both, "mixed", 0, bootstrap=20, parts=parts)  # type: ignore[arg-type]
    assert found.leakage == {
        "number. of": (
            evaluate(train, validation, test, "continuous", 0, bootstrap=20).leakage["condition"]
        ),
        "kind": evaluate(*category, "categorical", 0, bootstrap=20).leakage["condition"],
    }
    named = evaluate(train, validation, test, "continuous", bootstrap=5, condition="color")
    assert list(named.leakage) == ["color"]
    with pytest.raises(ValueError, match="with its parts"):
        evaluate(*both, "mixed")
    with pytest.raises(ValueError, match="and 2 parts"):
        evaluate(*both, "continuous", parts=parts)  # type: ignore[arg-type]
    assert evaluate(train, validation, test, "continuous", bootstrap=5, leakage=False).leakage == {}
