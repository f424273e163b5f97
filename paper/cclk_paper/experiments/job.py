"""One run of a grid in a worker process: train, measure, return numbers."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

import cclk
from cclk.data.dataset import Dataset
from cclk.errors import CclkError, Interrupted
from cclk.training import loop as training
from cclk.training._process import exit_with_parent, retain_freed_memory, stop_signals, trim_memory
from cclk.training.callbacks import Callback
from cclk.training.run_folder import SETTINGS, RunFolder, load_dataset, write_settings
from cclk.training.settings import Settings, import_paths, load
from cclk_paper.experiments.erasure import Erasure, embed_inputs, erased
from cclk_paper.experiments.measure import Embed, Measure, SplitName, measure
from cclk_paper.experiments.plan import Overrides
from cclk_paper.experiments.results import CurvePoint, RunResult, key_of


@dataclass(frozen=True)
class Job:
    """The specification of one run."""

    title: str
    settings: Overrides
    seed: int
    split: SplitName
    measures: tuple[Measure, ...]
    watch: int = 0
    choice: int | None = None
    """Which of the cell's choices this run uses."""
    data: str = ""
    """Fingerprint of data that may change."""
    erase: Erasure | None = None
    rows: int = 0
    """Measure on this number of rows of each split only; 0 for all."""
    key: str = field(init=False)
    """Identifies training and measurement."""
    folder: str = field(init=False)
    """Identifies the training: jobs that measure the same encoder share its folder."""

    def __post_init__(self) -> None:
        more = [*([asdict(self.erase)] if self.erase else []), *([self.rows] if self.rows else [])]
        key = key_of(self.settings, self.split, self.seed, self.data, *more)
        object.__setattr__(self, "key", key)
        watched = f"watched every {self.watch}" if self.watch else "trained"
        folder = key_of(self.settings, watched, self.seed, self.data)
        object.__setattr__(self, "folder", folder)


_stopped: list[int] = []
"""Signals that arrived before the first run."""


def start(threads: int, parent: int) -> None:
    """Initialize a worker process, which ends with its parent.

    SIGINT is blocked when a worker is spawned, because it has no handler yet. One that arrives
    before the first run stops that run.
    """
    signal.signal(signal.SIGINT, lambda number, _: _stopped.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    exit_with_parent(parent)
    torch.set_num_threads(threads)
    retain_freed_memory()
    # A grid contains settings that are bad on purpose.
    warnings.simplefilter("ignore", cclk.CclkWarning)


def run(job: Job, folder: Path) -> RunResult | None:
    """Train or resume the run in its folder and measure it; None if a signal interrupted it."""
    try:
        with _interruptible():
            return None if _stopped else _run(job, folder)
    except (Interrupted, KeyboardInterrupt):
        return None
    except (ValueError, OSError) as error:
        raise CclkError(f"{job.title}, seed {job.seed}: {error}") from error
    finally:
        trim_memory()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let signals raise KeyboardInterrupt; training replaces this handler and saves first."""
    before = {
        number: signal.signal(number, signal.default_int_handler) for number in stop_signals()
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(job: Job, parent: Path) -> RunResult:
    began = time.perf_counter()
    settings = load(overrides={**job.settings, "seed": job.seed})
    dataset = _dataset(settings, job.data)
    if job.erase and job.erase.inputs:
        return _measured(job, dataset, embed_inputs, began)
    folder = parent / job.folder
    callback = _callback(job, dataset) if job.watch else None
    if (folder / SETTINGS).exists():
        trust = bool(import_paths(settings.model_dump()))  # named in this process
        _set_data_dir(settings.data.data_dir, folder, trust)
        done = training.resume(folder, quiet=True, callback=callback, trust_code=trust)
    else:
        done = training.train(
            settings,
            folder,
            command="cclk-paper reproduce",
            quiet=True,
            callback=callback,
            dataset=dataset,
        )
    return replace(_measured(job, dataset, done.embed_split, began), curve=_curve(done))


_loaded: dict[tuple[str, str], Dataset] = {}
"""The dataset of the last job of this process, by its settings and fingerprint."""


def _dataset(settings: Settings, data: str) -> Dataset:
    """Load the dataset of a job, unless the job before had the same one."""
    key = (settings.data.model_dump_json(), data)
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = load_dataset(settings)
    return _loaded[key]


def _measured(job: Job, dataset: Dataset, embed: Embed, began: float) -> RunResult:
    """Measure features, of which the training began at this time."""
    trained = time.perf_counter()
    if job.rows:
        parts = {
            name: split.subset(torch.linspace(0, len(split) - 1, min(job.rows, len(split))).long())
            for name in ("train", "validation", "test")
            for split in [getattr(dataset, name)]
        }
        dataset = replace(dataset, **parts)
    embed = erased(job.erase, dataset, embed) if job.erase else embed
    measures = measure(dataset, embed, job.measures, job.split, job.seed)
    return RunResult(
        key=job.key,
        seed=job.seed,
        split=job.split,
        version=cclk.__version__,
        choice=job.choice,
        measures={name: round(value, 6) for name, value in measures.items()},
        train_seconds=round(trained - began, 1),
        measure_seconds=round(time.perf_counter() - trained, 1),
    )


def _set_data_dir(data_dir: Path | None, folder: Path, trust_code: bool) -> None:
    """Record that the data were moved since a run was started."""
    run = RunFolder(folder, trust_code=trust_code)
    if run.settings.data.data_dir != data_dir:
        data = run.settings.data.model_copy(update={"data_dir": data_dir})
        write_settings(folder, run.settings.model_copy(update={"data": data}), run.metadata)


def _callback(job: Job, dataset: Dataset) -> Callback:
    """Both accuracies on the validation split every `job.watch` steps."""

    def accuracies(embed: Embed) -> Mapping[str, float]:
        measures = measure(dataset, embed, ("accuracy", "knn"), "validation", job.seed)
        return {str(name): value for name, value in measures.items()}

    return Callback(job.watch, accuracies)


def _curve(run: RunFolder) -> tuple[CurvePoint, ...] | None:
    points = (
        CurvePoint(line["epoch"], round(line["accuracy"], 4), round(line["knn"], 4))
        for line in run.metrics()
        if "accuracy" in line
    )
    return tuple(points) or None
