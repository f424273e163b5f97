"""A whole evaluation: its keys, its values on features whose content is known, and its edges."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
import torch

from cclk.evaluation import Samples, evaluate


def make(n: int, seed: int, *, leak: float = 1.0, classes: int = 4, kind: str = "continuous") -> Samples:
    """Features = label one-hot + leak * condition, mixed by a fixed matrix; colours in 0..255."""
    random = np.random.default_rng(seed)
    y, colour = random.integers(0, classes, n), random.uniform(0, 255, (n, 3))
    parts = np.concatenate([2 * np.eye(classes)[y], leak * (colour - 127) / 74, random.normal(size=(n, 3))], axis=1)
    mixed = parts @ np.random.default_rng(99).normal(size=(parts.shape[1], 24)) + 0.1 * random.normal(size=(n, 24))
    condition = colour if kind == "continuous" else np.floor(colour[:, :1] / 128)
    return Samples(mixed, y, condition)


def splits(**options: object) -> tuple[Samples, Samples, Samples]:
    return make(500, 1, **options), make(150, 2, **options), make(300, 3, **options)  # type: ignore[arg-type]


NOTHING = Samples(np.zeros((0, 24)), np.zeros(0), np.zeros((0, 3)))


def leaves(tree: dict, path: str = "") -> dict[str, dict]:
    if "value" in tree:
        return {path: tree}
    return {key: value for name, part in tree.items() for key, value in leaves(part, f"{path}.{name}" if path else name).items()}


def test_continuous_condition_has_exactly_these_measures_and_survives_json() -> None:
    found = evaluate(*splits(), "continuous", 0, bootstrap=200)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    measures = leaves({"accuracy": found["accuracy"], "leakage": found["leakage"]})
    assert set(measures) == {
        "accuracy.linear",
        "accuracy.knn",
        "leakage.linear.r2",
        "leakage.linear.mse",
        "leakage.nonlinear.r2",
        "leakage.nonlinear.mse",
        "leakage.baseline_mse",
    }
    for measure in measures.values():
        assert set(measure) == {"value", "low", "high"}
        assert measure["low"] <= measure["value"] <= measure["high"]
    assert found["accuracy"]["linear"]["value"] > 0.97
    assert found["accuracy"]["knn"]["value"] > 0.9
    assert found["leakage"]["linear"]["r2"]["value"] > 0.98
    assert found["leakage"]["nonlinear"]["r2"]["value"] > 0.98
    assert found["leakage"]["baseline_mse"]["value"] == pytest.approx(255**2 / 12, rel=0.1), "in the condition's own units"
    assert found["leakage"]["linear"]["mse"]["value"] == pytest.approx(
        (1 - found["leakage"]["linear"]["r2"]["value"]) * 255**2 / 12, rel=0.1
    )
    assert found["how"]["validation_from"] == "its own split"


def test_no_leak_is_no_leak() -> None:
    found = evaluate(*splits(leak=0.0), "continuous", 0, bootstrap=50)["leakage"]
    assert abs(found["linear"]["r2"]["value"]) < 0.06
    assert abs(found["nonlinear"]["r2"]["value"]) < 0.1


def test_a_leak_that_only_the_network_sees() -> None:
    def fold(samples: Samples) -> Samples:
        return Samples(samples.features, samples.y, np.abs(samples.condition - 127.5))

    found = evaluate(*(fold(part) for part in splits()), "continuous", 0, bootstrap=50)["leakage"]
    assert found["linear"]["r2"]["value"] < 0.1
    assert found["nonlinear"]["r2"]["value"] > 0.8


def test_categorical_condition_has_accuracies() -> None:
    found = evaluate(*splits(kind="categorical"), "categorical", 0, bootstrap=50)["leakage"]
    assert set(leaves(found)) == {"linear.accuracy", "nonlinear.accuracy", "baseline_accuracy"}
    assert found["linear"]["accuracy"]["value"] > 0.95
    assert found["nonlinear"]["accuracy"]["value"] > 0.95
    assert found["baseline_accuracy"]["value"] == pytest.approx(0.5, abs=0.1)


def test_r2_pools_columns_in_units_of_their_training_spread() -> None:
    """One column is read perfectly and one not at all: half the variance, whatever their units."""
    random = np.random.default_rng(0)

    def part(n: int) -> Samples:
        x = random.normal(size=(n, 4))
        return Samples(x, x[:, 0] > 0, np.stack([1000 * x[:, 0], random.normal(size=n), np.full(n, 3.3)], axis=1))

    found = evaluate(part(2000), part(500), part(2000), "continuous", 0, bootstrap=50)["leakage"]
    assert found["linear"]["r2"]["value"] == pytest.approx(0.5, abs=0.03)
    assert found["linear"]["mse"]["value"] == pytest.approx(1 / 3, rel=0.2), "mean over the three columns"


def test_same_seed_same_answer_and_tensors_are_taken() -> None:
    train, validation, test = splits()
    first = evaluate(train, validation, test, "continuous", 5, bootstrap=20)
    as_tensors = [
        Samples(torch.tensor(s.features).requires_grad_(), torch.tensor(s.y), torch.tensor(s.condition)) for s in (train, validation, test)
    ]
    assert evaluate(*as_tensors, "continuous", 5, bootstrap=20) == first
    assert Samples(torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(2), torch.ones(2)).condition.shape == (2, 1)


def test_validation_is_carved_from_train_where_there_is_none() -> None:
    train, _, test = splits()
    found = evaluate(train, NOTHING, test, "continuous", 0, bootstrap=20)
    assert found["how"]["validation_from"] == "the training split"
    assert found["how"]["train"] + found["how"]["validation"] == 500
    assert found["accuracy"]["linear"]["value"] > 0.97


def test_large_training_sets_are_thinned_for_the_network_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("cclk.evaluation.evaluate"), "LARGEST_TRAINING_SET", 100)
    assert evaluate(*splits(), "continuous", 0, bootstrap=20)["how"]["nonlinear_train"] == 100


@pytest.mark.parametrize("constant", [0, 2])
def test_a_constant_condition_shows_no_leak(constant: int) -> None:
    parts = list(splits())
    parts[constant] = Samples(parts[constant].features, parts[constant].y, np.full((len(parts[constant]), 3), 0.1))
    found = evaluate(*parts, "continuous", 0, bootstrap=20)
    assert found["leakage"] == {}
    assert found["accuracy"]["linear"]["value"] > 0.97


def test_collapsed_features_and_unseen_classes_are_measured_not_refused() -> None:
    train, validation, test = splits()
    flat = [Samples(np.full_like(s.features, 0.3), np.where(s is train, s.y % 2, s.y), s.condition) for s in (train, validation, test)]
    found = evaluate(*flat, "continuous", 0, bootstrap=20)
    assert found["accuracy"]["linear"]["value"] < 0.5
    assert abs(found["leakage"]["linear"]["r2"]["value"]) < 0.05
    unseen = [Samples(s.features, np.zeros(len(s)), s.y % (2 if s is train else 3)) for s in (train, validation, test)]
    found = evaluate(*unseen, "categorical", 0, bootstrap=20)
    assert found["accuracy"]["linear"]["value"] == 1.0
    assert found["leakage"]["linear"]["accuracy"]["value"] < 0.9


def test_bad_input_gets_one_clear_message() -> None:
    train, validation, test = splits()
    broken = Samples(test.features.copy(), test.y, test.condition)
    broken.features[3, 7] = np.nan
    with pytest.raises(ValueError, match=r"features of the test split hold NaN or infinity in 1 of 24 columns \(the first is 7\)"):
        evaluate(train, validation, broken, "continuous")
    with pytest.raises(ValueError, match="test split is empty"):
        evaluate(train, validation, NOTHING, "continuous")
    with pytest.raises(ValueError, match="kind must be"):
        evaluate(train, validation, test, "colour")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one column of integers, got 3"):
        evaluate(train, validation, test, "categorical")
    with pytest.raises(ValueError, match="4 rows, y 3 and condition 4"):
        Samples(np.zeros((4, 2)), np.zeros(3), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="got \\(4,\\)"):
        Samples(np.zeros(4), np.zeros(4), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="has 1 samples"):
        evaluate(train.subset(np.array([0])), NOTHING, test, "continuous")


def test_every_column_of_a_mixed_condition_has_its_own_leak() -> None:
    train, validation, test = splits()
    category = [Samples(s.features, s.y, s.y) for s in (train, validation, test)]
    both = [Samples(s.features, s.y, np.column_stack([s.condition, s.y])) for s in (train, validation, test)]
    width = train.condition.shape[1]
    parts = [("number. of", "continuous", slice(0, width)), ("kind", "categorical", slice(width, width + 1))]
    found = evaluate(*both, "mixed", 0, bootstrap=20, parts=parts)  # type: ignore[arg-type]
    assert found["leakage"] == {}
    assert found["leakages"]["number. of"] == evaluate(train, validation, test, "continuous", 0, bootstrap=20)["leakage"]
    assert found["leakages"]["kind"] == evaluate(*category, "categorical", 0, bootstrap=20)["leakage"]
    with pytest.raises(ValueError, match="with its parts"):
        evaluate(*both, "mixed")
    assert evaluate(train, validation, test, "continuous", bootstrap=5, leakage=False)["leakage"] == {}
