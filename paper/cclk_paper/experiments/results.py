"""Results of experiments, one JSON file each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cclk.errors import ResultError
from cclk_paper._files import replace_text
from cclk_paper.experiments.erasure import Erasure
from cclk_paper.experiments.measure import IN_PERCENT, Measure, SplitName
from cclk_paper.experiments.plan import Claim, Frontier, Overrides, Published, Size, WeightsFigure

_HEADER = ("experiment", "size", "title", "source", "command", "version", "torch", "cores")


@dataclass(frozen=True)
class CurvePoint:
    """Accuracies on the validation split during training."""

    epoch: float
    accuracy: float
    knn: float


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One finished run."""

    key: str
    """Of settings, split, seed and data: see `key_of`."""
    seed: int
    split: SplitName
    version: str
    choice: int | None = None
    """Which of the cell's choices the run used."""
    measures: Mapping[Measure, float]
    curve: tuple[CurvePoint, ...] | None = None
    train_seconds: float
    measure_seconds: float
    fault: str | None = None
    """What was wrong with the code that made the run, if that is known; shown with its table."""


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """A `Cell` of the plan with its runs."""

    row: str
    column: str
    x: float | None = None
    settings: Overrides
    paper: Published = field(default_factory=dict)
    choices: tuple[Overrides, ...] = ()
    selected: int | None = None
    """Index of the choice that was best on the validation split."""
    tuned_like: str = ""
    tuning: tuple[RunResult, ...] = ()
    """One run for each choice; in a frontier, the run on the validation split."""
    runs: tuple[RunResult, ...] = ()
    """One run for each seed."""
    erase: Erasure | None = None

    def values(self, measure: Measure) -> list[float]:
        """Return a measure of every run that has it; accuracies in percent, as in the paper."""
        factor = 100 if measure in IN_PERCENT else 1
        return [factor * run.measures[measure] for run in self.runs if measure in run.measures]


@dataclass(frozen=True, kw_only=True)
class ExperimentResult:
    """The result of an experiment: cells with their runs, or a figure."""

    experiment: str
    size: Size
    title: str
    source: str
    command: str
    version: str
    torch: str = ""
    cores: int | None = None
    note: str = ""
    seeds: tuple[int, ...] = ()
    column_seeds: Mapping[str, int] = field(default_factory=dict)
    """Column -> number of seeds, where it is not that of `seeds`."""
    split: SplitName = "test"
    measures: tuple[Measure, ...] = ()
    axis: str = ""
    common: Overrides = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    process_seconds: int = 0
    cells: tuple[CellResult, ...] = ()
    figure: WeightsFigure | None = None
    frontier: Frontier | None = None

    @property
    def columns(self) -> dict[str, list[CellResult]]:
        """The cells of each column, in order."""
        columns: dict[str, list[CellResult]] = {}
        for cell in self.cells:
            columns.setdefault(cell.column, []).append(cell)
        return columns

    def to_json(self) -> dict[str, object]:
        tree: dict[str, object] = asdict(self, dict_factory=_without_none)
        kept = (*_HEADER, "figure") if self.figure else tree
        if not self.column_seeds:
            tree.pop("column_seeds")
        return {name: value for name, value in tree.items() if name in kept}


_FORMAT = TypeAdapter(ExperimentResult)


def _without_none(fields: list[tuple[str, Any]]) -> dict[str, object]:
    return {name: value for name, value in fields if value is not None or name == "selected"}


def with_same_seeds(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells with the runs whose seed all of them have, for a comparison that the choice
    of seeds does not bias.
    """
    common = set.intersection(*({run.seed for run in cell.runs} for cell in cells))
    return [
        replace(cell, runs=tuple(run for run in cell.runs if run.seed in common)) for cell in cells
    ]


def path_of(folder: Path, name: str, size: Size) -> Path:
    """Return the file of an experiment; its name contains sizes other than `cpu`."""
    return folder / (f"{name}.json" if size == "cpu" else f"{name}-{size}.json")


def key_of(
    settings: Mapping[str, object], split: str, seed: int, data: str = "", *more: object
) -> str:
    """Hash what identifies a run and its measurement; the path of the data is not part of it.

    Args:
        settings: of the run.
        split: where it is measured.
        seed: of the run.
        data: fingerprint of data that may change.
        more: what else identifies it, if anything.
    """
    kept = {name: value for name, value in settings.items() if name != "data_dir"}
    parts = [kept, split, seed, *([data] if data else []), *more]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> ExperimentResult:
    """Read a results file."""
    try:
        text = path.read_bytes()
        result = _FORMAT.validate_json(text, strict=True)
        if not result.cells and not result.figure and b'"cells"' not in text:
            raise ValueError("cells: field required")
        json.dumps(result.to_json(), allow_nan=False)
        for number, cell in enumerate(result.cells):
            if cell.selected is not None and cell.selected not in range(len(cell.choices) or 1):
                raise ValueError(f"cells.{number}.selected: there is no choice {cell.selected}")
    except (OSError, ValueError) as error:
        raise ResultError(
            f"{path} is not a valid result of an experiment ({_reason(error)}): repair it, or"
            " delete it to run the experiment again"
        ) from None
    return result


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        field = " ".join(".".join(map(str, first["loc"])).split())[:60]
        message = first["msg"]
        message = message[0].lower() + message[1:60]
        return f"{field}: {message}" if field else message
    return getattr(error, "strerror", None) or str(error)[:200]


def write(path: Path, result: ExperimentResult) -> None:
    """Write a results file, atomically."""
    replace_text(path, json.dumps(result.to_json(), indent=1, allow_nan=False) + "\n")


def experiments_in(folder: Path) -> list[Path]:
    """Return the results files of experiments in a folder; other JSON files are ignored."""
    return sorted(path for path in folder.glob("*.json") if path.is_file() and _is_result(path))


def _is_result(path: Path) -> bool:
    """Return whether a JSON file begins as the result of an experiment."""
    try:
        with path.open("rb") as stream:
            return b'"experiment"' in stream.read(200)
    except OSError as error:
        raise ResultError(f"{path} cannot be read ({_reason(error)})") from None


def finished_runs(folder: Path) -> dict[str, RunResult]:
    """Return every finished run in a folder of results, of any experiment, by its key."""
    runs: dict[str, RunResult] = {}
    for path in experiments_in(folder) if folder.is_dir() else []:
        for cell in read(path).cells:
            for run in (*cell.tuning, *cell.runs):
                # Another experiment may have other measures of the same run.
                before = runs.get(run.key, run)
                measures = {**before.measures, **run.measures}
                runs[run.key] = replace(run, measures=measures, curve=run.curve or before.curve)
    return runs
