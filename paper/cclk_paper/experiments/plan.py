"""Experiments: grids of cells, each a method in a setting that runs with several seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from cclk_paper.experiments.erasure import Erasure
from cclk_paper.experiments.measure import Measure, SplitName, leakage_of

Size = Literal["paper", "cpu", "smoke"]
SIZES: tuple[Size, ...] = get_args(Size)
Overrides = Mapping[str, object]
"""Settings by name, as `cclk train` takes them."""
Published = Mapping[Measure, tuple[float, float]]
"""Mean and standard deviation of a measure in the paper."""


@dataclass(frozen=True)
class Cell:
    """One method in one setting."""

    row: str
    """The method, as in the table."""
    column: str
    """The dataset or recipe: the cells of one column are compared with each other."""
    settings: Overrides
    choices: tuple[Overrides, ...] = ()
    """Settings to select from on the validation split before the seeds are run."""
    tuned_like: str = ""
    """The row of the same column whose selected settings this cell uses too."""
    x: float | None = None
    """Position on the horizontal axis, if the rows of this experiment are curves."""
    paper: Published = field(default_factory=dict)
    """In the paper's units: accuracies in percent."""
    erase: Erasure | None = None
    """Applied to the features before they are measured."""


@dataclass(frozen=True)
class Claim:
    """In every column, one row is better in a measure than each of the others."""

    measure: Measure
    row: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Frontier:
    """A comparison of trade-offs between utility and leakage, in two stages.

    First, every cell is trained with seed 0 and measured on the validation split. Then, for each
    row, column and limit, the best cell on validation is run with all seeds and measured on test.
    """

    utility: Mapping[str, Measure]
    """Column -> the measure that is traded for leakage."""
    reference: str
    """The row without removal: its utility is what others may lose. It always runs all seeds."""
    ours: tuple[str, ...]
    """Rows of this package; all others are rivals."""
    labeled: tuple[str, ...] = ()
    """Rows that use labels in training, which are not compared with the others."""
    leakage: tuple[float, ...] = (0.1, 0.2, 0.4)
    """Limits of the leakage at which the highest utility is selected."""
    loss: tuple[float, ...] = (0.02, 0.06)
    """Limits of the loss of utility at which the lowest leakage is selected."""
    headline: float = 0.2
    """The limit of the leakage at which the summary compares."""


@dataclass(frozen=True)
class Plan:
    """An experiment at one size."""

    cells: tuple[Cell, ...]
    seeds: int
    common: Overrides = field(default_factory=dict)
    """Settings of all cells."""
    measures: tuple[Measure, ...] = ("accuracy", "knn")
    split: SplitName = "test"
    """Where the seeds are measured; studies that select a recipe use validation only."""
    watch: int = 0
    """Steps between evaluations on the validation split during training; 0 for none."""
    note: str = ""
    """How this size differs from the paper."""
    train_on_holdout: bool = True
    """Whether runs measured on test also train on the rows held out for selection."""
    data: str = ""
    """Fingerprint of data that may change, such as a user's file; part of the key of a run."""
    frontier: Frontier | None = None
    """Which cells run all seeds, if not all of them."""
    column_seeds: Mapping[str, int] = field(default_factory=dict)
    """Column -> number of seeds, where it is not `seeds`."""
    rows: int = 0
    """Measure on this number of rows of each split only; 0 for all. Part of the key of a run."""
    more: Mapping[str, tuple[Measure, ...]] = field(default_factory=dict)
    """Column -> further measures of its seeds, which are not used for selection."""

    @property
    def all_measures(self) -> tuple[Measure, ...]:
        """The measures of any column, except the utilities of a frontier."""
        more = (name for names in self.more.values() for name in names)
        return tuple(dict.fromkeys((*self.measures, *more)))

    def measures_of(self, column: str) -> tuple[Measure, ...]:
        """Return the measures of a column: those of all, its own, and its frontier's utility."""
        utility = self.frontier.utility if self.frontier else {}
        own = (utility[column],) if column in utility else ()
        return tuple(dict.fromkeys((*self.measures, *self.more.get(column, ()), *own)))

    def matching(self, text: str) -> list[Cell]:
        """Return the cells that contain this text in "row, column"."""
        return [cell for cell in self.cells if text in f"{cell.row}, {cell.column}"]

    def cell(self, row: str, column: str) -> Cell:
        """Return the first cell of a row and a column."""
        return next(cell for cell in self.cells if (cell.row, cell.column) == (row, column))


@dataclass(frozen=True)
class WeightsFigure:
    """The kernel matrix of some samples next to the weights computed from it."""

    dataset: str
    kernel: str
    colors: list[list[int]]
    panels: Mapping[str, list[list[float]]]
    """Title -> matrix."""
    effective_neighbors: Mapping[str, float]
    """Title of the weights -> effective number of neighbors of the median anchor."""


@dataclass(frozen=True)
class Experiment:
    """An experiment of the registry."""

    name: str
    title: str
    source: str
    """The table or figure of the paper."""
    plan: Callable[[Size], Plan]
    claims: tuple[Claim, ...] = ()
    axis: str = ""
    """Title of the axis of `Cell.x`."""
    figure: Callable[[Size, Path | None], WeightsFigure] | None = None
    """Computes a figure that needs no training, from data in this folder."""


def score(measures: Mapping[Measure, float]) -> float:
    """The selection criterion: accuracy, minus the R^2 of the leakage where that is measured."""
    leakage = leakage_of(measures)
    return measures["accuracy"] - (max(0.0, measures[leakage]) if leakage else 0.0)
