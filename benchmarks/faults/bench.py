"""The workbench: a temporary folder with data, reference runs, and the commands under test."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.progress import Progress

from benchmarks.faults import crash
from benchmarks.faults.commands import Command, Done
from benchmarks.faults.rows import Row

T = TypeVar("T")
ENCODER = "encoder.safetensors"
_CHANGING = (".lock",)
"""What a command may write in a run folder whether it succeeds or not."""


@dataclass(frozen=True)
class Scale:
    """How often each fault is tried.

    Attributes:
        kills: SIGKILLs of a training at random instants.
        points: Most crash points of a command, evenly drawn from all.
        signals: Tries of each signal.
        fresh: How many of these tries start `python -m cclk`, not a fork.
        ranks: Tries of each fault of two processes.
        levels: Amounts of space that a full disk still has.
        formats: Most formats and commands whose disk is full or read-only.
        checkpoints: Damaged checkpoints through Python.
        checkpoint_commands: Damaged checkpoints through the command.
        files: Damaged files of each kind.
        writers: Pairs of writers.
        experiments: SIGKILLs of `cclk-paper reproduce` and `cclk-paper sweep`.
        entries: Most entry points that are offered code.
        soak_steps: Steps of the soak; 0 for none.
    """

    kills: int
    points: int
    signals: int
    fresh: int
    ranks: int
    levels: int
    formats: int
    checkpoints: int
    checkpoint_commands: int
    files: int
    writers: int
    experiments: int
    entries: int
    soak_steps: int


SCALES = {
    "full": Scale(50, 1000, 10, 2, 1, 12, 100, 500, 30, 300, 6, 2, 100, 20_000),
    "smoke": Scale(1, 3, 1, 0, 0, 2, 2, 12, 1, 12, 1, 0, 2, 0),
}


class Bench:
    """Data, reference runs and commands in a temporary folder.

    Args:
        folder: An empty folder.
        scale: How often each fault is tried.
        progress: Shows how far the benchmark is.

    Attributes:
        random: Draws the instants and places of faults.
        rows: What happened.
        notes: What could not be tried.
    """

    def __init__(self, folder: Path, scale: Scale, progress: Progress) -> None:
        self.folder, self.scale, self.progress = folder, scale, progress
        self.random = random.Random()
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self._names = itertools.count()
        self.data = folder / "data.npz"
        write_data(self.data)
        crash.plant(folder / "site")

    def row(self, group: str, fault: str) -> Row:
        """A new row of the result."""
        self.rows.append(Row(group, fault))
        return self.rows[-1]

    def each(self, row: Row, items: Sequence[T]) -> Iterator[T]:
        """Iterate with a progress bar."""
        yield from self.progress.track(items, description=f"{row.group}: {row.fault}"[:70])

    def note(self, text: str) -> None:
        """Keep and show what could not be tried."""
        self.notes.append(text)
        self.progress.console.print(f"!!! {text}", style="bold red", markup=False)

    def path(self, name: str = "run") -> Path:
        """A path that is not in use."""
        return self.folder / f"{name}-{next(self._names)}"

    def start(
        self,
        *arguments: object,
        fresh: bool = False,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        largest_file: int | None = None,
    ) -> Command:
        """Start a `cclk` command."""
        return Command(
            arguments,
            folder=folder or self.folder,
            log=self.path("log"),
            environment=environment,
            fresh=fresh,
            largest_file=largest_file,
        )

    def run(self, *arguments: object, fresh: bool = False, folder: Path | None = None) -> Done:
        """Run a `cclk` command to its end."""
        return self.start(*arguments, fresh=fresh, folder=folder).wait()

    def succeed(self, *arguments: object, fresh: bool = False) -> Done:
        """Run a `cclk` command that must succeed."""
        done = self.run(*arguments, fresh=fresh)
        if done.code:
            raise RuntimeError(f"cclk {' '.join(map(str, arguments))}: {done}")
        return done

    def training(self, out: Path, **changes: object) -> list[object]:
        """The arguments of a small training."""
        options: dict[str, object] = {
            "dataset": self.data, "encoder": "mlp", "encoder-options": "{ hidden = [16] }",
            "augmentation": "vectors", "batch-size": 32, "projection": 4, "steps": 6,
            "checkpoint-every": 2, "log-every": 2,
        } | {name.replace("_", "-"): value for name, value in changes.items()}  # fmt: skip
        words = [part for name, value in options.items() for part in (f"--{name}", value)]
        return ["train", *words, "--out", out, "--quiet"]

    @cached_property
    def finished(self) -> Path:
        """A finished run of six steps, evaluated."""
        folder = self.path("finished")
        self.succeed(*self.training(folder))
        self.succeed("evaluate", folder, "--bootstrap", 20, "--quiet")
        return folder

    @cached_property
    def others(self) -> dict[str, Path]:
        """Finished runs with one setting changed: what is different -> folder."""
        other_data = self.folder / "other-data.npz"
        write_data(other_data, seed=1)
        changes: dict[str, dict[str, object]] = {
            "another seed": {"seed": 1},
            "another learning rate": {"lr": 0.01},
            "another width": {"encoder_options": "{ hidden = [8] }"},
            "other data": {"dataset": other_data},
        }
        runs = {}
        for name, change in changes.items():
            runs[name] = self.path("other")
            self.succeed(*self.training(runs[name], **change))
        return runs

    def interrupted(self) -> Path:
        """A copy of the finished run that has not written its encoder."""
        folder = self.path()
        shutil.copytree(self.finished, folder)
        (folder / ENCODER).unlink()
        (folder / "evaluation.json").unlink()
        return folder

    def points(self, arguments: Sequence[object], watched: Path) -> list[str]:
        """The file operations of an undisturbed command in a folder."""
        log = self.path("operations")
        environment = {crash.FOLDER: str(watched), crash.LOG: str(log)}
        done = self.start(*arguments, environment=environment).wait()
        if done.code:
            raise RuntimeError(f"cclk {' '.join(map(str, arguments))}: {done}")
        return log.read_text().splitlines()

    def crash(self, arguments: Sequence[object], watched: Path, number: int, fresh: bool) -> Done:
        """Run a command that is killed right before its n-th file operation in a folder."""
        environment = {crash.FOLDER: str(watched), crash.NUMBER: str(number)}
        if fresh:
            environment["PYTHONPATH"] = str(self.folder / "site")
        return self.start(*arguments, fresh=fresh, environment=environment).wait()

    def finish(self, folder: Path, arguments: Sequence[object], fresh: bool = False) -> Done:
        """Resume a run; one that had not begun is trained."""
        begun = (folder / "settings.json").exists()
        words = ["train", "--resume", "--out", folder, "--quiet"] if begun else arguments
        return self.run(*words, fresh=fresh)

    def judge(self, row: Row, folder: Path, done: Done, reference: Path, before: str) -> None:
        """Count a run that was disturbed and finished: is it what it would have been?

        Args:
            row: Of this fault.
            folder: Of the run.
            done: The command that finished it.
            reference: An undisturbed run.
            before: What was not as documented before it was finished; "" if all was.
        """
        strays = [path.name for path in folder.rglob(".*") if path.name != ".lock"]
        if done.code:
            row.add("cannot be resumed", lost=True, unexpected=str(done))
        elif not same_run(folder, reference):
            row.add("resumed to other weights", lost=True, undetected=True, unexpected=str(done))
        elif strays:
            row.add("resumed, bit-identical", unexpected=before or f"left behind: {strays[0]}")
        else:
            row.add("resumed, bit-identical", unexpected=before)

    def some(self, items: Sequence[T], most: int) -> list[T]:
        """Evenly drawn items, and always the last one."""
        if len(items) <= most:
            return list(items)
        return [items[round((len(items) - 1) * n / (most - 1))] for n in range(most)]


def write_data(path: Path, seed: int = 0, rows: int = 200) -> None:
    """Write vectors with a label and a condition."""
    x = np.random.default_rng(seed).normal(size=(rows, 5))
    np.savez(path, x=x, y=(x[:, 0] > 0).astype(int), condition=x[:, 1])


def same_run(folder: Path, reference: Path) -> bool:
    """Whether two runs have the same encoder, byte by byte, and the same logged losses."""
    files = [path / ENCODER for path in (folder, reference)]
    if not all(file.exists() for file in files):
        return False
    losses = [
        [(line["step"], line["loss"]) for line in map(json.loads, text.splitlines())]
        for text in ((path / "metrics.jsonl").read_text() for path in (folder, reference))
    ]
    return files[0].read_bytes() == files[1].read_bytes() and losses[0] == losses[1]


def snapshot(folder: Path) -> dict[str, str]:
    """The digest of each file of a folder, but of those that any command may write."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not set(path.relative_to(folder).parts) & set(_CHANGING)
    }


def refusal(done: Done, *names: str) -> str:
    """What is wrong with a refusal: besides warnings, it must be one line with these
    names; "" if nothing is.
    """
    if done.code == 124:
        return "hangs"
    if done.code <= 0:
        return f"expected a refusal, {done}"
    if done.traceback:
        return f"traceback, {done}"
    lines = [line for line in done.lines if not line.startswith("cclk: warning: ")]
    if len(lines) != 1:
        return f"{len(lines)} lines, {done}"
    missing = [name for name in names if name.lower() not in done.text.lower()]
    return f"does not name {missing[0]}, {done}" if missing else ""


def signal_name(number: int) -> str:
    return signal.Signals(number).name


CONSOLE = Console(stderr=True)
