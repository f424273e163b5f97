"""Made-up results and grids for the tests of the experiments: small, and every number known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cclk_paper.experiments import (
    Cell,
    CellResult,
    Experiment,
    ExperimentResult,
    Plan,
    Pool,
    RunResult,
)
from cclk_paper.experiments.job import Job
from cclk_paper.experiments.job import run as run_job
from cclk_paper.experiments.measure import Measure
from cclk_paper.experiments.progress import GridDisplay
from cclk_paper.experiments.results import CurvePoint

Measures = dict[Measure, float]
TINY = {
    "dataset": "colordigits",
    "encoder": "lenet5",
    "batch_size": 32,
    "steps": 2,
    "augmentation": "none",
}


def made(
    *cells: Cell, name: str = "made-up", claims: Any = (), axis: str = "", **options: Any
) -> Experiment:
    """An experiment with the same plan at every size."""
    options = {"seeds": 2, "common": TINY, "measures": ("accuracy", "knn")} | options
    return Experiment(
        name, "Made up", "nowhere", lambda size: Plan(cells, **options), claims=claims, axis=axis
    )


class HerePool(Pool):
    """A pool without processes, which take seconds to start: each job is run here and now."""

    def __enter__(self) -> HerePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _submit(self, job: Job, folder: Path) -> Future[RunResult | None]:
        future: Future[RunResult | None] = Future()
        future.set_result(self.found(job, folder))
        return future

    def found(self, job: Job, folder: Path) -> RunResult | None:
        return run_job(job, folder)


class FakePool(HerePool):
    """A pool that trains nothing: each job gets the measures that `answer` plans for it."""

    def __init__(self, answer: Callable[[Job], Measures]) -> None:
        super().__init__(1)
        self.answer = answer
        self.ran: list[Job] = []

    def found(self, job: Job, folder: Path) -> RunResult:
        self.ran.append(job)
        return RunResult(
            key=job.key,
            seed=job.seed,
            split=job.split,
            version="0",
            choice=job.choice,
            measures=self.answer(job),
            train_seconds=1.0,
            measure_seconds=0.5,
        )


@contextmanager
def no_display() -> Iterator[GridDisplay]:
    with GridDisplay("test", quiet=True) as display:
        yield display


def run(seed: int, measures: Measures, curve: tuple[CurvePoint, ...] | None = None) -> RunResult:
    return RunResult(
        key=f"k{seed}",
        seed=seed,
        split="test",
        version="0",
        measures=measures,
        curve=curve,
        train_seconds=1.0,
        measure_seconds=1.0,
    )


def cell(
    row: str,
    column: str,
    *measured: Measures,
    curves: Sequence[tuple[CurvePoint, ...]] = (),
    **others: Any,
) -> CellResult:
    """A cell with a run for each of the measures; others: x, paper, choices, selected."""
    runs = tuple(
        run(seed, *one)
        for seed, one in enumerate(
            zip(measured, curves, strict=True) if curves else ((one,) for one in measured)
        )
    )
    return CellResult(row=row, column=column, settings={}, runs=runs, **others)


def result(
    *cells: CellResult, measures: Sequence[Measure] = ("accuracy", "knn"), **others: Any
) -> ExperimentResult:
    """A result with as many seeds as its cells have runs."""
    seeds = tuple(range(max((len(one.runs) for one in cells), default=1)))
    return replace(
        ExperimentResult(
            experiment="made-up",
            size="cpu",
            title="Made up",
            source="nowhere",
            command="cclk-paper reproduce made-up --size cpu",
            version="0.1",
            torch="2.0",
            cores=2,
            seeds=seeds,
            measures=tuple(measures),
            process_seconds=5400,
            cells=cells,
        ),
        **others,
    )
