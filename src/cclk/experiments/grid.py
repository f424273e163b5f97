"""Running an experiment: its cells as jobs on several processes, every finished one kept at once, none run twice.

First every cell that has choices tries them on the validation split; then each cell runs its seeds with what was chosen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import cclk
from cclk.experiments import results
from cclk.experiments.display import GridDisplay
from cclk.experiments.job import Job
from cclk.experiments.plan import Cell, Experiment, Overrides, Size, score
from cclk.experiments.pool import Pool

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
) -> dict[str, Any]:
    """Run what is missing of an experiment and give back its whole result, which is then in its file.

    Args:
        seeds: how many, instead of the plan's own.
        overrides: settings that replace those of every cell, such as where data lie.
        only: run nothing but the cells that have this in "row, column".
    """
    path = results.path_of(results_folder, experiment.name, size)
    about: dict[str, Any] = {
        "experiment": experiment.name, "size": size, "title": experiment.title, "source": experiment.source, "command": command,
        "version": cclk.__version__, "torch": torch.__version__, "cores": os.cpu_count(),
    }  # fmt: skip
    if experiment.picture is not None:
        where = (overrides or {}).get("data_dir")
        content = about | {"picture": experiment.picture(size, Path(str(where)) if where else None)}
        results.write(path, content)
        return content
    grid = _Grid(experiment, size, about, path, seeds, overrides, only)
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
    """The runs that `reproduce` would do; a cell's own, before it has chosen, have the settings that all choices share."""
    if experiment.picture is not None:
        return []
    grid = _Grid(experiment, size, {}, results.path_of(results_folder, experiment.name, size), seeds, overrides, only)
    return list({job.key: job for job in [*grid.tuning(), *grid.final()]}.values())


