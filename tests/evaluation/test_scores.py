"""An evaluation as an object, as text, and on disk: what is written has the keys that it always
had.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from made_up_scores import category, estimate, number, panel, scores

from cclk.errors import RunError
from cclk.evaluation import (
    ColumnLeakage,
    Evaluation,
    FeatureScores,
    Leakage,
    read_evaluation,
    score_table,
    write_evaluation,
)

ROOT = Path(__file__).parents[2]


HOW = {
    "train": 500,
    "validation_from": "its own split",
    "condition_alpha": [0.1, 1.0],
    "accuracy_c": 0.1,
}


def same(evaluation: Evaluation) -> Evaluation:
    """Written and read again."""
    return Evaluation.from_json(json.loads(json.dumps(evaluation.to_json())))


def test_what_is_written_has_these_keys() -> None:
    leakage = Leakage({"site": panel(0.1, 0.3)}, {"train": 6, "validation": 2, "test": 3}, 7)
    found = Evaluation(
        FeatureScores(scores(0.9).accuracy, leakage, HOW),
        None,
        "0.2",
        {"untrained": FeatureScores(leakage=leakage)},
    )
    tree = found.to_json()
    assert set(tree) == {"encoder", "baselines", "version"}
    assert tree["encoder"] == {
        "accuracy": {name: {"value": 0.9, "low": 0.89, "high": 0.91} for name in ("linear", "knn")},
        "leakage": leakage.to_json(),
        "how": HOW,
    }
    first = {"value": 0.1, "low": pytest.approx(0.09), "high": 0.11, "unit": "r2"}
    assert tree["encoder"]["leakage"]["columns"]["site"]["by_probe"]["linear"] == first  # type: ignore[index, call-overload]
    assert same(found) == found
    assert found.leakages == {"encoder": leakage, "untrained": leakage}


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
    leakage = {"age": number(0.3, 0.4), "site": category(0.3, 0.2), "year": ColumnLeakage()}
    found = Evaluation(scores(0.9, 0.8, **leakage))
    assert found.accuracy.linear == estimate(0.9)
    assert found.accuracy.knn == estimate(0.8)
    age, site, year = (found.encoder.leakage[name] for name in leakage)
    assert (age.linear, age.worst_probe, age.majority) == (age.by_probe["linear"], "network", None)
    assert age.worst == age.by_probe["network"]
    assert site.worst == site.linear
    assert site.accuracy["linear"] == estimate(0.6)
    assert site.majority == estimate(0.1)
    assert year.worst is None
    assert found.leakage is found.encoder.leakage
    with pytest.raises(FrozenInstanceError):
        found.version = "2"  # type: ignore[misc]


def test_printed_it_is_a_table() -> None:
    found = Evaluation(
        scores(0.928, 0.9, color=number(0.99, 0.999), site=category(0.3, 0.4)), FeatureScores()
    )
    assert str(found).splitlines() == [
        "features    label      kNN        leakage of  linear     worst      probe",
        "encoder     92.8 %     90.0 %     color       R² 0.99    R² 1.00    network",
        "            91.8…93.8  89.0…91.0              0.98…1.00  0.99…1.01",
        "                                  site        R² 0.30    R² 0.40    network",
        " " * 46 + "0.29…0.31  0.39…0.41  70.0 % (majority 10.0 %)",
        "projection  -          -          -           -          -          -",
        "",
        "color: the worst of 2 probes reads R² 1.00",
        "site: the worst of 2 probes reads R² 0.40",
    ]


def test_runs_are_listed_by_name() -> None:
    """Names of a user may contain brackets."""
    first = scores(0.9, **{"age [/y]": number(-0.05, -0.05)})
    lines = score_table(
        {"[b]odd[/b]": Evaluation(first, first), "second": Evaluation(scores(0.5))}, "digit"
    ).splitlines()
    assert lines[0].split() == [
        "features",
        "digit",
        "kNN",
        *["leakage", "of", "linear", "worst", "probe"],
    ]
    assert [line.split()[0] for line in lines[1:]] == [
        *("[b]odd[/b]", "encoder", "projection", "89.0…91.0", "second", "encoder")
    ]
    assert "\n".join(lines).count("-0.06…-0.04") == 4


@pytest.mark.parametrize(
    ("before", "inputs", "after", "verdict"),
    [
        (0.8, 0.7, 0.049, "removed"),
        (0.3, 0.2, 0.04, "removed"),
        (0.8, 0.7, -0.3, "removed"),
        (0.8, 0.7, 0.08, "removed"),
        (0.8, 0.7, 0.21, "mostly removed"),
        (0.8, 0.7, 0.5, "partly removed"),
        (0.8, 0.7, 0.6, "not removed"),
        (0.01, 0.49, 0.14, "mostly removed"),
        (0.02, 0.01, 0.1, "encoded by training"),
        (0.04, 0.02, 0.01, "nothing to remove"),
        (0.02, 0.03, 0.04, "nothing to remove"),
        (0.06, 0.02, 0.05, "not removed"),
    ],
)
def test_a_sentence_tells_whether_training_removed_a_column(
    before: float, inputs: float, after: float, verdict: str
) -> None:
    found = Evaluation(
        scores(0.9, angle=number(-0.5, after), year=ColumnLeakage()),
        baselines={
            "untrained": scores(0.8, angle=number(0, before)),
            "inputs": scores(0.95, angle=number(inputs, -1)),
        },
    )
    (sentence,) = found.sentences()
    assert sentence == (
        f"angle: the worst of 2 probes reads R² {after:.2f} (untrained {before:.2f}, inputs"
        f" {inputs:.2f}):"
        f" {verdict}; a linear probe predicts the label with 90.0 % (untrained 80.0 %, inputs"
        " 95.0 %): 5.0 points lost"
    )
    remains = verdict in ("partly removed", "not removed", "encoded by training")
    assert found.remaining == ["angle"] * remains
    assert str(found).endswith(sentence)


@pytest.mark.parametrize(
    ("before", "after", "width", "verdict"),
    [
        (0.03, 0.02, 0.2, "too few rows to tell"),  # 45 rows
        (0.02, 0.1, 0.2, "too few rows to tell"),
        (0.02, 0.1, 0.07, "too few rows to tell"),
        (0.6, 0.05, 0.3, "too few rows to tell"),
        (0.9, 0.05, 0.3, "removed"),
        (0.6, 0.5, 0.3, "not removed"),
    ],
)
def test_a_verdict_is_not_below_the_noise(
    before: float, after: float, width: float, verdict: str
) -> None:
    baselines = {"inputs": scores(0.9, age=number(0, before, width))}
    assert Evaluation(scores(0.9, age=number(0, after, width)), None, "", baselines).verdict(
        "age"
    ) == (verdict)


@pytest.mark.parametrize(
    ("accuracy", "width", "cost"),
    [
        (0.757, 0.01, "10.0 points lost"),
        (0.658, 0.001, "nothing lost"),
        (0.64, 0.02, "no clear loss or gain"),
        (0.5, 0.01, "15.7 points gained"),
    ],
)
def test_what_removal_cost(accuracy: float, width: float, cost: str) -> None:
    two = {"age": number(0.1, 0.2), "site": number(0.1, 0.2)}
    baselines = {"untrained": scores(0.4), "inputs": scores(accuracy, width=width)}
    found = Evaluation(scores(0.657, width=width, **two), baselines=baselines)
    assert found.sentences("income") == [
        "age: the worst of 2 probes reads R² 0.20",
        "site: the worst of 2 probes reads R² 0.20",
        "a linear probe predicts the income with 65.7 % (untrained 40.0 %, inputs"
        f" {100 * accuracy:.1f} %): {cost}",
    ]
    alone = Evaluation(scores(0.657, width=width), baselines=baselines)
    assert alone.sentences("income") == found.sentences("income")[2:]
    assert Evaluation(scores(0.657, **two)).sentences() == found.sentences()[:2]


def test_scores_are_floats() -> None:
    found = scores(0.9, age=number(0.1, 0.25), year=ColumnLeakage()).leakage
    assert found.worst is not None
    assert float(found) == float(found["age"]) == float(found.worst) == 0.25
    assert f"{found.worst:.3f} {found.worst}" == "0.250 0.25"
    assert math.isnan(float(found["year"]))
    assert math.isnan(float(Leakage()))


def test_estimates_in_words() -> None:
    assert [str(estimate(0.928)), str(estimate(-0.001, unit="r2"))] == ["92.8 %", "0.00"]
    assert [estimate(0.928).titled, estimate(0.37, unit="r2").titled] == ["92.8 %", "R² 0.37"]
    assert (estimate(0.928).between, estimate(0.37, unit="r2").between) == (
        "91.8 to 93.8 %",
        "0.36 to 0.38",
    )


def test_evaluation_goes_to_disk_whole_or_not_at_all(tmp_path: Path) -> None:
    assert read_evaluation(tmp_path) is None
    evaluation = Evaluation(scores(0.9, age=number(0.8, 0.7)), version="0.1.0")
    assert write_evaluation(tmp_path, evaluation) == tmp_path / "evaluation.json"
    assert read_evaluation(tmp_path) == evaluation
    with pytest.raises(ValueError, match="Out of range"):
        write_evaluation(tmp_path, Evaluation(scores(float("nan"))))
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation.json"], "no leftovers"
    path = tmp_path / "evaluation.json"
    path.write_text(path.read_text().replace("0.9", "0.8", 1))
    with pytest.raises(RunError, match=r"its content does not match its digest\): delete it and"):
        read_evaluation(tmp_path)


def _digested(tree: object) -> str:
    text = json.dumps(tree, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({**json.loads(text), "digest": digest})


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "Expecting"),
        ("\xff", "not UTF-8"),
        ("[]", "object"),
        ("{}", "digest"),
        (_digested({}), r"encoder: field required"),
        (
            _digested({"encoder": {"accuracy": {"linear": {"value": 0.5, "low": 0.4}}}}),
            r"encoder\.accuracy\.linear\.high: field required",
        ),
        (
            _digested({"encoder": {"accuracy": {"linear": {"value": "0", "low": 0, "high": 1}}}}),
            r"encoder\.accuracy\.linear\.value: .*number",
        ),
        (
            _digested({"encoder": {"leakage": {"columns": {"age": {"by_probe": 3}}}}}),
            r"encoder\.leakage\.columns\.age\.by_probe",
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
