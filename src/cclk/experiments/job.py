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
from cclk.training import train as training
from cclk.training._process import give_back, keep_freed
from cclk.training.callbacks import Callback
from cclk.training.run_folder import SETTINGS, RunFolder, load_dataset, write_settings
from cclk.training.settings import load


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
    keep_freed()
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
    callback = _callback(job, load_dataset(settings)) if job.watch else None
    if (place / SETTINGS).exists():
        _data_are_in(settings.data.data_dir, place)
        done = training.resume(place, quiet=True, callback=callback)
    else:
        done = training.train(
            settings, place, command="cclk reproduce", quiet=True, callback=callback
        )
    trained = time.perf_counter()
    measures = measure(done.dataset, done.embed_split, job.measures, job.split, job.seed)
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
    """Record the folder of the data in a run that was started with another one."""
    run = RunFolder(place)
    if run.settings.data.data_dir != folder:
        data = run.settings.data.model_copy(update={"data_dir": folder})
        write_settings(place, run.settings.model_copy(update={"data": data}), run.metadata)


def _callback(job: Job, dataset: Dataset) -> Callback:
    """Both accuracies on the validation split, every so many steps."""

    def look(embed: Embed) -> dict[Measure, float]:
        return measure(dataset, embed, ("accuracy", "knn"), "validation", job.seed)

    return Callback(
        job.watch, lambda embed: {str(name): value for name, value in look(embed).items()}
    )


def _curve(run: RunFolder) -> tuple[CurvePoint, ...] | None:
    """The accuracies that were measured during training; None if none were."""
    lines = [line for line in run.metrics() if "accuracy" in line]
    return (
        tuple(
            CurvePoint(line["epoch"], round(line["accuracy"], 4), round(line["knn"], 4))
            for line in lines
        )
        or None
    )
