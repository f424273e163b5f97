"""The result of an evaluation and its file, `evaluation.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue, TypeAdapter

from cclk._files import replace_text
from cclk._notebook import Shown
from cclk._reading import check_json, read_json, reason
from cclk.errors import RunError
from cclk.evaluation.change import SMALLEST, Change, is_read, nothing_read
from cclk.evaluation.estimate import Estimate, Unit
from cclk.evaluation.leakage_card import ColumnLeakage, Leakage, aligned

FILE = "evaluation.json"
Detail = str | int | float | list[float]
_REMAINS = {0.1: "removed", 1 / 3: "mostly removed", 2 / 3: "partly removed"}
"""The largest ratio of the R² of the encoder to that of the baseline -> verdict."""


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of predicting the label; None if the data have no labels."""

    linear: Estimate | None = None
    knn: Estimate | None = None


@dataclass(frozen=True)
class FeatureScores:
    """Scores of one representation: the encoder's features or their projection."""

    accuracy: Accuracy = Accuracy()
    leakage: Leakage = field(default_factory=Leakage)
    """The leakage of each column of the condition; empty without a condition."""
    how: Mapping[str, Detail] = field(default_factory=dict)
    """Sizes of the splits, seed, number of resamples, and the selected regularization."""

    @property
    def rows(self) -> list[tuple[str, ColumnLeakage]]:
        """The leakage as rows of a table, at least one."""
        return list(self.leakage.columns.items()) or [("", ColumnLeakage())]

    def to_json(self) -> dict[str, JsonValue]:
        accuracy = {name: value.to_json() for name, value in vars(self.accuracy).items() if value}
        panel = {"panel": self.leakage.to_json()} if self.leakage.columns else {}
        tree: dict[str, Any] = {"accuracy": accuracy, **panel, "how": dict(self.how)}
        return tree


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """The scores of a run; printed as a small table and a sentence on each column."""

    encoder: FeatureScores
    projection: FeatureScores | None = None
    version: str = ""
    """Of cclk."""
    baselines: Mapping[str, FeatureScores] = field(default_factory=dict)
    """The scores of the features of the "untrained" encoder and of the "inputs"."""

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
    def leakage(self) -> Leakage:
        """Of the encoder."""
        return self.encoder.leakage

    @property
    def leakages(self) -> dict[str, Leakage]:
        """The leakage from every representation and baseline, by name."""
        every = self.features | dict(self.baselines)
        return {name: scores.leakage for name, scores in every.items()}

    def verdict(self, column: str) -> str:
        """Return whether training removed a column: "removed", "mostly removed" and so on.

        The leakage from the encoder is compared with that from the untrained encoder or from the
        inputs, whichever is more: narrow untrained features hide what is in the inputs. R² below
        0.05 does not matter. It is "too few rows to tell" if the intervals allow the opposite, and
        "" without these baselines, or if the column is constant; "cannot tell" if more than 10 % of
        the test samples have categories that the training split lacks.

        Args:
            column: name of a column of the condition.
        """
        if doubt := self.leakage[column].doubt:
            return doubt
        columns = [each.leakage.columns.get(column) for each in self.baselines.values()]
        worst = [each.worst for each in columns if each and each.worst]
        after = self.leakage[column].worst
        if not worst or after is None:
            return ""
        before = max(worst, key=float)
        if not is_read(before):
            if is_read(after) and after.low > before.high:
                return "encoded by training"
            return nothing_read(before, after)
        share = after.value / before.value if after.value >= SMALLEST["r2"] else 0.0
        verdict = next((name for most, name in _REMAINS.items() if share <= most), "not removed")
        unclear = verdict != "not removed" and after.high > before.low
        return "too few rows to tell" if unclear else verdict

    @property
    def remaining(self) -> list[str]:
        """The columns that training removed in part or not at all."""
        kept = ("partly removed", "not removed", "encoded by training")
        return [column for column in self.leakage if self.verdict(column) in kept]

    def sentences(self, label: str = "label") -> list[str]:
        """Return what the worst probe reads of each column that varies, and what that cost.

        Both are compared with the baselines. With one column, it is a single sentence.

        Args:
            label: what the labels are.
        """
        sentences = []
        for name, column in self.leakage.columns.items():
            if column.worst is None:
                sentences += [f"{name}: {column.doubt}"] if column.doubt else []
                continue
            others = {
                title: each.leakage.columns.get(name, ColumnLeakage()).worst
                for title, each in self.baselines.items()
            }
            reading = f" ({column.reading})" if column.reading else ""
            verdict = self.verdict(name)
            sentences.append(
                f"{name}{reading}: the worst of {len(column.scores)} probes reads"
                f" {column.worst.titled}{_beside(others)}{verdict and f': {verdict}'}"
            )
        if cost := self._cost(label):
            sentences.append(cost)
        return ["; ".join(sentences)] if len(sentences) == 2 and cost else sentences

    def _cost(self, label: str) -> str:
        """What training did to the accuracy of the label, compared with the better baseline."""
        others = {title: each.accuracy.linear for title, each in self.baselines.items()}
        known = [each for each in others.values() if each]
        if not known or self.accuracy.linear is None:
            return ""
        change = Change(max(known, key=float), self.accuracy.linear)
        return (
            f"a linear probe predicts the {label} with {self.accuracy.linear}{_beside(others)}:"
            f" {change.cost}"
        )

    def __str__(self) -> str:
        rows = [["features", "linear", "kNN", "leakage of", "linear", "worst", "probe"]]
        for name, scores in self.features.items():
            start = [name, str(scores.accuracy.linear or "-"), str(scores.accuracy.knn or "-")]
            for column, leakage in scores.rows:
                probes = (leakage.linear, leakage.worst)
                cells = (estimate.titled if estimate else "-" for estimate in probes)
                rows.append([*start, column or "-", *cells, leakage.worst_probe or "-"])
                start = ["", "", ""]
        return "\n".join([aligned(rows), *self.sentences()])

    def to_json(self) -> dict[str, JsonValue]:
        tree: dict[str, JsonValue] = {
            name: scores.to_json() for name, scores in self.features.items()
        }
        if self.baselines:
            tree["baselines"] = {name: each.to_json() for name, each in self.baselines.items()}
        return tree | ({"version": self.version} if self.version else {})

    @classmethod
    def from_json(cls, tree: object, condition: str = "condition") -> Evaluation:
        """Read the content of an `evaluation.json`.

        Args:
            tree: the parsed JSON.
            condition: name of a single condition column, which old files do not contain; ""
                without a condition.

        Raises:
            ValueError: naming the field that is missing or of another type.
        """
        file = check_json(_FORMAT, tree)
        projection = file.projection.scores(condition) if file.projection else None
        baselines = {name: each.scores(condition) for name, each in file.baselines.items()}
        return cls(file.encoder.scores(condition), projection, file.version, baselines)


