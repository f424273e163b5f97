"""The result of an evaluation and its file, `evaluation.json`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue, TypeAdapter

from cclk._files import replace_text
from cclk._reading import check_json, read_json, reason
from cclk.errors import RunError

FILE = "evaluation.json"
PROBES: tuple[Literal["linear", "nonlinear"], ...] = ("linear", "nonlinear")
Unit = Literal["accuracy", "r2", "mse"]
Detail = str | int | float | list[float]
_NAMES: dict[Unit, str] = {"accuracy": "accuracy", "r2": "R²", "mse": "MSE"}


@dataclass(frozen=True)
class Estimate:
    """A score on the test split with its 95 % bootstrap interval; prints as `92.8 %`."""

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
        """The name of the unit: "accuracy", "R²" or "MSE"."""
        return _NAMES[self.unit]

    @property
    def titled(self) -> str:
        """The value after the name of its unit, except for accuracies: `R² 0.37`, `92.8 %`."""
        return str(self) if self.unit == "accuracy" else f"{self.name} {self}"

    def interval(self, separator: str = " to ") -> str:
        """Return the bounds without their unit."""
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
    """Accuracy of predicting the label; None if the data have no labels."""

    linear: Estimate | None = None
    knn: Estimate | None = None


@dataclass(frozen=True)
class TwoProbes:
    """How well one column of the condition is predicted.

    All fields are None if the column is constant in the training or the test split.
    """

    linear: Estimate | None = None
    """R² of a number, accuracy of a category."""
    nonlinear: Estimate | None = None
    linear_mse: Estimate | None = None
    """In the units of the column; None for a category."""
    nonlinear_mse: Estimate | None = None
    baseline: Estimate | None = None
    """MSE of predicting the training mean, or accuracy of predicting the most common category."""

    @property
    def worst(self) -> Estimate | None:
        """The larger of both probes."""
        estimates = [estimate for estimate in (self.linear, self.nonlinear) if estimate]
        return max(estimates, key=lambda estimate: estimate.value, default=None)

    @property
    def guess(self) -> Estimate | None:
        """Accuracy of predicting the most common category; None for a number."""
        return self.baseline if self.baseline and self.baseline.unit == "accuracy" else None

    def to_json(self) -> dict[str, JsonValue]:
        tree: dict[str, Any] = {}
        for name, estimate in vars(self).items():
            if estimate and name == "baseline":
                tree[f"baseline_{estimate.unit}"] = estimate.to_json()
            elif estimate:
                tree.setdefault(name.removesuffix("_mse"), {})[estimate.unit] = estimate.to_json()
        return tree


@dataclass(frozen=True)
class FeatureScores:
    """Scores of one representation: the encoder's features or their projection."""

    accuracy: Accuracy = Accuracy()
    leakage: Mapping[str, TwoProbes] = field(default_factory=dict)
    """Column of the condition -> its leakage; empty without a condition."""
    how: Mapping[str, Detail] = field(default_factory=dict)
    """Sizes of the splits, seed, number of resamples, and the selected regularization."""

    @property
    def rows(self) -> list[tuple[str, TwoProbes]]:
        """The leakage as rows of a table, at least one."""
        return list(self.leakage.items()) or [("", TwoProbes())]

    def to_json(self) -> dict[str, JsonValue]:
        """One column is stored as "leakage", without its name; several as "leakages"."""
        accuracy = {name: value.to_json() for name, value in vars(self.accuracy).items() if value}
        leakages = {name: leakage.to_json() for name, leakage in self.leakage.items()}
        tree: dict[str, Any] = {"accuracy": accuracy}
        if len(leakages) == 1:
            tree["leakage"] = next(iter(leakages.values()))
        elif leakages:
            tree |= {"leakage": {}, "leakages": leakages}
        return tree | {"how": dict(self.how)}


