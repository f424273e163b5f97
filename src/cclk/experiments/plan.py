"""What an experiment is: a grid of cells, each a method in a setting, run with several seeds and
set beside what was published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from cclk.experiments.measure import Measure

Size = Literal["paper", "cpu", "smoke"]
SIZES: tuple[Size, ...] = get_args(Size)
Overrides = Mapping[str, object]
"""Settings by name, as `cclk train` takes them."""
Published = Mapping[Measure, tuple[float, float]]
"""Mean and spread of a measure in the paper."""


@dataclass(frozen=True)
class Cell:
    """One method in one setting."""

    row: str
    """The method, as a table calls it."""
    column: str
    """The dataset or recipe: the cells of one column are compared with each other."""
    settings: Overrides
    choices: tuple[Overrides, ...] = ()
    """Settings to choose among on the validation split before the seeds are run; none if there
    is nothing to choose.
    """
    tuned_like: str = ""
    """The row of the same column whose choice holds for this cell too."""
    x: float | None = None
    """Where the cell stands on the horizontal axis, if rows of this experiment are curves."""
    paper: Published = field(default_factory=dict)
    """In the paper's units: accuracies in per cent."""


@dataclass(frozen=True)
class Claim:
    """In every column, one row does better in a measure than each of the others."""

    measure: Measure
    row: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """An experiment at one size."""

    cells: tuple[Cell, ...]
    seeds: int
    common: Overrides = field(default_factory=dict)
    """Settings of all cells."""
    measures: tuple[Measure, ...] = ("accuracy", "knn")
    split: Literal["test", "validation"] = "test"
    """Where the seeds are measured; studies that choose a recipe look at validation only."""
    watch: int = 0
    """Steps between looks at the validation split on the way; 0 for none."""
    note: str = ""
    """What differs from the paper at this size."""
    whole: bool = True
    """Runs measured on test train on what was held out for choosing too."""
    data: str = ""
    """The fingerprint of data that may change, such as a file of the user's own: runs on other
    data are other runs.
    """

    def having(self, text: str) -> list[Cell]:
        """The cells with this in "row, column"."""
        return [cell for cell in self.cells if text in f"{cell.row}, {cell.column}"]


@dataclass(frozen=True)
class WeightsFigure:
    """The kernel matrix of a few samples beside the weights made of it."""

    dataset: str
    kernel: str
    colors: list[list[int]]
    panels: Mapping[str, list[list[float]]]
    """Title to matrix."""
    effective_neighbors: Mapping[str, float]
    """Title of the weights to the effective number of neighbors of the median anchor."""


@dataclass(frozen=True)
class Experiment:
    """An experiment of the registry."""

    name: str
    title: str
    source: str
    """Where in the paper its figures stand."""
    plan: Callable[[Size], Plan]
    claims: tuple[Claim, ...] = ()
    axis: str = ""
    """What `Cell.x` is."""
    figure: Callable[[Size, Path | None], WeightsFigure] | None = None
    """For a figure that needs no training: what it shows, made of data in this folder."""


def score(measures: Mapping[Measure, float]) -> float:
    """What a choice is made by: accuracy, less the share of the condition that is still readable
    where that is measured.
    """
    return measures["accuracy"] - max(0.0, measures.get("nonlinear_r2", 0.0))
