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
from cclk._reading import check_json, read_json, reason
from cclk.errors import RunError
from cclk.evaluation.estimate import Estimate, Unit
from cclk.evaluation.leakage_card import ColumnLeakage, Leakage, aligned

FILE = "evaluation.json"
Detail = str | int | float | list[float]
_UNREADABLE = 0.02
"""R² up to which a column counts as removed: the worst of several probes is above 0 by chance."""
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


@dataclass(frozen=True)
class Evaluation:
    """The scores of a run; printed as a small table and a sentence on each column."""

    encoder: FeatureScores
    projection: FeatureScores | None = None
    version: str = ""
    """Of cclk."""
    baselines: Mapping[str, Leakage] = field(default_factory=dict)
    """The leakage from the features of the "untrained" encoder and from the "inputs"."""

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
        features = {name: scores.leakage for name, scores in self.features.items()}
        return features | dict(self.baselines)

    def verdict(self, column: str) -> str:
        """Return whether training removed a column: "removed", "mostly removed" and so on.

        The leakage from the encoder is compared with that from the untrained encoder or from the
        inputs, whichever is more: narrow untrained features hide what is in the inputs. It is ""
        without these baselines, or if the column is constant; "cannot tell" if more than 10 % of
        the test samples have categories that the training split lacks.

        Args:
            column: name of a column of the condition.
        """
        if doubt := self.leakage[column].doubt:
            return doubt
        columns = (each.columns.get(column, ColumnLeakage()) for each in self.baselines.values())
        baselines = [each.worst.value for each in columns if each.worst is not None]
        after = self.leakage[column].worst
        if not baselines or after is None:
            return ""
        before = max(baselines)
        if before <= _UNREADABLE:
            encoded = after.value > _UNREADABLE
            return "encoded by training" if encoded else "not in the untrained features either"
        if after.value <= _UNREADABLE:
            return "removed"
        share = after.value / before
        return next((name for most, name in _REMAINS.items() if share <= most), "not removed")

    @property
    def remaining(self) -> list[str]:
        """The columns that training removed in part or not at all."""
        kept = ("partly removed", "not removed", "encoded by training")
        return [column for column in self.leakage if self.verdict(column) in kept]

    def sentences(self) -> list[str]:
        """Return a sentence on each column that varies: the worst probe, baselines, verdict."""
        sentences = []
        for name, column in self.leakage.columns.items():
            if column.worst is None:
                sentences += [f"{name}: {column.doubt}"] if column.doubt else []
                continue
            others = {title: each.columns.get(name) for title, each in self.baselines.items()}
            values = [
                f"{title} {each.worst}" for title, each in others.items() if each and each.worst
            ]
            beside = f" ({', '.join(values)})" if values else ""
            verdict = self.verdict(name)
            sentences.append(
                f"{name}: the worst of {len(column.scores)} probes reads {column.worst.titled}"
                f"{beside}{verdict and f': {verdict}'}"
            )
        return sentences

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
        return cls(file.encoder.scores(condition), projection, file.version, file.baselines)


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
    baselines: dict[str, Leakage] = field(default_factory=dict)
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