@dataclass(frozen=True)
class Evaluation:
    """The scores of a run; printed as a small table."""

    encoder: FeatureScores
    projection: FeatureScores | None = None
    version: str = ""
    """Of cclk."""

    @property
    def features(self) -> dict[str, FeatureScores]:
        """The representations that were evaluated, by name."""
        projection = {"projection": self.projection} if self.projection else {}
        return {"encoder": self.encoder} | projection

    @property
    def accuracy(self) -> Accuracy:
        """Of the encoder."""
        return self.encoder.accuracy

    @property
    def leakage(self) -> Mapping[str, TwoProbes]:
        """Of the encoder."""
        return self.encoder.leakage

    def __str__(self) -> str:
        rows = [["features", "linear", "kNN", "leakage of", *PROBES]]
        for name, scores in self.features.items():
            start = [name, str(scores.accuracy.linear or "-"), str(scores.accuracy.knn or "-")]
            for column, leakage in scores.rows:
                probes = (leakage.linear, leakage.nonlinear)
                cells = (estimate.titled if estimate else "-" for estimate in probes)
                rows.append([*start, column or "-", *cells])
                start = ["", "", ""]
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
        """Read the content of an `evaluation.json`.

        Args:
            tree: the parsed JSON.
            condition: name of a single condition column, which the file does not contain; ""
                without a condition.

        Raises:
            ValueError: naming the field that is missing or of another type.
        """
        file = check_json(_FORMAT, tree)
        projection = file.projection.scores(condition) if file.projection else None
        return cls(file.encoder.scores(condition), projection, file.version)


@dataclass(frozen=True)
class _LeakageFile:
    """A leakage in the file, where units are keys."""

    linear: dict[Unit, Estimate] = field(default_factory=dict)
    nonlinear: dict[Unit, Estimate] = field(default_factory=dict)
    baseline_mse: Estimate | None = None
    baseline_accuracy: Estimate | None = None

    def leakage(self) -> TwoProbes:
        fields = {
            f"{probe}_mse" if unit == "mse" else probe: replace(estimate, unit=unit)
            for probe, estimates in (("linear", self.linear), ("nonlinear", self.nonlinear))
            for unit, estimate in estimates.items()
        }
        if self.baseline_mse:
            fields["baseline"] = replace(self.baseline_mse, unit="mse")
        return TwoProbes(**({"baseline": self.baseline_accuracy} | fields))


@dataclass(frozen=True)
class _ScoresFile:
    accuracy: Accuracy
    leakage: _LeakageFile | None = None
    leakages: dict[str, _LeakageFile] = field(default_factory=dict)
    how: dict[str, Detail] = field(default_factory=dict)

    def scores(self, condition: str) -> FeatureScores:
        single = {condition: self.leakage} if condition and self.leakage else {}
        leakages = {name: file.leakage() for name, file in (self.leakages or single).items()}
        return FeatureScores(self.accuracy, leakages, self.how)


@dataclass(frozen=True)
class _EvaluationFile:
    encoder: _ScoresFile
    projection: _ScoresFile | None = None
    version: str = ""


_FORMAT = TypeAdapter(_EvaluationFile)


def write_evaluation(run: Path, evaluation: Evaluation) -> Path:
    """Write `evaluation.json` into a run folder, atomically.

    Args:
        run: the run folder.
        evaluation: its scores.
    """
    path, tree = run / FILE, evaluation.to_json()
    content = {**tree, "digest": _digest(tree)}
    replace_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
    return path


def _digest(tree: object) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def read_evaluation(run: Path, condition: str = "condition") -> Evaluation | None:
    """Read the evaluation of a run folder; None if the run has not been evaluated.

    Args:
        run: the run folder.
        condition: as in `Evaluation.from_json`.
    """
    path = run / FILE
    if not path.exists():
        return None
    try:
        tree = read_json(path)
        digest = tree.pop("digest", None) if isinstance(tree, dict) else None
        if digest not in (None, _digest(tree)):  # files of older versions have none
            raise RunError("its content does not match its digest")
        return Evaluation.from_json(tree, condition)
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} is not a valid evaluation ({reason(error)}): delete it and evaluate the run"
            " again"
        ) from None


def three_figures(value: float) -> str:
    """Format a number in its own units.

    >>> three_figures(5430.2), three_figures(48.83), three_figures(0.01234)
    ('5,430', '48.8', '0.0123')
    """
    return "0" if value == 0 else f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _two_digits(value: float) -> str:
    """Format a number with two digits, never "-0.00"."""
    return f"{round(value, 2) + 0.0:.2f}"
