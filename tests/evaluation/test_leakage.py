"""The leakage card: planted leaks, kinds of columns, splits, printing and files."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest
import torch

import cclk
from cclk.errors import CclkError, DataError
from cclk.evaluation import (
    ColumnLeakage,
    Estimate,
    Evaluation,
    FeatureScores,
    Leakage,
    card,
)
from cclk.evaluation.panel import WIDEST, Splits, predict_by_panel
from cclk.evaluation.run_evaluation import _prediction

Floats = npt.NDArray[np.float64]
PROBES = {
    "linear", "squares", "bins", "neighbors", "directions", "boosting", "components", "combined",
}  # fmt: skip


@pytest.fixture(scope="module")
def features() -> Floats:
    return np.random.default_rng(0).normal(size=(600, 6))


@pytest.fixture(scope="module")
def measured(features: Floats) -> Leakage:
    random = np.random.default_rng(1)
    site = np.where(features[:, 2] + 0.3 * random.normal(size=600) > 0.8, "Oslo", "Bonn")
    return cclk.leakage(features, {"dose": features[:, 0] * features[:, 1], "site": site})


def test_groups_are_in_one_split(features: Floats) -> None:
    """Features that name a person reveal everything of known persons, and nothing of others."""
    random = np.random.default_rng(2)
    person = np.arange(600) // 6
    of_person = random.normal(size=(100, 6))[person]
    age = random.normal(size=100)[person]
    assert worst(cclk.leakage(of_person, age)) > 0.9
    assert worst(cclk.leakage(of_person, age, groups=person)) < 0.2
    parts = np.array(["train", "train", "test"])[person % 3]
    given = cclk.leakage(of_person, age, parts, groups=person.astype(str))
    assert worst(given) < 0.2
    assert given.sizes["validation"] % 6 == 0, "held out by persons"
    with pytest.raises(DataError, match="groups: '2' is in the splits 'train' and 'test'"):
        cclk.leakage(of_person, age, np.roll(parts, 1), groups=person)
    with pytest.raises(DataError, match=r"groups has the shape \(3,\): pass one for each of 600"):
        cclk.leakage(of_person, age, groups=person[:3])


def worst(measured: Leakage) -> float:
    assert measured.worst is not None
    return measured.worst.value


@pytest.mark.parametrize(("some", "share"), [(True, 98), (False, 100)])
def test_categories_that_training_lacks_are_not_an_all_clear(
    features: Floats, some: bool, share: int
) -> None:
    """Each person has its own value of the features, but test persons are not in training."""
    person = np.arange(600) // 6
    parts = np.array(["train", "train", "test"])[person % 3]
    parts[:4] = "test" if some else "train"
    names = np.array([f"person {each}" for each in person])
    found = cclk.leakage(features + person[:, None], names, parts)
    assert found["condition"].unseen == pytest.approx(198 / 202 if some else 1)
    assert (found["condition"].worst is not None) == some
    assert f"not in training {share} % of the test split" in " ".join(str(found).split())
    assert Leakage.from_json(found.to_json()) == found
    verdict = f"cannot tell: {share} % of the test samples have categories that the training"
    scores = FeatureScores(leakage=found)
    evaluation = Evaluation(scores, baselines={"untrained": scores, "inputs": scores})
    assert evaluation.verdict("condition").startswith(verdict)
    assert verdict in evaluation.sentences()[0]
    inputs = {"untrained": found["condition"], "inputs": found["condition"]}
    assert _prediction(inputs).startswith(verdict)


@pytest.mark.parametrize(
    ("value", "width", "verdict"),
    [
        (0.03, 0.01, "probes read R^2 0.03 from the inputs: nothing to remove"),
        (0.03, 0.2, "probes read R^2 0.03 from the inputs: too few rows to tell"),
        (0.5, 0.1, "probes read R^2 0.50 from the inputs and 0.50 from the untrained encoder"),
    ],
)
def test_the_prediction_before_training(value: float, width: float, verdict: str) -> None:
    column = ColumnLeakage({"linear": Estimate(value, value - width, value + width, "r2")})
    assert _prediction({"inputs": column, "untrained": column}) == verdict


def test_worst_probe_reads_a_product_that_ridge_cannot(measured: Leakage) -> None:
    dose = measured["dose"]
    assert set(dose.by_probe) == PROBES
    assert dose.by_probe["linear"].value < 0.1
    assert dose.worst is not None
    assert dose.worst.value > 0.9
    assert dose.worst is dose.by_probe[dose.worst_probe]
    assert dose.worst.value == max(each.value for each in dose.by_probe.values())
    assert dose.worst.low <= dose.worst.value <= dose.worst.high
    assert dose.worst.unit == "r2"
    assert dose.majority is None
    assert not dose.accuracy


def test_category_has_a_brier_skill_and_an_accuracy(measured: Leakage) -> None:
    site = measured["site"]
    assert site.majority is not None
    assert site.worst is not None
    assert site.worst.unit == "r2"
    assert 0.4 < site.worst.value < 1
    assert site.accuracy[site.worst_probe].value > site.majority.value + 0.05


def test_largest_over_columns(measured: Leakage) -> None:
    assert list(measured) == ["dose", "site"]
    assert measured.worst == max(
        (measured[name].worst for name in measured), key=lambda each: each.value
    )  # type: ignore[union-attr, type-var]
    with pytest.raises(DataError, match=r"no column 'age'.*'dose', 'site'"):
        measured["age"]


def test_json_round_trip(measured: Leakage) -> None:
    text = json.dumps(measured.to_json(), allow_nan=False)
    assert Leakage.from_json(json.loads(text)) == measured
    tree = measured.to_json()
    tree["sizes"] = {"train": "many"}
    with pytest.raises(CclkError, match="sizes"):
        Leakage.from_json(tree)


def test_card_marks_the_worst_of_each_column_side_by_side() -> None:
    def one(linear: float, network: float) -> Leakage:
        probes = {
            name: Estimate(value, value - 0.1, value + 0.1, "r2")
            for name, value in (("linear", linear), ("network", network))
        }
        return Leakage({"age": ColumnLeakage(probes)}, {"test": 10})

    lines = card({"encoder": one(0.1, 0.3), "inputs": one(0.6, 0.5)}).splitlines()
    assert lines[0].split() == ["leakage", "of", "age,", "R²", "encoder", "inputs"]
    assert lines[1].split("  ", 1)[1].strip() == "0.10 [0.00, 0.20]  * 0.60 [0.50, 0.70]"
    assert "* 0.30 [0.20, 0.40]" in lines[2]
    assert str(one(0.1, 0.3)).splitlines()[1].startswith("linear")


def test_no_leakage_under_independence(features: Floats) -> None:
    noise = np.random.default_rng(5).normal(size=len(features))
    measured = cclk.leakage(features, noise)["condition"]
    assert measured.worst is not None
    assert measured.worst.value < 0.05


def test_equal_calls_are_equal_and_tensors_are_accepted(features: Floats) -> None:
    x, z = torch.from_numpy(features[:120]), torch.from_numpy(features[:120, 0])
    assert cclk.leakage(x, z) == cclk.leakage(features[:120], features[:120, 0])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_may_be_off_where_it_is_called(features: Floats, mode: type) -> None:
    small = torch.from_numpy(features[:200]).float()
    expected = cclk.leakage(small, small[:, 0] ** 2)
    with mode():
        assert cclk.leakage(small + 0, small[:, 0] ** 2) == expected


def test_split_by_name(features: Floats) -> None:
    split = np.repeat(["train", "validation", "test"], (80, 20, 20))
    assert cclk.leakage(features[:120], features[:120, 0], split).sizes == {
        "train": 80,
        "validation": 20,
        "test": 20,
    }
    with pytest.raises(DataError, match="contains 'held'"):
        cclk.leakage(features[:120], features[:120, 0], ["held"] * 120)
    without = cclk.leakage(features[:120], features[:120, 0], ["train"] * 60 + ["test"] * 60)
    assert without.sizes == {"train": 51, "validation": 9, "test": 60}
    with pytest.raises(DataError, match="the test split has 0 of 120"):
        cclk.leakage(features[:120], features[:120, 0], ["train"] * 60 + ["validation"] * 60)
    with pytest.raises(DataError, match="one name for each of 120"):
        cclk.leakage(features[:120], features[:120, 0], ["train"])


def test_constant_column_has_an_empty_leakage(features: Floats) -> None:
    measured = cclk.leakage(features, {"site": ["Oslo"] * len(features)})
    assert measured["site"] == ColumnLeakage()
    assert measured.worst is None
    assert "constant" in str(measured)


def test_features_with_nan_are_refused(features: Floats) -> None:
    bad = features.copy()
    bad[3, 1] = np.nan
    with pytest.raises(DataError, match="NaN or infinity"):
        cclk.leakage(bad, features[:, 0])


def test_constant_and_duplicate_features() -> None:
    random = np.random.default_rng(0)
    x = np.zeros((100, 3))
    x[:, 1] = x[:, 2] = random.normal(size=100)
    worst = cclk.leakage(x, x[:, 1])["condition"].worst
    assert worst is not None
    assert worst.value > 0.9
    worst = cclk.leakage(np.ones((100, 2)), x[:, 1])["condition"].worst
    assert worst is not None
    assert worst.value < 0.05


def test_value_that_only_the_test_split_has(features: Floats) -> None:
    site = np.array([0, 1] * 50 + [2, 0] * 10)
    split = np.repeat(["train", "validation", "test"], (80, 20, 20))
    measured = cclk.leakage(features[:120], site, split)["condition"]
    assert measured.majority is not None
    assert measured.majority.value == pytest.approx(0.5)


def test_wide_features_are_reduced() -> None:
    random = np.random.default_rng(0)
    low = random.normal(size=(90, 2)).astype(np.float32)
    x = low @ random.normal(size=(2, WIDEST + 10)).astype(np.float32)
    target = low[:, :1].astype(np.float64)
    predictions = predict_by_panel(
        Splits(x[:60], x[60:75], x[75:]), Splits(target[:60], target[60:75], target[75:]), 0
    )
    assert np.corrcoef(predictions["linear"][:, 0], target[75:, 0])[0, 1] > 0.99
