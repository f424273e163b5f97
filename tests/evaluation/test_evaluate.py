"""A whole evaluation: its keys, its values on features whose content is known, and its edges."""

from __future__ import annotations

import re
from dataclasses import astuple

import numpy as np
import pytest
import torch

import cclk
from cclk.columns import Column
from cclk.evaluation import ColumnLeakage, Estimate, Samples, evaluate
from cclk.evaluation.intervals import bootstrap, share_correct
from cclk.evaluation.probes import FeatureScaler, fit_classifier, predict_neighbors
from cclk.evaluation.samples import carve


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


def test_numbers_are_those_of_the_probes() -> None:
    train, validation, test = splits(leak=0.2)
    found = evaluate(train, validation, test, seed=4, bootstrap=30)
    scale = FeatureScaler.fit(train.features)
    x, held, query = (scale(part.features) for part in (train, validation, test))
    label = fit_classifier(x, train.y, 4, held, validation.y)
    near = predict_neighbors(train.features, train.y, test.features)
    accuracies = {
        "linear": share_correct(label(query).argmax(axis=1), test.y),
        "knn": share_correct(near, test.y),
    }
    assert {name: astuple(one) for name, one in vars(found.accuracy).items()} == {
        name: astuple(one) for name, one in bootstrap(accuracies, 30, 4).items()
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
