"""The measures of an experiment: scores of the encoder of a run as numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

from cclk.data.dataset import Dataset, Split
from cclk.errors import DataError
from cclk.evaluation import Samples, evaluate
from cclk_paper.probes import linear_auc, two_probes

Measure = Literal[
    "accuracy", "auc", "knn", "worst_r2",
    "linear_r2", "nonlinear_r2", "linear_mse", "nonlinear_mse", "baseline_mse",
]  # fmt: skip
TITLES: dict[Measure, str] = {
    "accuracy": "accuracy, %",
    "auc": "AUC, %",
    "knn": "kNN accuracy, %",
    "worst_r2": "condition R², worst probe",
    "linear_r2": "condition R², linear",
    "nonlinear_r2": "condition R², nonlinear",
    "linear_mse": "condition MSE, linear",
    "nonlinear_mse": "condition MSE, nonlinear",
    "baseline_mse": "MSE of the mean",
}
IN_PERCENT: frozenset[Measure] = frozenset({"accuracy", "auc", "knn"})
LOWER_IS_BETTER: frozenset[Measure] = frozenset({"worst_r2", "linear_r2", "nonlinear_r2"})
Embed = Callable[[Split], tuple[Tensor, Tensor]]
SplitName = Literal["test", "validation"]


def measure(
    dataset: Dataset, embed: Embed, measures: Sequence[Measure], split: SplitName, seed: int
) -> dict[Measure, float]:
    """Fit probes on the training split and score them on `split`.

    Args:
        dataset: its test split is not used if `split` is "validation"; the regularization of the
            probes is then selected on a part of the training split.
        embed: returns features and projection of a split.
        measures: what to measure. "auc" is the area under the ROC curve of the linear classifier
            whose accuracy is "accuracy", for two classes. "worst_r2" is the leakage that
            `cclk.leakage` measures; all other measures of the condition are those of
            `cclk_paper.probes.two_probes`.
        split: where to measure.
        seed: seed of the probes.
    """
    check(dataset, measures, split)
    target = getattr(dataset, split)
    held = dataset.validation if split == "test" else target.subset(torch.arange(0))
    samples = [
        Samples(embed(part)[0], part.y, part.condition) for part in (dataset.train, held, target)
    ]
    train, validation, test = samples
    columns = dataset.columns if "worst_r2" in measures else ()
    scores = evaluate(train, validation, test, columns, seed, bootstrap=1)
    estimates = {
        "accuracy": scores.accuracy.linear,
        "knn": scores.accuracy.knn,
        "worst_r2": scores.leakage.worst,
    }
    values = {name: estimate.value for name, estimate in estimates.items() if estimate}
    if "auc" in measures:
        values["auc"] = linear_auc(train, validation, test, seed)
    if any(name not in estimates and name != "auc" for name in measures):
        values |= two_probes(train, validation, test, seed)
    for name in measures:
        if name not in values:
            raise DataError(
                f"{name} cannot be measured on {dataset.name}: its condition is constant"
            )
    return {name: values[name] for name in measures}


def check(dataset: Dataset, measures: Sequence[Measure], split: SplitName) -> None:
    """Raise an error if these measures are undefined on this dataset, before it is trained on."""
    if not len(getattr(dataset, split)):
        raise DataError(
            f"the {split} split of {dataset.name} is empty: hold out some training rows with the"
            " setting holdout"
        )
    if "auc" in measures and len(dataset.classes) != 2:
        raise DataError(
            f"auc cannot be measured on {dataset.name}: it has {len(dataset.classes)} classes, and"
            " the area under the ROC curve is defined for 2"
        )
    leakage = next(filter(_is_leakage, measures), None)
    if leakage is None:
        return
    if not dataset.columns:
        raise DataError(f"{leakage} cannot be measured on {dataset.name}: it has no condition")
    leakage = next((name for name in measures if _is_leakage(name) and name != "worst_r2"), None)
    if leakage is None:
        return
    if dataset.condition_kind == "mixed":
        raise DataError(
            f"{dataset.name} has {len(dataset.columns)} condition columns, and leakage is measured"
            " for one: choose one"
        )
    if dataset.condition_kind != "continuous":
        raise DataError(
            f"{leakage} cannot be measured on {dataset.name}: its condition is categorical, not"
            " continuous"
        )


def _is_leakage(measure: Measure) -> bool:
    return measure not in IN_PERCENT


def leakage_of(measures: Iterable[Measure]) -> Measure | None:
    """Return the measure that accuracy is traded for: the worst probe, or else the network."""
    known = set(measures)
    preferred: tuple[Measure, ...] = ("worst_r2", "nonlinear_r2")
    return next((name for name in preferred if name in known), None)


def mean_and_deviation(values: Sequence[float], measure: Measure) -> str:
    """Format mean and standard deviation.

    >>> mean_and_deviation([95.1, 95.3], "accuracy"), mean_and_deviation([0.2], "linear_r2")
    ('95.2 ± 0.1', '0.20')
    """
    if not values:
        return "-"
    digits = 2 if measure.endswith("r2") else 1 if abs(statistics.mean(values)) < 1000 else 0
    mean = f"{statistics.mean(values):,.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):,.{digits}f}" if len(values) > 1 else mean


def difference(better: Sequence[float], worse: Sequence[float]) -> tuple[float, float]:
    """Return the difference of two means, and its standard error; NaN if either has one value.

    Args:
        better: Values of the runs that should be higher.
        worse: Values of the runs that should be lower.

    Example:
        >>> difference([3.0, 5.0], [1.0, 1.0])
        (3.0, 1.0)
    """
    gain = statistics.mean(better) - statistics.mean(worse)
    if min(len(better), len(worse)) < 2:
        return gain, math.nan
    parts = (statistics.variance(values) / len(values) for values in (better, worse))
    return gain, math.sqrt(sum(parts))
