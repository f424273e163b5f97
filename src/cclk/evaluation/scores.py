"""The result of an evaluation: accuracy on the label and leakage of the condition, with 95 %
intervals; and its file, `evaluation.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import JsonValue, TypeAdapter

from cclk.files import check_json, replace_text

FILE = "evaluation.json"
PROBES: dict[Literal["linear", "nonlinear"], str] = {"linear": "linear", "nonlinear": "non-linear"}
Unit = Literal["accuracy", "r2", "mse"]
Detail = str | int | float | list[float]
_NAMES: dict[Unit, str] = {"accuracy": "accuracy", "r2": "R²", "mse": "MSE"}


@dataclass(frozen=True)
class Estimate:
    """A score on the test split with its 95 % bootstrap interval. Printed, it is the value:
    `92.8 %`, `0.37`, `5,430`.
    """

    value: float
    low: float
    high: float
    unit: Unit = "accuracy"

    def __str__(self) -> str:
        match self.unit:
            case "accuracy":
                return f"{100 * self.value:.1f} %"
            case "r2":
                return _two_digits(self.value)
            case "mse":
                return three_figures(self.value)

    @property
    def name(self) -> str:
        """ "accuracy", "R²" or "MSE"."""
        return _NAMES[self.unit]

    @property
    def titled(self) -> str:
        """With the name, except for accuracies, whose % is enough: `R² 0.37`."""
        return str(self) if self.unit == "accuracy" else f"{self.name} {self}"

    def interval(self, separator: str = " to ") -> str:
        """The bounds without their unit."""
        low, high = (
            f"{100 * bound:.1f}" if self.unit == "accuracy" else _two_digits(bound)
            for bound in (self.low, self.high)
        )
        return f"{low}{separator}{high}"

    @property
    def between(self) -> str:
        """The bounds in a sentence: `91.3 to 94.3 %`."""
        return self.interval() + (" %" if self.unit == "accuracy" else "")

    def to_json(self) -> dict[str, JsonValue]:
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Accuracy:
    """How well the label is predicted; None where nothing is labeled."""

    linear: Estimate | None = None
    knn: Estimate | None = None


@dataclass(frozen=True)
class Leakage:
    """How well one column of the condition is predicted; all None if the column is constant in
    the training or the test split.
    """

    linear: Estimate | None = None
    """R² of a number, accuracy of a category."""
    nonlinear: Estimate | None = None
    linear_mse: Estimate | None = None
    """In the units of the column; None for a category."""
    nonlinear_mse: Estimate | None = None
    baseline: Estimate | None = None
    """Without any features: the MSE of predicting the training mean, or the accuracy of
    predicting the most common category.
    """

    @property
    def worst(self) -> Estimate | None:
        """The larger of both probes."""
        return max(
            (found for found in (self.linear, self.nonlinear) if found),
            key=lambda found: found.value,
            default=None,
        )

    @property
    def guess(self) -> Estimate | None:
        """The accuracy of predicting the most common category; None for a number."""
        return self.baseline if self.baseline and self.baseline.unit == "accuracy" else None

    def to_json(self) -> dict[str, JsonValue]:
        tree: dict[str, JsonValue] = {}
        for name, estimates in (
            ("linear", (self.linear, self.linear_mse)),
            ("nonlinear", (self.nonlinear, self.nonlinear_mse)),
        ):
            if found := [estimate for estimate in estimates if estimate]:
                tree[name] = {estimate.unit: estimate.to_json() for estimate in found}
        return tree | (
            {f"baseline_{self.baseline.unit}": self.baseline.to_json()} if self.baseline else {}
        )


@dataclass(frozen=True)
class FeatureScores:
    """What one representation, the encoder's features or their projections, tells of the label
    and leaks of the condition.
    """

    accuracy: Accuracy = Accuracy()
    leakage: Mapping[str, Leakage] = field(default_factory=dict)
    """The name of each column of the condition to its leakage; empty if there is no condition."""
    how: Mapping[str, Detail] = field(default_factory=dict)
    """Sizes of the splits, seed, resamples, and the strengths chosen on the validation split."""

    @property
    def rows(self) -> list[tuple[str, Leakage]]:
        """The leakages as rows of a table, at least one."""
        return list(self.leakage.items()) or [("", Leakage())]

    def to_json(self) -> dict[str, JsonValue]:
        """The leakage of a single column stands under "leakage" without its name, that of
        several under "leakages".
        """
        accuracy = (("linear", self.accuracy.linear), ("knn", self.accuracy.knn))
        tree: dict[str, JsonValue] = {
            "accuracy": {name: found.to_json() for name, found in accuracy if found}
        }
        leakages: dict[str, JsonValue] = {
            name: found.to_json() for name, found in self.leakage.items()
        }
        if len(leakages) == 1:
            tree["leakage"] = next(iter(leakages.values()))
        elif leakages:
            tree |= {"leakage": {}, "leakages": leakages}
        return tree | {
            "how": {
                name: list[JsonValue](detail) if isinstance(detail, list) else detail
                for name, detail in self.how.items()
            }
        }


@dataclass(frozen=True)
class Evaluation:
    """The scores of a run. Printed, it is a small table."""

    encoder: FeatureScores
    projection: FeatureScores | None = None
    version: str = ""
    """Of cclk."""

    @property
    def features(self) -> dict[str, FeatureScores]:
        """The representations that were evaluated, by name."""
        return {"encoder": self.encoder} | (
            {"projection": self.projection} if self.projection else {}
        )

    @property
    def accuracy(self) -> Accuracy:
        """Of the encoder."""
        return self.encoder.accuracy

    @property
    def leakage(self) -> Mapping[str, Leakage]:
        """Of the encoder."""
        return self.encoder.leakage

    def __str__(self) -> str:
        rows = [["features", "linear", "kNN", "leakage of", "linear", "non-linear"]]
        for name, scores in self.features.items():
            for line, (column, leakage) in enumerate(scores.rows):
                shown = [leakage.linear, leakage.nonlinear]
                start = (
                    ["", "", ""]
                    if line
                    else [
                        name,
                        *(
                            str(found or "-")
                            for found in (scores.accuracy.linear, scores.accuracy.knn)
                        ),
                    ]
                )
                rows.append(
                    [*start, column or "-", *(found.titled if found else "-" for found in shown)]
                )
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def to_json(self) -> dict[str, JsonValue]:
        tree: dict[str, JsonValue] = {
            name: scores.to_json() for name, scores in self.features.items()
        }
        return tree | ({"version": self.version} if self.version else {})

    @classmethod
    def from_json(cls, tree: object, condition: str = "condition") -> Evaluation:
        """From the content of an `evaluation.json`.

        Args:
            condition: the name of a single condition column, which the file does not hold; "" if
                there is no condition.

        Raises:
            ValueError: naming the field that is missing or of another type.
        """
        file = check_json(_FORMAT, tree)
        return cls(
            file.encoder.scores(condition),
            file.projection.scores(condition) if file.projection else None,
            file.version,
        )


@dataclass(frozen=True)
class _LeakageFile:
    """A leakage as it is in the file, where units are keys."""

    linear: dict[Unit, Estimate] = field(default_factory=dict)
    nonlinear: dict[Unit, Estimate] = field(default_factory=dict)
    baseline_mse: Estimate | None = None
    baseline_accuracy: Estimate | None = None

    def leakage(self) -> Leakage:
        def first(found: Mapping[Unit, Estimate | None], *units: Unit) -> Estimate | None:
            return next(
                (replace(estimate, unit=unit) for unit in units if (estimate := found.get(unit))),
                None,
            )

        baseline: dict[Unit, Estimate | None] = {
            "mse": self.baseline_mse,
            "accuracy": self.baseline_accuracy,
        }
        return Leakage(
            first(self.linear, "r2", "accuracy"),
            first(self.nonlinear, "r2", "accuracy"),
            first(self.linear, "mse"),
            first(self.nonlinear, "mse"),
            first(baseline, "mse", "accuracy"),
        )


@dataclass(frozen=True)
class _ScoresFile:
    accuracy: Accuracy
    leakage: _LeakageFile | None = None
    leakages: dict[str, _LeakageFile] = field(default_factory=dict)
    how: dict[str, Detail] = field(default_factory=dict)

    def scores(self, condition: str) -> FeatureScores:
        leakages = self.leakages or (
            {condition: self.leakage} if condition and self.leakage else {}
        )
        return FeatureScores(
            self.accuracy, {name: found.leakage() for name, found in leakages.items()}, self.how
        )


@dataclass(frozen=True)
class _EvaluationFile:
    encoder: _ScoresFile
    projection: _ScoresFile | None = None
    version: str = ""


_FORMAT = TypeAdapter(_EvaluationFile)


def write_evaluation(run: Path, evaluation: Evaluation) -> Path:
    """Write `evaluation.json` into a run folder, atomically."""
    path = run / FILE
    replace_text(path, json.dumps(evaluation.to_json(), indent=2, allow_nan=False) + "\n")
    return path


def read_evaluation(run: Path, condition: str = "condition") -> Evaluation | None:
    """The evaluation of a run folder; None if it has not been evaluated yet. `condition` is as
    in `Evaluation.from_json`.
    """
    path = run / FILE
    if not path.exists():
        return None
    try:
        return Evaluation.from_json(json.loads(path.read_text(encoding="utf-8")), condition)
    except ValueError as error:
        raise ValueError(
            f"{path} is not a valid evaluation ({error}): delete it and evaluate the run again"
        ) from None


def three_figures(value: float) -> str:
    """A number in its own units.

    >>> three_figures(5430.2), three_figures(48.83), three_figures(0.01234)
    ('5,430', '48.8', '0.0123')
    """
    return "0" if value == 0 else f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _two_digits(value: float) -> str:
    """Never "-0.00"."""
    return f"{round(value, 2) + 0.0:.2f}"
