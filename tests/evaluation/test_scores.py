"""An evaluation as an object, as text, and on disk: what is written has the keys that it always
had.
"""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from made_up_scores import category, estimate, number, scores

from cclk.errors import RunError
from cclk.evaluation import Evaluation, FeatureScores, TwoProbes, read_evaluation, write_evaluation
from cclk.evaluation.scores import three_figures

ROOT = Path(__file__).parents[2]


def interval(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01}


NUMBER = {
    "linear": {"r2": interval(0.3), "mse": interval(7.0)},
    "nonlinear": {"r2": interval(0.4), "mse": interval(6.0)},
    "baseline_mse": interval(10.0),
}
CATEGORY = {
    "linear": {"accuracy": interval(0.6)},
    "nonlinear": {"accuracy": interval(0.5)},
    "baseline_accuracy": interval(0.1),
}
ACCURACY = {"linear": interval(0.9), "knn": interval(0.8)}
HOW = {
    "train": 500,
    "validation_from": "its own split",
    "condition_alpha": [0.1, 1.0],
    "accuracy_c": 0.1,
}
TREES: dict[str, dict[str, Any]] = {
    "a number": {"accuracy": ACCURACY, "leakage": NUMBER, "how": HOW},
    "a category": {"accuracy": ACCURACY, "leakage": CATEGORY, "how": HOW},
    "constant": {"accuracy": ACCURACY, "leakage": {}, "how": HOW},
    "several": {
        "accuracy": ACCURACY,
        "leakage": {},
        "leakages": {"age": NUMBER, "site": CATEGORY, "year": {}},
        "how": HOW,
    },
    "no label": {"accuracy": {}, "leakage": NUMBER, "how": HOW},
    "no condition": {"accuracy": ACCURACY, "how": HOW},
}


@pytest.mark.parametrize("kind", TREES)
def test_files_of_every_kind_are_read_and_written_as_they_were(kind: str) -> None:
    tree = {"encoder": TREES[kind], "projection": TREES[kind], "version": "0.1.0"}
    assert Evaluation.from_json(tree).to_json() == tree


def committed() -> list[Any]:
    demo = json.loads((ROOT / "results" / "demo-digits.json").read_text())["evaluations"]
    rotated = json.loads((ROOT / "results" / "example-rotated-fashion.json").read_text())["methods"]
    return [one for made in demo.values() for one in made] + [
        one for told in rotated.values() for one in told["evaluations"]
    ]


def test_committed_evaluations_are_read_to_the_last_digit() -> None:
    found = committed()
    assert len(found) > 9
    for tree in found:
        assert Evaluation.from_json(tree).to_json() == tree


def test_scores_are_attributes() -> None:
    found = Evaluation.from_json({"encoder": TREES["several"]})
    assert found.projection is None
    assert found.accuracy.linear == estimate(0.9)
    assert found.accuracy.knn == estimate(0.8)
    age, site, year = (found.encoder.leakage[name] for name in ("age", "site", "year"))
    assert (age.linear, age.nonlinear) == (estimate(0.3, unit="r2"), estimate(0.4, unit="r2"))
    assert (age.linear_mse, age.nonlinear_mse) == (
        estimate(7.0, unit="mse"),
        estimate(6.0, unit="mse"),
    )
    assert (age.baseline, age.guess) == (estimate(10.0, unit="mse"), None)
    assert age.worst == age.nonlinear
    assert site.worst == site.linear == estimate(0.6)
    assert site.baseline == site.guess == estimate(0.1)
    assert year == TwoProbes()
    assert year.worst is None
    assert found.leakage is found.encoder.leakage
    with pytest.raises(FrozenInstanceError):
        found.version = "2"  # type: ignore[misc]


def test_a_single_condition_is_named_by_whoever_reads_it() -> None:
    tree = {"encoder": TREES["a number"]}
    assert list(Evaluation.from_json(tree).leakage) == ["condition"]
    assert list(Evaluation.from_json(tree, "age").leakage) == ["age"]
    assert list(Evaluation.from_json({"encoder": TREES["several"]}, "age").leakage) == [
        "age",
        "site",
        "year",
    ]
    assert Evaluation.from_json({"encoder": TREES["constant"]}, "").leakage == {}, (
        "written where there was no condition"
    )


def test_printed_it_is_a_table() -> None:
    found = Evaluation(
        scores(0.928, 0.9, color=number(0.99, 0.999), site=category(0.6, 0.7)), FeatureScores()
    )
    assert str(found).splitlines() == [
        "features    linear  kNN     leakage of  linear   nonlinear",
        "encoder     92.8 %  90.0 %  color       R² 0.99  R² 1.00",
        "                            site        60.0 %   70.0 %",
        "projection  -       -       -           -        -",
    ]


def test_estimates_in_words() -> None:
    assert [
        str(estimate(0.928)),
        str(estimate(-0.001, unit="r2")),
        str(estimate(5430.2, unit="mse")),
    ] == ["92.8 %", "0.00", "5,430"]
    assert [
        estimate(0.928).titled,
        estimate(0.37, unit="r2").titled,
        estimate(48.83, unit="mse").titled,
    ] == ["92.8 %", "R² 0.37", "MSE 48.8"]
    assert (estimate(0.928).between, estimate(0.37, unit="r2").between) == (
        "91.8 to 93.8 %",
        "0.36 to 0.38",
    )
    assert [three_figures(value) for value in (0, 0.00123456, -1.5, 999.6)] == [
        "0",
        "0.00123",
        "-1.50",
        "1,000",
    ]


def test_evaluation_goes_to_disk_whole_or_not_at_all(tmp_path: Path) -> None:
    assert read_evaluation(tmp_path) is None
    evaluation = Evaluation(scores(0.9, age=number(0.8, 0.7)), version="0.1.0")
    assert write_evaluation(tmp_path, evaluation) == tmp_path / "evaluation.json"
    assert read_evaluation(tmp_path, "age") == evaluation
    with pytest.raises(ValueError, match="Out of range"):
        write_evaluation(tmp_path, Evaluation(scores(float("nan"))))
    assert read_evaluation(tmp_path, "age") == evaluation
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation.json"], "no leftovers"
    path = tmp_path / "evaluation.json"
    path.write_text(path.read_text().replace("0.9", "0.8", 1))
    with pytest.raises(RunError, match=r"its content does not match its digest\): delete it and"):
        read_evaluation(tmp_path, "age")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "Expecting"),
        ("\xff", "not UTF-8"),
        ("[]", "object"),
        ("{}", r"encoder: field required"),
        ('{"encoder": {}}', r"encoder\.accuracy: field required"),
        (
            '{"encoder": {"accuracy": {"linear": {"value": 0.5, "low": 0.4}}}}',
            r"encoder\.accuracy\.linear\.high: field required",
        ),
        (
            '{"encoder": {"accuracy": {"linear": {"value": "0.5", "low": 0.4, "high": 1}}}}',
            r"encoder\.accuracy\.linear\.value: .*number",
        ),
        (
            '{"encoder": {"accuracy": {}, "leakage": {"linear": {"r3": {}}}}}',
            r"encoder\.leakage\.linear\.r3",
        ),
    ],
)
def test_damaged_evaluation_names_file_and_field(tmp_path: Path, text: str, field: str) -> None:
    (tmp_path / "evaluation.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(
        ValueError,
        match=(
            rf"evaluation\.json is not a valid evaluation \(.*{field}.*\): .*evaluate the run again"
        ),
    ) as raised:
        read_evaluation(tmp_path)
    assert "\n" not in str(raised.value)
