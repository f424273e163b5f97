"""Run an experiment: its cells as jobs in several processes, every result written immediately.

First, cells with choices try them on the validation split; then each cell runs its seeds with the
selected settings. In a frontier, first every cell runs one seed on the validation split, and then
the selected cells run all seeds. Finished runs are not repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

import cclk
from cclk.errors import SettingsError
from cclk_paper._files import locked
from cclk_paper.experiments import results
from cclk_paper.experiments.frontier import to_run
from cclk_paper.experiments.job import Job
from cclk_paper.experiments.measure import SplitName
from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Size, score
from cclk_paper.experiments.pool import FailedRunsError, Pool
from cclk_paper.experiments.progress import GridDisplay
from cclk_paper.experiments.results import CellResult, ExperimentResult, RunResult

TUNING_SEEDS = 1
"""Seeds per choice; if one seed does not separate two choices, either is fine."""


def reproduce(
    experiment: Experiment,
    size: Size,
    pool: Pool,
    *,
    results_folder: Path,
    runs_folder: Path,
    command: str,
    seeds: int | None = None,
    overrides: Overrides | None = None,
    only: str = "",
    first_stage: bool = False,
    quiet: bool = False,
) -> ExperimentResult:
    """Run the missing runs of an experiment, write its file, and return the complete result.

    The results file and the folder of the runs are locked: a second process is refused.

    Args:
        experiment: from the registry, or a sweep.
        size: of networks, data and budget.
        pool: worker processes, already started.
        results_folder: folder of the results files.
        runs_folder: folder of the runs, from which an interrupted grid resumes.
        command: stored in the result.
        seeds: number of seeds, instead of the plan's.
        overrides: settings that replace those of every cell, such as the data folder.
        only: run only the cells that contain this text in "row, column".
        first_stage: run only what is measured on the validation split to select from.
        quiet: do not show progress.
    """
    path = results.path_of(results_folder, experiment.name, size)
    with locked(path):
        if experiment.figure is not None:
            data_dir = (overrides or {}).get("data_dir")
            figure = experiment.figure(size, Path(str(data_dir)) if data_dir else None)
            result = replace(_header(experiment, size, command), figure=figure)
            results.write(path, result)
            return result
        grid = _Grid(experiment, size, command, path, seeds, overrides, only)
        if not grid.tuning() and (first_stage or not grid.final()):
            return grid.write()
        runs = runs_folder / f"{experiment.name}-{size}"
        with locked(runs), GridDisplay(f"{experiment.name}, {size}", quiet) as display:
            failed: FailedRunsError | None = None
            try:
                pool.run(grid.tuning(), runs, grid.keep, display)
            except FailedRunsError as error:
                if not grid.plan.frontier:
                    raise
                failed = error  # a frontier is selected from the other cells
            if not first_stage:
                pool.run(grid.final(), runs, grid.keep, display)
            if failed is not None:
                grid.write()
                raise failed
        return grid.write()


def pending(
    experiment: Experiment,
    size: Size,
    *,
    results_folder: Path,
    seeds: int | None = None,
    overrides: Overrides | None = None,
    only: str = "",
) -> list[Job]:
    """Return the runs that `reproduce` would do, with the same arguments.

    Before the choices of a cell have been tried, its seeds have the settings that all choices
    share.
    """
    if experiment.figure is not None:
        return []
    path = results.path_of(results_folder, experiment.name, size)
    grid = _Grid(experiment, size, "", path, seeds, overrides, only)
    return list({job.key: job for job in [*grid.tuning(), *grid.final()]}.values())


def _header(experiment: Experiment, size: Size, command: str) -> ExperimentResult:
    return ExperimentResult(
        experiment=experiment.name,
        size=size,
        title=experiment.title,
        source=experiment.source,
        command=command,
        version=cclk.__version__,
        torch=torch.__version__,
        cores=os.cpu_count(),
    )


class _Grid:
    """The cells of an experiment and their finished runs."""

    def __init__(
        self,
        experiment: Experiment,
        size: Size,
        command: str,
        path: Path,
        seeds: int | None,
        overrides: Overrides | None,
        only: str,
    ) -> None:
        self.experiment, self.plan, self.path = experiment, experiment.plan(size), path
        self.header = _header(experiment, size, command)
        self.requested, self.seeds = seeds, seeds or self.plan.seeds
        self.overrides = overrides or {}
        self.cells = self.plan.matching(only)
        if not self.cells:
            names = dict.fromkeys(f"{cell.row}, {cell.column}" for cell in self.plan.cells)
            raise SettingsError(
                f"no cell of {experiment.name} contains {only!r}: choose from {'; '.join(names)}"
            )
        self.runs = results.finished_runs(path.parent)
        self.before = results.read(path) if path.exists() else None
        self.runs |= self._own()
        # Seeds beyond the requested number that are already finished are kept.
        self.shown = max(self.seeds, len(self.before.seeds) if self.before else 0)
        self.ran = False

    def _own(self) -> dict[str, RunResult]:
        """The finished runs of this experiment's file, as they are: another one may have measured
        the same runs again.
        """
        cells = self.before.cells if self.before else ()
        return {
            run.key: run
            for cell in cells
            for run in (*cell.tuning, *cell.runs)
            if set(self.plan.measures_of(cell.column)) <= set(run.measures)
            and (not self.plan.watch or run.curve is not None)
        }

    def tuning(self) -> list[Job]:
        """Return the runs of choices, also of cells that others are tuned like."""
        jobs = (job for cell in self.cells for job in self._choices(self._tuned(cell)))
        return [job for job in jobs if not self._finished(job)]

    def final(self) -> list[Job]:
        """Return the runs of seeds."""
        cells = self.cells
        if self.plan.frontier:
            measured = [self._cell_result(cell) for cell in self.plan.cells]
            selected = to_run(self.plan.frontier, measured)
            planned = {(cell.row, cell.column, cell.x): cell for cell in cells}
            positions = ((one.row, one.column, one.x) for one in selected)
            cells = [planned[position] for position in positions if position in planned]
        jobs = (job for cell in cells for job in self._seeds(cell, self._count(cell)))
        return [job for job in jobs if not self._finished(job)]

    def keep(self, job: Job, run: RunResult) -> None:
        self.runs[job.key] = run
        self.ran = True
        self.write()

    def write(self) -> ExperimentResult:
        """Write the result so far, with runs that other experiments have added meanwhile."""
        self.runs = results.finished_runs(self.path.parent) | self.runs
        result = self.result()
        results.write(self.path, result)
        return result

    def result(self) -> ExperimentResult:
        cells = tuple(self._cell_result(cell) for cell in self.plan.cells)
        runs = {run.key: run for cell in cells for run in (*cell.tuning, *cell.runs)}.values()
        return replace(
            self._signed(),
            note=self.plan.note,
            seeds=tuple(range(self.shown)),
            column_seeds={
                column: max(count, self.shown if count > self.plan.seeds else self.requested or 0)
                for column, count in self.plan.column_seeds.items()
            },
            split=self.plan.split,
            measures=self.plan.all_measures,
            axis=self.experiment.axis,
            common=self.plan.common,
            claims=self.experiment.claims,
            frontier=self.plan.frontier,
            process_seconds=round(sum(run.train_seconds + run.measure_seconds for run in runs)),
            cells=cells,
        )

    def _signed(self) -> ExperimentResult:
        """Return the header, with command and versions of the process that did the work."""
        if self.before is None or (self.ran and self.seeds >= self.shown):
            return self.header
        kept = ("command",) if self.ran else ("command", "version", "torch", "cores")
        return replace(self.header, **{name: getattr(self.before, name) for name in kept})

    def _cell_result(self, cell: Cell) -> CellResult:
        source = self._tuned(cell)
        ready = not source.choices or self._selected(source) is not None
        tuning = [job for job in self._choices(cell) if self._finished(job)]
        count = max(self._count(cell), self.shown, self.plan.column_seeds.get(cell.column, 0))
        seeds = [job for job in self._seeds(cell, count) if ready and self._finished(job)]
        return CellResult(
            **vars(cell),
            selected=self._selected(cell),
            tuning=tuple(replace(self.runs[job.key], choice=job.choice) for job in tuning),
            runs=tuple(replace(self.runs[job.key], choice=None) for job in seeds),
        )

    def _choices(self, cell: Cell) -> Iterator[Job]:
        """The runs that try the choices of a cell; none if there is only one choice.

        In a frontier, one run of the cell itself, from which cells are selected.
        """
        plan, count = self.plan, len(cell.choices)
        if plan.frontier:
            yield from self._seeds(cell, TUNING_SEEDS, "validation")
            return
        for number, choice in enumerate(cell.choices if count > 1 else ()):
            settings = {**plan.common, **cell.settings, **choice, **self.overrides}
            title = f"{cell.row}, {cell.column}, choice {number + 1} of {count}"
            for seed in range(TUNING_SEEDS):
                yield Job(
                    title,
                    settings,
                    seed,
                    "validation",
                    plan.measures,
                    choice=number,
                    data=plan.data,
                    erase=cell.erase,
                    rows=plan.rows,
                )

    def _selected(self, cell: Cell) -> int | None:
        """Return the index of the best choice, the first of equals; None until all were tried."""
        if len(cell.choices) == 1:
            return 0
        if self.plan.frontier:
            return None
        scores: dict[int, float] = {}
        for job in self._choices(cell):
            if not self._finished(job):
                return None
            assert job.choice is not None
            measures = self.runs[job.key].measures  # another experiment may have measured more
            value = score({name: measures[name] for name in self.plan.measures})
            scores[job.choice] = scores.get(job.choice, 0.0) + value
        return max(scores, key=lambda number: scores[number]) if scores else None

    def _tuned(self, cell: Cell) -> Cell:
        """Return the cell whose choices are tried: this one, or the one it is tuned like."""
        return self.plan.cell(cell.tuned_like, cell.column) if cell.tuned_like else cell

    def _count(self, cell: Cell) -> int:
        """Return the number of seeds of a cell."""
        return self.requested or self.plan.column_seeds.get(cell.column, self.plan.seeds)

    def _seeds(self, cell: Cell, seeds: int, split: SplitName | None = None) -> Iterator[Job]:
        """The runs of a cell; they are measured on the split of the plan by default."""
        plan, source = self.plan, self._tuned(cell)
        selected = None if plan.frontier else self._selected(source)
        best = source.choices[selected] if selected is not None else {}
        # Rows held out for selection are trained on in the end, unless they are still evaluated on.
        full = plan.train_on_holdout and plan.split == "test" and not plan.watch
        holdout = {"holdout": 0} if full else {}
        settings = {**plan.common, **cell.settings, **best, **holdout, **self.overrides}
        position = "" if cell.x is None else f", {cell.x:g}"
        title = f"{cell.row}, {cell.column}{position}"
        for seed in range(seeds):
            yield Job(
                title,
                settings,
                seed,
                split or plan.split,
                plan.measures_of(cell.column),
                plan.watch,
                data=plan.data,
                erase=cell.erase,
                rows=plan.rows,
            )

    def _finished(self, job: Job) -> bool:
        run = self.runs.get(job.key)
        return (
            run is not None
            and set(job.measures) <= set(run.measures)
            and (not job.watch or run.curve is not None)
        )
