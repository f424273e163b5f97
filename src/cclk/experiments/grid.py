"""Running an experiment: its cells as jobs on several processes, every finished one kept at
once, none run twice.

First every cell that has choices tries them on the validation split; then each cell runs its seeds
with what was chosen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

import cclk
from cclk.experiments import results
from cclk.experiments.job import Job
from cclk.experiments.plan import Cell, Experiment, Overrides, Size, score
from cclk.experiments.pool import Pool
from cclk.experiments.progress import GridDisplay
from cclk.experiments.results import CellResult, ExperimentResult, RunResult

TUNING_SEEDS = 1
"""Seeds per choice. One: choices that one seed cannot tell apart do not matter."""


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
    quiet: bool = False,
) -> ExperimentResult:
    """Run what is missing of an experiment, write its file, and return the complete result.

    Args:
        seeds: how many, instead of the plan's own.
        overrides: settings that replace those of every cell, such as where data lie.
        only: run nothing but the cells that have this in "row, column".
    """
    path = results.path_of(results_folder, experiment.name, size)
    if experiment.figure is not None:
        where = (overrides or {}).get("data_dir")
        figure = experiment.figure(size, Path(str(where)) if where else None)
        result = replace(_header(experiment, size, command), figure=figure)
        results.write(path, result)
        return result
    grid = _Grid(experiment, size, command, path, seeds, overrides, only)
    with GridDisplay(f"{experiment.name}, {size}", quiet) as display:
        for stage in (grid.tuning, grid.final):
            pool.run(stage(), runs_folder / f"{experiment.name}-{size}", grid.keep, display)
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
    """The runs that `reproduce` would do; a cell's own, before it has chosen, have the settings
    that all choices share.
    """
    if experiment.figure is not None:
        return []
    grid = _Grid(
        experiment,
        size,
        "",
        results.path_of(results_folder, experiment.name, size),
        seeds,
        overrides,
        only,
    )
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
    """The cells of an experiment and what is known of them."""

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
        self.seeds, self.overrides, self.only = (
            seeds or self.plan.seeds,
            dict(overrides or {}),
            only,
        )
        self.found = results.finished_runs(path.parent)
        self.before = results.read(path) if path.exists() else None
        # If there are more seeds already than were asked for, they stay.
        self.shown = max(self.seeds, len(self.before.seeds) if self.before else 0)
        self.ran = False

    def tuning(self) -> list[Job]:
        """The choices not tried yet, those that another cell's choice depends on included."""
        return [
            job
            for cell in self._asked()
            for job in self._choices(self._tuned(cell))
            if not self._known(job)
        ]

    def final(self) -> list[Job]:
        """The seeds not run yet."""
        return [
            job
            for cell in self._asked()
            for job in self._seeds(cell, self.seeds)
            if not self._known(job)
        ]

    def _asked(self) -> list[Cell]:
        found = self.plan.having(self.only)
        if not found:
            names = dict.fromkeys(f"{cell.row}, {cell.column}" for cell in self.plan.cells)
            raise ValueError(
                f"--only {self.only!r} is in none of the cells of {self.experiment.name}:"
                f" {'; '.join(names)}"
            )
        return found

    def keep(self, job: Job, found: RunResult) -> None:
        self.found[job.key] = found
        self.ran = True
        self.write()

    def write(self) -> ExperimentResult:
        """Write the result so far into its file, together with runs that another process has
        added meanwhile.
        """
        self.found = results.finished_runs(self.path.parent) | self.found
        result = self.result()
        results.write(self.path, result)
        return result

    def result(self) -> ExperimentResult:
        """The result so far."""
        cells = tuple(self._cell_result(cell) for cell in self.plan.cells)
        every = {run.key: run for cell in cells for run in (*cell.tuning, *cell.runs)}
        return replace(
            self._signed(),
            note=self.plan.note,
            seeds=tuple(range(self.shown)),
            split=self.plan.split,
            measures=self.plan.measures,
            axis=self.experiment.axis,
            common=self.plan.common,
            claims=self.experiment.claims,
            process_seconds=round(
                sum(run.train_seconds + run.measure_seconds for run in every.values())
            ),
            cells=cells,
        )

    def _signed(self) -> ExperimentResult:
        """The header; a command that adds nothing keeps the command and versions of the one that
        did the work.
        """
        if self.before is None or (self.ran and self.seeds >= self.shown):
            return self.header
        header = replace(self.header, command=self.before.command)
        if self.ran:
            return header
        return replace(
            header, version=self.before.version, torch=self.before.torch, cores=self.before.cores
        )

    def _cell_result(self, cell: Cell) -> CellResult:
        waits = bool(self._tuned(cell).choices) and self._chosen(self._tuned(cell)) is None
        return CellResult(
            **vars(cell),
            chosen=self._chosen(cell),
            tuning=tuple(
                replace(self.found[job.key], choice=job.choice)
                for job in self._choices(cell)
                if self._known(job)
            ),
            runs=(
                ()
                if waits
                else tuple(
                    replace(self.found[job.key], choice=None)
                    for job in self._seeds(cell, self.shown)
                    if self._known(job)
                )
            ),
        )

    def _choices(self, cell: Cell) -> Iterator[Job]:
        if len(cell.choices) == 1:  # nothing to choose
            return
        for number, choice in enumerate(cell.choices):
            for seed in range(TUNING_SEEDS):
                settings = {**self.plan.common, **cell.settings, **choice, **self.overrides}
                title = f"{cell.row}, {cell.column}, choice {number + 1} of {len(cell.choices)}"
                yield Job(
                    title,
                    settings,
                    seed,
                    "validation",
                    self.plan.measures,
                    choice=number,
                    data=self.plan.data,
                )

    def _chosen(self, cell: Cell) -> int | None:
        """The number of the best choice once all were tried; the first of equals."""
        if len(cell.choices) == 1:
            return 0
        tried: dict[int, list[float]] = {}
        for job in self._choices(cell):
            if not self._known(job):
                return None
            assert job.choice is not None
            measured = self.found[job.key].measures  # another experiment may have measured more
            tried.setdefault(job.choice, []).append(
                score({name: measured[name] for name in self.plan.measures})
            )
        return max(tried, key=lambda number: sum(tried[number])) if tried else None

    def _tuned(self, cell: Cell) -> Cell:
        """The cell whose choice holds: this one, or the one it follows."""
        if not cell.tuned_like:
            return cell
        return next(
            other
            for other in self.plan.cells
            if (other.row, other.column) == (cell.tuned_like, cell.column)
        )

    def _chosen_settings(self, cell: Cell) -> Overrides:
        """What the choice on the validation split says."""
        source = self._tuned(cell)
        chosen = self._chosen(source)
        return source.choices[chosen] if chosen is not None else {}

    def _seeds(self, cell: Cell, seeds: int) -> Iterator[Job]:
        best = self._chosen_settings(cell)
        # What was held out for choosing is trained on in the end, by every method, unless something
        # still looks at it.
        whole = (
            {"holdout": 0}
            if self.plan.whole and self.plan.split == "test" and not self.plan.watch
            else {}
        )
        for seed in range(seeds):
            settings = {**self.plan.common, **cell.settings, **best, **whole, **self.overrides}
            where = cell.column if cell.x is None else f"{cell.column}, {cell.x:g}"
            yield Job(
                f"{cell.row}, {where}",
                settings,
                seed,
                self.plan.split,
                self.plan.measures,
                self.plan.watch,
                data=self.plan.data,
            )

    def _known(self, job: Job) -> bool:
        run = self.found.get(job.key)
        return (
            run is not None
            and set(job.measures) <= set(run.measures)
            and (not job.watch or run.curve is not None)
        )
