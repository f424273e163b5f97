"""The measures of an experiment: scores of the encoder of a run as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from cclk.data.dataset import Dataset, Split
from cclk.errors import DataError
from cclk.evaluation import Accuracy, Estimate, Samples, TwoProbes, evaluate
from cclk.evaluation.parts import parts_of

Measure = Literal[
    "accuracy", "knn", "linear_r2", "nonlinear_r2", "linear_mse", "nonlinear_mse", "baseline_mse"
]
MEASURES: dict[Measure, Callable[[Accuracy, TwoProbes], Estimate | None]] = {
    "accuracy": lambda accuracy, _: accuracy.linear,
    "knn": lambda accuracy, _: accuracy.knn,
    "linear_r2": lambda _, leakage: leakage.linear,
    "nonlinear_r2": lambda _, leakage: leakage.nonlinear,
    "linear_mse": lambda _, leakage: leakage.linear_mse,
    "nonlinear_mse": lambda _, leakage: leakage.nonlinear_mse,
    "baseline_mse": lambda _, leakage: leakage.baseline,
}
TITLES: dict[Measure, str] = {
    "accuracy": "accuracy, %",
    "knn": "kNN accuracy, %",
    "linear_r2": "condition R², linear",
    "nonlinear_r2": "condition R², nonlinear",
    "linear_mse": "condition MSE, linear",
    "nonlinear_mse": "condition MSE, nonlinear",
    "baseline_mse": "MSE of the mean",
}
LOWER_IS_BETTER: frozenset[Measure] = frozenset({"linear_r2", "nonlinear_r2"})
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
        measures: what to measure.
        split: where to measure.
        seed: seed of the probes.
    """
    check(dataset, measures, split)
    target = getattr(dataset, split)
    held = dataset.validation if split == "test" else target.subset(torch.arange(0))
    samples = [
        Samples(embed(part)[0], part.y, part.condition) for part in (dataset.train, held, target)
    ]
    scores = evaluate(
        samples[0],
        samples[1],
        samples[2],
        dataset.condition_kind,
        seed,
        bootstrap=1,
        leakage=any(map(_is_leakage, measures)),
        parts=parts_of(dataset),
    )
    leakage = next(iter(scores.leakage.values()), TwoProbes())
    values: dict[Measure, float] = {}
    for name in measures:
        estimate = MEASURES[name](scores.accuracy, leakage)
        if estimate is None:
            raise DataError(
                f"{name} cannot be measured on {dataset.name}: its condition is constant"
            )
        values[name] = estimate.value
    return values


def check(dataset: Dataset, measures: Sequence[Measure], split: SplitName) -> None:
    """Raise an error if these measures are undefined on this dataset, before it is trained on."""
    if not len(getattr(dataset, split)):
        raise DataError(
            f"the {split} split of {dataset.name} is empty: hold out some training rows with the"
            " setting holdout"
        )
    leakage = next(filter(_is_leakage, measures), None)
    if leakage is None:
        return
    if not dataset.columns:
        raise DataError(f"{leakage} cannot be measured on {dataset.name}: it has no condition")
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
    return measure not in ("accuracy", "knn")
