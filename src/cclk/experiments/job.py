"""One run of a grid, in a process of its own: train, measure, and give back numbers."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

import cclk
from cclk.data.dataset import Dataset
from cclk.errors import Interrupted
from cclk.experiments.measure import Embed, Measure, measure
from cclk.experiments.plan import Overrides
from cclk.experiments.results import CurvePoint, RunResult, key_of
from cclk.training import engine
from cclk.training.files import read_json, write_json
from cclk.training.memory import give_back
from cclk.training.run import SETTINGS, Run, load_dataset
from cclk.training.settings import load
from cclk.training.watch import Watch


@dataclass(frozen=True)
class Job:
    """What one run needs to know."""

    title: str
    settings: Overrides
    seed: int
    split: Literal["test", "validation"]
    measures: tuple[Measure, ...]
    watch: int = 0
    choice: int | None = None
    """Which of the cell's choices this run tries."""
    data: str = ""
    """The fingerprint of data that may change."""
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_of(self.settings, self.split, self.seed, self.data))


_stopped: list[int] = []
"""Signals that came while there was no run to stop."""


def start(threads: int) -> None:
    """Prepare a worker process, which is born deaf to Ctrl-C: one that comes before its first
    run stops that run.
    """
    signal.signal(signal.SIGINT, lambda number, _: _stopped.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    torch.set_num_threads(threads)
    warnings.simplefilter(
        "ignore", cclk.CclkWarning
    )  # a grid holds settings that are bad on purpose


def run(job: Job, folder: Path) -> RunResult | None:
    """Train (or go on with) the run in its folder and measure it; None if a signal stopped it,
    which is saved.
    """
    try:
        with _stoppable():
            return None if _stopped else _run(job, folder)
    except (Interrupted, KeyboardInterrupt):
        return None
    except ValueError as error:
        raise ValueError(f"{job.title}, seed {job.seed}: {error}") from error
    finally:
        give_back()


@contextmanager
def _stoppable() -> Iterator[None]:
    """Signals end what is done here; training, which is begun in it, saves itself first."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(job: Job, folder: Path) -> RunResult:
    began = time.perf_counter()
    place = folder / job.key
    settings = load(overrides={**job.settings, "seed": job.seed})
    watch = _watch(job, load_dataset(settings)) if job.watch else None
    if (place / SETTINGS).exists():
        _data_are_in(settings.data.data_dir, place)
        done = engine.resume(place, quiet=True, watch=watch)
    else:
        done = engine.train(settings, place, command="cclk reproduce", quiet=True, watch=watch)
    trained = time.perf_counter()
    measures = measure(done.dataset, done.embed, job.measures, job.split, job.seed)
    return RunResult(
        key=job.key,
        seed=job.seed,
        split=job.split,
        version=cclk.__version__,
        choice=job.choice,
        measures={name: round(value, 6) for name, value in measures.items()},
        curve=_curve(done),
        train_seconds=round(trained - began, 1),
        measure_seconds=round(time.perf_counter() - trained, 1),
    )


def _data_are_in(folder: Path | None, place: Path) -> None:
    """Data may have moved since a run was begun."""
    begun = read_json(place / SETTINGS)
    told = None if folder is None else str(folder)
    if begun["data"]["data_dir"] != told:
        begun["data"]["data_dir"] = told
        write_json(place / SETTINGS, begun)


def _watch(job: Job, dataset: Dataset) -> Watch:
    """Both accuracies on the validation split, every so many steps."""

    def look(embed: Embed) -> dict[Measure, float]:
        return measure(dataset, embed, ("accuracy", "knn"), "validation", job.seed)

    return Watch(job.watch, lambda embed: {str(name): value for name, value in look(embed).items()})


def _curve(run: Run) -> tuple[CurvePoint, ...] | None:
    """The accuracies that were measured during training; None if none were."""
    lines = [line for line in run.metrics() if "accuracy" in line]
    return (
        tuple(
            CurvePoint(line["epoch"], round(line["accuracy"], 4), round(line["knn"], 4))
            for line in lines
        )
        or None
    )
