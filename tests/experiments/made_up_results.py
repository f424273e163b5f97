"""Made-up results and grids for the tests of the experiments: small, and every number known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cclk.experiments import Cell, Experiment, Plan, Pool
from cclk.experiments.display import GridDisplay
from cclk.experiments.job import Job
from cclk.experiments.job import run as run_job

TINY = {"dataset": "colordigits", "encoder": "lenet5", "batch_size": 32, "steps": 2, "augmentation": "none"}


def made(*cells: Cell, name: str = "made-up", claims: Any = (), axis: str = "", **options: Any) -> Experiment:
    """An experiment with the same plan at every size."""
    options = {"seeds": 2, "common": TINY, "measures": ("accuracy", "knn")} | options
    return Experiment(name, "Made up", "nowhere", lambda size: Plan(cells, **options), claims=claims, axis=axis)


class HerePool(Pool):
    """A pool without processes, which take seconds to start: each job is run here and now."""

    def __enter__(self) -> HerePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _hand_out(self, job: Job, folder: Path) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(self.found(job, folder))
        return future

    def found(self, job: Job, folder: Path) -> dict[str, Any] | None:
        return run_job(job, folder)


class FakePool(HerePool):
    """A pool that trains nothing: each job gets the measures that `answer` plans for it."""

    def __init__(self, answer: Callable[[Job], dict[str, float]]) -> None:
        super().__init__(1)
        self.answer = answer
        self.ran: list[Job] = []

    def found(self, job: Job, folder: Path) -> dict[str, Any]:
        self.ran.append(job)
        found: dict[str, Any] = {"key": job.key, "seed": job.seed, "split": job.split, "version": "0", "measures": self.answer(job)}
        if job.choice is not None:
            found["choice"] = job.choice
        return found | {"train_seconds": 1.0, "measure_seconds": 0.5}


@contextmanager
def no_display() -> Iterator[GridDisplay]:
    with GridDisplay("test", quiet=True) as display:
        yield display


def run(seed: int, measures: dict[str, float], **others: Any) -> dict[str, Any]:
    """A finished run as it stands in a results file."""
    about = {"key": f"k{seed}", "seed": seed, "split": "test", "version": "0", "train_seconds": 1.0, "measure_seconds": 1.0}
    return about | {"measures": measures} | others


def cell(row: str, column: str, *measured: dict[str, float], **others: Any) -> dict[str, Any]:
    """A cell as it stands in a results file; others: x, paper, choices, chosen, curves."""
    curves = others.pop("curves", [None] * len(measured))
    runs = [run(seed, one, **({"curve": curve} if curve else {})) for seed, (one, curve) in enumerate(zip(measured, curves, strict=True))]
    plain = {"row": row, "column": column, "settings": {}, "paper": {}, "choices": [], "chosen": None, "tuned_like": "", "tuning": []}
    return plain | {"runs": runs} | others


def result(*cells: dict[str, Any], measures: Sequence[str] = ("accuracy", "knn"), **others: Any) -> dict[str, Any]:
    """A results file's content, with as many seeds as its cells have runs."""
    seeds = list(range(max((len(one["runs"]) for one in cells), default=1)))
    return {
        "experiment": "made-up", "size": "cpu", "title": "Made up", "source": "nowhere", "command": "cclk reproduce made-up --size cpu",
        "version": "0.1", "torch": "2.0", "cores": 2, "note": "", "seeds": seeds, "split": "test", "measures": list(measures), "axis": "",
        "common": {}, "claims": [], "process_seconds": 5400, "cells": list(cells),
    } | others  # fmt: skip
