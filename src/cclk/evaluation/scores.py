"""The result of an evaluation and its file, `evaluation.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from cclk._files import replace_text
from cclk._notebook import Shown
from cclk._reading import check_json, read_json, reason
from cclk.errors import RunError
from cclk.evaluation.estimate import SMALLEST, Change, Estimate, is_read, nothing_read
from cclk.evaluation.leakage import ColumnLeakage, Leakage, aligned

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
                f"{name}{reading}: the worst of {len(column.by_probe)} probes reads"
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
        return "\n".join([score_table({"": self}), *self.sentences()])

    def to_json(self) -> dict[str, JsonValue]:
        """Return the content of an `evaluation.json`; what is empty is left out."""
        tree: dict[str, JsonValue] = _FORMAT.dump_python(self, mode="json", exclude_defaults=True)
        return tree

    @classmethod
    def from_json(cls, tree: object) -> Evaluation:
        """Read the content that `to_json` returns.

        Args:
            tree: the parsed JSON.

        Raises:
            ValueError: naming the field that is missing or of another type.
        """
        return check_json(_FORMAT, tree)


_FORMAT = TypeAdapter(Evaluation)


def score_table(evaluations: Mapping[str, Evaluation], label: str = "label") -> str:
    """Return a table of accuracies and leakages; below each value, its 95 % interval.

    Args:
        evaluations: name of a run -> its evaluation.
        label: what the labels are.
    """
    rows = [["features", label, "kNN", "leakage of", "linear", "worst", "probe"]]
    for run, evaluation in evaluations.items():
        start = [run] if run else []
        for name, scores in evaluation.features.items():
            cells = [[*start, name, ""], *map(_lines, vars(scores.accuracy).values())]
            for column, leakage in scores.rows:
                accuracy = leakage.accuracy.get(leakage.worst_probe)
                note = f"{accuracy} (majority {leakage.majority})" if accuracy else ""
                cells += [[column or "-", ""], _lines(leakage.linear), _lines(leakage.worst)]
                cells.append([leakage.worst_probe or "-", note])
                rows += [list(row) for row in zip(*cells, strict=False)]
                cells = [["", ""]] * 3
            start = []
    return aligned(rows)


def _lines(estimate: Estimate | None) -> list[str]:
    return [estimate.titled, estimate.interval("…")] if estimate else ["-", ""]


def _beside(others: Mapping[str, Estimate | None]) -> str:
    values = [f"{title} {each}" for title, each in others.items() if each]
    return f" ({', '.join(values)})" if values else ""


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


def read_evaluation(run: Path) -> Evaluation | None:
    """Read the evaluation of a run folder; None if the run has not been evaluated.

    Args:
        run: the run folder.
    """
    path = run / FILE
    if not path.exists():
        return None
    try:
        tree = read_json(path)
        if isinstance(tree, dict) and tree.pop("digest", None) != _digest(tree):
            raise RunError("its content does not match its digest")
        return Evaluation.from_json(tree)
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} is not a valid evaluation ({reason(error)}): delete it and evaluate the run"
            " again"
        ) from None
