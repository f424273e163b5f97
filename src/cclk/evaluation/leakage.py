"""The leakage of a condition from features, by the worst of a panel of probes.

print(cclk.leakage(features, {"age": age, "site": site}))
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from pydantic import JsonValue, TypeAdapter

from cclk._notebook import Shown
from cclk._reading import check_json
from cclk.columns import Column, period_of
from cclk.condition import column_slices, infer_condition
from cclk.data.splits import draw_groups
from cclk.errors import DataError
from cclk.evaluation import intervals
from cclk.evaluation.estimate import Estimate
from cclk.evaluation.intervals import (
    Statistic,
    explained_direction,
    explained_variance,
    share_correct,
)
from cclk.evaluation.panel import Splits, predict_by_panel
from cclk.evaluation.samples import CARVED, Integers, Samples, carved_rows, check

SplitName = Literal["train", "validation", "test"]
_SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
_UNSEEN = 0.1
_SHARES = (0.6, CARVED)  # of the training and the validation split, if no split is passed


@dataclass(frozen=True, repr=False)
class ColumnLeakage(Shown):
    """How well the probes of a panel predict one column of the condition; `float` is the worst R².

    Empty if the column is constant in the training or the test split, or if all test samples have
    categories that the training split lacks.
    """

    by_probe: Mapping[str, Estimate] = field(default_factory=dict)
    """Probe -> R² on the test split. Of a category, it is the R² of the indicators of all values,
    pooled: the Brier skill score, which is 0 for predicting the frequencies and 1 for certainty.
    """
    accuracy: Mapping[str, Estimate] = field(default_factory=dict)
    """Probe -> accuracy of the most probable value; empty for numbers."""
    majority: Estimate | None = None
    """Accuracy of predicting the most common value; None for numbers."""
    unseen: float = 0.0
    """The share of test samples with a category that the training split lacks, which no probe can
    predict: a low R² does not mean that the features are clear of it.
    """
    reading: str = ""
    """What the probes predict, if a circular column was read in two ways: the worse one counts."""

    @property
    def linear(self) -> Estimate | None:
        """The score of the linear probe."""
        return self.by_probe.get("linear")

    @property
    def worst_probe(self) -> str:
        """The probe with the largest score; "" if there is none."""
        return max(self.by_probe, key=lambda probe: self.by_probe[probe].value, default="")

    @property
    def worst(self) -> Estimate | None:
        """The largest score with the interval of its probe."""
        return self.by_probe.get(self.worst_probe)

    @property
    def doubt(self) -> str:
        """Why a low score does not mean that the features are clear of the column; "" if it does.

        More than 10 % of the test samples have categories that the training split lacks.
        """
        share = f"{100 * self.unseen:.0f} % of the test samples"
        unseen = f"cannot tell: {share} have categories that the training split lacks"
        return unseen if self.unseen > _UNSEEN else ""

    def __float__(self) -> float:
        return math.nan if self.worst is None else self.worst.value

    def __str__(self) -> str:
        if self.worst is None:
            return self.doubt or "constant"
        reading = f" of {self.reading}" if self.reading else ""
        return (
            f"{self.worst.titled}{reading} ({self.worst.between}), {self.worst_probe}, the worst of"
            f" {len(self.by_probe)} probes"
        )


@dataclass(frozen=True, repr=False)
class Leakage(Shown):
    """The result of `cclk.leakage`; `print` shows it as a table, `leakage["age"]` is one column,
    and `float(leakage)` is the worst R² of all of them (NaN if all are constant).

    The worst probe is selected by its score on the test split, which is the conservative choice: a
    maximum over probes is slightly too large, by a fraction of the width of its interval. Without
    leakage it is at most about 0.01 for thousands of test samples.
    """

    columns: Mapping[str, ColumnLeakage] = field(default_factory=dict)
    """Column of the condition -> its leakage."""
    sizes: Mapping[SplitName, int] = field(default_factory=dict)
    """Number of samples in each split."""
    seed: int = 0
    """Seed of the splits, the probes and the bootstrap."""

    def __getitem__(self, column: str) -> ColumnLeakage:
        if column not in self.columns:
            known = ", ".join(map(repr, self.columns))
            raise DataError(f"the condition has no column {column!r}, it has {known}")
        return self.columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def worst(self) -> Estimate | None:
        """The largest R² over all probes and columns; None if all columns are constant."""
        worst = [column.worst for column in self.columns.values() if column.worst]
        return max(worst, key=float, default=None)

    def __float__(self) -> float:
        return math.nan if self.worst is None else self.worst.value

    def __str__(self) -> str:
        return card({"": self})

    def to_json(self) -> dict[str, JsonValue]:
        """Return the content of a file; what is empty is left out."""
        tree: dict[str, JsonValue] = _FORMAT.dump_python(self, mode="json", exclude_defaults=True)
        return tree

    @classmethod
    def from_json(cls, tree: object) -> Leakage:
        """Read the content that `to_json` returns.

        Args:
            tree: the parsed JSON.

        Raises:
            CclkError: naming the field that is missing or of another type.
        """
        return check_json(_FORMAT, tree)


_FORMAT = TypeAdapter(Leakage)


def leakage(
    features: object,
    condition: object,
    split: object = None,
    seed: int = 0,
    *,
    groups: object = None,
) -> Leakage:
    """Measure how well a panel of probes predicts the condition from features.

        R^2 = 1 - sum (prediction - z)^2 / sum (z - mean of z)^2

    on the test split, for each probe of `cclk.evaluation.panel`, with a 95 % bootstrap interval.
    The leakage of a column is that of the worst probe. Hours, weekdays, months, angles and hues (by
    name and range, or named as in "phase:circular") are also read on the circle, and the worse of
    both readings counts:

        R^2 = max over u of 1 - sum (u . (prediction - c))^2 / sum (u . (c - mean of c))^2

    with c the cosine and sine of z, which does not depend on the origin of z. Probes are fitted on
    the training split; their regularization, size and number of steps are selected on the
    validation split. The time is about 20 seconds for 8,000 training samples, 128 features and one
    column of numbers.

    To judge a value, compare it with that of the raw inputs and of an untrained encoder, side by
    side: `print(card({"encoder": ..., "untrained": ..., "inputs": ...}))`.

    Args:
        features: An array or tensor of n rows.
        condition: Numbers, categories or vectors, in one or several columns: an array, a tensor, a
            data frame or a mapping of columns. Kinds are inferred as described in `cclk.columns`.
        split: "train", "validation" or "test" for each sample; by default, 60, 15 and 25 % of the
            samples at random. Without validation samples, 15 % of the training samples are used.
        seed: Seed of the split, the probes and the bootstrap.
        groups: The group of each sample, such as the person on an image, if there are several
            samples of each: all samples of a group are in one split. Otherwise, features by which
            a person can be recognized would reveal everything that was known of the person.

    Shape:
        features: (n, d). condition: (n,) or (n, k).

    Example:
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> features = random.normal(size=(400, 2))
        >>> measured = leakage(features, {"dose": features[:, 0] * features[:, 1]})
        >>> measured["dose"].by_probe["linear"].value < 0.1 < 0.8 < measured.worst.value
        True
    """
    table = infer_condition(condition)
    samples = Samples(_flat(features), np.zeros(len(table)), table.values)
    rows = _rows(split, len(samples), seed, groups)
    parts = [samples.subset(part) for part in rows]
    for name, part in zip(_SPLITS, parts, strict=True):
        check(part, name)
    return measure_leakage(*parts, columns=table.columns, seed=seed)


def measure_leakage(
    train: Samples,
    validation: Samples,
    test: Samples,
    *,
    columns: Sequence[Column],
    seed: int,
    bootstrap: int = 1000,
    quick: bool = False,
) -> Leakage:
    """Measure the leakage from features that have been split and checked; if `quick`, without the
    probes that take most of the time.
    """
    parts = (train, validation, test)
    x = Splits(*(part.features for part in parts))
    measured = {
        column.name: _measure(
            x,
            Splits(*(part.condition[:, position] for part in parts)),
            column,
            seed,
            bootstrap,
            quick,
        )
        for column, position in column_slices(columns)
    }
    return Leakage(measured, dict(zip(_SPLITS, map(len, parts), strict=True)), seed)


def card(leakages: Mapping[str, Leakage]) -> str:
    """Return a table with a row for each probe, and leakages of the same condition side by side.

    The worst probe of each column is marked by an asterisk.

    Args:
        leakages: Name of the features -> their leakage.

    Example:
        >>> age = ColumnLeakage({"linear": Estimate(0.1, 0.0, 0.2, "r2")})
        >>> print(card({"encoder": Leakage({"age": age}, {"train": 60}, 0)}))
        leakage of age, R²  encoder
        linear              * 0.10 [0.00, 0.20]
        <BLANKLINE>
        * worst; 95 % intervals on the test split
    """
    blocks = []
    for name in dict.fromkeys(name for each in leakages.values() for name in each):
        columns = [each.columns.get(name, ColumnLeakage()) for each in leakages.values()]
        rows = [[f"leakage of {name}, R²", *leakages]]
        for probe in dict.fromkeys(probe for column in columns for probe in column.by_probe):
            rows.append([probe, *(_cell(column, probe) for column in columns)])
        if any(column.majority for column in columns):
            cells = (
                f"  {column.accuracy.get(column.worst_probe, '-')} (majority {column.majority})"
                if column.majority
                else "  -"
                for column in columns
            )
            rows.append(["accuracy of the worst", *cells])
        if any(column.unseen for column in columns):
            shares = (f"  {100 * column.unseen:.0f} % of the test split" for column in columns)
            rows.append(["not in training", *shares])
        if any(column.reading for column in columns):
            cells = (f"  {column.reading or '-'}" for column in columns)
            rows.append(["read as", *cells])
        if len(rows) == 1:
            rows.append(["constant", *("  -" for _ in columns)])
        blocks.append(aligned(rows))
    return "\n\n".join([*blocks, "* worst; 95 % intervals on the test split"])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return a table as lines of text whose cells are aligned to the left."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _cell(column: ColumnLeakage, probe: str) -> str:
    if probe not in column.by_probe:
        return "  -"
    estimate = column.by_probe[probe]
    mark = "*" if probe == column.worst_probe else " "
    return f"{mark} {estimate} [{estimate.interval(', ')}]"


def _measure(
    x: Splits, values: Splits, column: Column, seed: int, bootstrap: int, quick: bool
) -> ColumnLeakage:
    """Measure the leakage of a column; of numbers on a circle, the worse of two readings."""
    if any(bool((each == each[:1]).all()) for each in (values.train, values.test)):
        return ColumnLeakage()
    categorical = column.kind == "categorical"
    measured = _measure_values(x, values, categorical, seed, bootstrap, quick)
    positions = _positions(values, column)
    if positions is None or not measured.by_probe:
        return measured
    period = column.period or period_of(column.name, positions.train[:, 0])
    if not period:
        return measured
    angles = _measure_angles(x, positions, period, seed, bootstrap, quick)
    readings = {
        "categories" if categorical else "number": measured.by_probe,
        f"cosine and sine, period {period:.4g}": angles,
    }
    reading = max(readings, key=lambda name: max(map(float, readings[name].values())))
    return replace(measured, by_probe=readings[reading], reading=reading)


def _positions(values: Splits, column: Column) -> Splits | None:
    """Return the numbers of a column, (n, 1); None if it holds anything else."""
    if column.width > 1 or column.kind not in ("continuous", "categorical"):
        return None
    if column.kind == "continuous":
        return values
    try:
        numbers = np.array([[float(name)] for name in column.categories])
    except ValueError:
        return None
    return Splits(*(numbers[each[:, 0].astype(int)] for each in values)) if len(numbers) else None


def _measure_angles(
    x: Splits, positions: Splits, period: float, seed: int, bootstrap: int, quick: bool
) -> dict[str, Estimate]:
    """Return the R² of each probe for the best predicted cosine of the angle."""
    # Measured from the first sample, so that no probe depends on the origin.
    turns = Splits(*((each - positions.train[:1]) * (2 * np.pi / period) for each in positions))
    circle = Splits(*(np.concatenate([np.cos(each), np.sin(each)], axis=1) for each in turns))
    target = Splits(*((each - circle.train.mean(axis=0)) * np.sqrt(2) for each in circle))
    predictions = predict_by_panel(x, target, seed, quick)
    statistics = {
        probe: explained_direction(each, target.test) for probe, each in predictions.items()
    }
    return intervals.bootstrap(statistics, bootstrap, seed)


def _measure_values(
    x: Splits, values: Splits, categorical: bool, seed: int, bootstrap: int, quick: bool
) -> ColumnLeakage:
    if categorical:
        codes = np.unique(values.train)
        target = Splits(*((each == codes).astype(np.float64) for each in values))
        unseen = 1 - float(target.test.any(axis=1).mean())
        if bool((target.test == target.test[:1]).all()):
            return ColumnLeakage(unseen=unseen)
        scale = np.ones(len(codes))
    else:
        target, scale, unseen = values, values.train.std(axis=0), 0.0
    mean = target.train.mean(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    centered = Splits(*((each - mean) / scale for each in target))
    predictions = predict_by_panel(x, centered, seed, quick)
    statistics: dict[tuple[str, str], Statistic] = {
        ("by_probe", probe): explained_variance(each, centered.test)
        for probe, each in predictions.items()
    }
    if categorical:
        # A value that the training split lacks has the code -1, which no probe predicts.
        truth = np.where(target.test.any(axis=1), target.test.argmax(axis=1), -1)
        for probe, each in predictions.items():
            statistics["accuracy", probe] = share_correct((each + mean).argmax(axis=1), truth)
        common = np.full_like(truth, mean.argmax())
        statistics["majority", ""] = share_correct(common, truth)
    estimates = intervals.bootstrap(statistics, bootstrap, seed)
    by_field = {
        name: {probe: each for (owner, probe), each in estimates.items() if owner == name}
        for name in ("by_probe", "accuracy")
    }
    return ColumnLeakage(
        by_field["by_probe"], by_field["accuracy"], estimates.get(("majority", "")), unseen
    )


def _flat(features: object) -> object:
    """Return images and other arrays with more than two axes as rows."""
    shape = getattr(features, "shape", ())
    return features.reshape(len(features), -1) if len(shape) > 2 else features  # type: ignore[attr-defined,arg-type]


def _rows(split: object, count: int, seed: int, groups: object = None) -> Sequence[Integers]:
    """Return the row numbers of each split."""
    group = None if groups is None else np.asarray(groups)
    if group is not None and group.shape != (count,):
        raise DataError(f"groups has the shape {group.shape}: pass one for each of {count}")
    if split is None and group is not None:
        rest, test = draw_groups(group, round((1 - sum(_SHARES)) * count), seed)
        train, validation = draw_groups(group[rest], round(_SHARES[1] * count), seed)
        rows: list[Integers] = [rest[train], rest[validation], test]
    elif split is None:
        order = np.random.default_rng((seed, 5)).permutation(count)
        first = round(_SHARES[0] * count)
        parts = np.split(order, [first, first + round(_SHARES[1] * count)])
        rows = [np.sort(part) for part in parts]
    else:
        names = np.asarray(split)
        if names.shape != (count,):
            raise DataError(f"split has the shape {names.shape}: pass one name for each of {count}")
        unknown = sorted({str(name) for name in names.tolist()} - set(_SPLITS))
        if unknown:
            raise DataError(
                f"split contains {unknown[0]!r}: it must be 'train', 'validation' or 'test'"
            )
        train, validation, test = (np.flatnonzero(names == name) for name in _SPLITS)
        if group is not None:
            _require_undivided(group, names)
        if not len(validation):
            kept, held = (
                carved_rows(len(train), seed)
                if group is None
                else draw_groups(group[train], round(CARVED * len(train)), seed)
            )
            train, validation = train[kept], train[held]
        rows = [train, validation, test]
    for name, part in zip(_SPLITS, rows, strict=True):
        if len(part) < 2:
            raise DataError(
                f"the {name} split has {len(part)} of {count} samples: leakage needs at least 2 in"
                " each split"
            )
    return rows


def _require_undivided(groups: Any, names: Any) -> None:
    part: dict[object, str] = {}
    for group, name in zip(groups.tolist(), names.tolist(), strict=True):
        if part.setdefault(group, name) != name:
            raise DataError(
                f"groups: {str(group)!r} is in the splits {part[group]!r} and {name!r}: samples of"
                " a group must be in one split"
            )