def _beside(others: Mapping[str, Estimate | None]) -> str:
    values = [f"{title} {each}" for title, each in others.items() if each]
    return f" ({', '.join(values)})" if values else ""


@dataclass(frozen=True)
class _TwoProbesFile:
    """The leakage of a column in files of earlier versions: two probes, where units are keys."""

    linear: dict[Unit, Estimate] = field(default_factory=dict)
    nonlinear: dict[Unit, Estimate] = field(default_factory=dict)
    baseline_accuracy: Estimate | None = None

    def leakage(self) -> ColumnLeakage:
        probes = {"linear": self.linear, "network": self.nonlinear}
        return ColumnLeakage(
            {name: each["r2"] for name, each in probes.items() if "r2" in each},
            {name: each["accuracy"] for name, each in probes.items() if "accuracy" in each},
            self.baseline_accuracy,
        )


@dataclass(frozen=True)
class _ScoresFile:
    accuracy: Accuracy
    panel: Leakage | None = None
    leakage: _TwoProbesFile | None = None
    leakages: dict[str, _TwoProbesFile] = field(default_factory=dict)
    how: dict[str, Detail] = field(default_factory=dict)

    def scores(self, condition: str) -> FeatureScores:
        single = {condition: self.leakage} if condition and self.leakage else {}
        columns = {name: file.leakage() for name, file in (self.leakages or single).items()}
        return FeatureScores(self.accuracy, self.panel or Leakage(columns), self.how)


@dataclass(frozen=True)
class _EvaluationFile:
    encoder: _ScoresFile
    projection: _ScoresFile | None = None
    baselines: dict[str, _ScoresFile] = field(default_factory=dict)
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