class _Grid:
    """The cells of an experiment and what is known of them."""

    def __init__(
        self,
        experiment: Experiment,
        size: Size,
        about: dict[str, Any],
        path: Path,
        seeds: int | None,
        overrides: Overrides | None,
        only: str,
    ) -> None:
        self.experiment, self.plan, self.about, self.path = experiment, experiment.plan(size), about, path
        self.seeds, self.overrides, self.only = seeds or self.plan.seeds, dict(overrides or {}), only
        self.found = results.finished_runs(path.parent)
        self.before = results.read(path) if path.exists() else {}
        # Fewer seeds asked for than are there already: they stay.
        self.shown = max(self.seeds, len(self.before.get("seeds", ())))
        self.ran = False

    def tuning(self) -> list[Job]:
        """The choices not tried yet, those that another cell's choice depends on included."""
        return [job for cell in self._asked() for job in self._choices(self._tuned(cell)) if not self._known(job)]

    def final(self) -> list[Job]:
        """The seeds not run yet."""
        return [job for cell in self._asked() for job in self._seeds(cell, self.seeds) if not self._known(job)]

    def _asked(self) -> list[Cell]:
        found = self.plan.having(self.only)
        if not found:
            names = dict.fromkeys(f"{cell.row}, {cell.column}" for cell in self.plan.cells)
            raise ValueError(f"--only {self.only!r} is in none of the cells of {self.experiment.name}: {'; '.join(names)}")
        return found

    def keep(self, job: Job, found: dict[str, Any]) -> None:
        self.found[job.key] = found
        self.ran = True
        self.write()

    def write(self) -> dict[str, Any]:
        """The result so far, into its file. What another process has put there meanwhile stays."""
        self.found = results.finished_runs(self.path.parent) | self.found
        content = self.content()
        results.write(self.path, content)
        return content

    def content(self) -> dict[str, Any]:
        """The result so far."""
        cells = [self._told(cell) for cell in self.plan.cells]
        every = {run["key"]: run for cell in cells for run in [*cell["tuning"], *cell["runs"]]}
        return self._about() | {
            "note": self.plan.note,
            "seeds": list(range(self.shown)),
            "split": self.plan.split,
            "measures": list(self.plan.measures),
            "axis": self.experiment.axis,
            "common": dict(self.plan.common),
            "claims": [{"measure": claim.measure, "row": claim.row, "others": list(claim.others)} for claim in self.experiment.claims],
            "process_seconds": round(sum(run["train_seconds"] + run["measure_seconds"] for run in every.values())),
            "cells": cells,
        }

    def _about(self) -> dict[str, Any]:
        """By which command and version; one that adds nothing does not put its name to the work of another."""
        theirs = ("version", "torch", "cores", "command") if not self.ran else ("command",) if self.seeds < self.shown else ()
        return self.about | {name: self.before[name] for name in theirs if name in self.before}

    def _told(self, cell: Cell) -> dict[str, Any]:
        told: dict[str, Any] = {"row": cell.row, "column": cell.column}
        if cell.x is not None:
            told["x"] = cell.x
        told |= {"settings": dict(cell.settings), "paper": {name: list(value) for name, value in cell.paper.items()}}
        waits = bool(self._tuned(cell).choices) and self._chosen(self._tuned(cell)) is None
        tuning = [self.found[job.key] | {"choice": job.choice} for job in self._choices(cell) if self._known(job)]
        chosen = self._chosen(cell)
        told |= {"choices": [dict(choice) for choice in cell.choices], "chosen": chosen, "tuned_like": cell.tuned_like, "tuning": tuning}
        runs = [] if waits else [self.found[job.key] for job in self._seeds(cell, self.shown) if self._known(job)]
        return told | {"runs": [{key: value for key, value in run.items() if key != "choice"} for run in runs]}

    def _choices(self, cell: Cell) -> Iterator[Job]:
        if len(cell.choices) == 1:  # nothing to choose
            return
        for number, choice in enumerate(cell.choices):
            for seed in range(TUNING_SEEDS):
                settings = {**self.plan.common, **cell.settings, **choice, **self.overrides}
                title = f"{cell.row}, {cell.column}, choice {number + 1} of {len(cell.choices)}"
                yield Job(title, settings, seed, "validation", self.plan.measures, choice=number, data=self.plan.data)

    def _chosen(self, cell: Cell) -> int | None:
        """The number of the best choice once all were tried; the first of equals."""
        if len(cell.choices) == 1:
            return 0
        tried: dict[int, list[float]] = {}
        for job in self._choices(cell):
            if not self._known(job):
                return None
            assert job.choice is not None
            measured = self.found[job.key]["measures"]  # another experiment may have measured more
            tried.setdefault(job.choice, []).append(score({name: measured[name] for name in self.plan.measures}))
        return max(tried, key=lambda number: sum(tried[number])) if tried else None

    def _tuned(self, cell: Cell) -> Cell:
        """The cell whose choice holds: this one, or the one it follows."""
        if not cell.tuned_like:
            return cell
        return next(other for other in self.plan.cells if (other.row, other.column) == (cell.tuned_like, cell.column))

    def _chosen_settings(self, cell: Cell) -> Overrides:
        """What the choice on the validation split says."""
        source = self._tuned(cell)
        chosen = self._chosen(source)
        return source.choices[chosen] if chosen is not None else {}

    def _seeds(self, cell: Cell, seeds: int) -> Iterator[Job]:
        best = self._chosen_settings(cell)
        # What was held out for choosing is trained on in the end, by every method, unless something still looks at it.
        whole = {"holdout": 0} if self.plan.whole and self.plan.split == "test" and not self.plan.watch else {}
        for seed in range(seeds):
            settings = {**self.plan.common, **cell.settings, **best, **whole, **self.overrides}
            where = cell.column if cell.x is None else f"{cell.column}, {cell.x:g}"
            yield Job(f"{cell.row}, {where}", settings, seed, self.plan.split, self.plan.measures, self.plan.watch, data=self.plan.data)

    def _known(self, job: Job) -> bool:
        run = self.found.get(job.key)
        return run is not None and set(job.measures) <= set(run["measures"]) and (not job.watch or "curve" in run)
