"""SIGKILL of other commands: nothing is half-written, and workers end with their parent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.bench import Bench, snapshot
from benchmarks.faults.commands import Command, alive, children
from benchmarks.faults.disks import commands_of
from benchmarks.faults.rows import Row

_GONE = 10.0
"""Seconds in which workers must have ended after their parent."""


def commands(bench: Bench) -> None:
    """SIGKILL evaluate, report, export and embed before each of their file operations."""
    run, out = bench.path(), bench.path("out")
    shutil.copytree(bench.finished, run)
    out.mkdir()
    everything = commands_of(bench, run, out)
    row = bench.row(
        "cclk evaluate, report, export, embed", "SIGKILL before each of their file operations"
    )
    for name in bench.each(row, list(everything)[: bench.scale.formats]):
        words = everything[name]
        folder = run if name == "evaluate" else out
        target = run / "evaluation.json" if name == "evaluate" else Path(str(words[-2]))
        target.unlink(missing_ok=True)
        operations = bench.points(words, folder)
        complete = target.read_bytes()
        numbers = bench.some(range(1, len(operations) + 1), bench.scale.points)
        for number in numbers:
            for old in (None, b"old"):
                target.unlink(missing_ok=True)
                if old is not None:
                    target.write_bytes(old)
                before = snapshot(folder)
                killed = bench.crash(words, folder, number, fresh=False)
                _judge(row, f"{name}, {operations[number - 1]}", folder, target, before, old,
                       complete)  # fmt: skip
                if killed.code != -signal.SIGKILL:
                    row.unexpected += 1
                    row.events.append(f"{name} was not killed, {killed}")
        target.unlink(missing_ok=True)
        if name == "evaluate":
            shutil.copy(bench.finished / target.name, target)
    row = bench.row("cclk evaluate, report, export, embed", "SIGKILL at a random instant")
    for number in bench.each(row, range(bench.scale.kills)):
        name = list(everything)[number % len(everything)]
        words = everything[name]
        folder = run if name == "evaluate" else out
        target = run / "evaluation.json" if name == "evaluate" else Path(str(words[-2]))
        target.write_bytes(b"old")
        before = snapshot(folder)
        command = bench.start(*words)
        time.sleep(bench.random.uniform(0, 1.0))
        command.send(signal.SIGKILL)
        done = command.wait()
        if done.code == 0:
            row.add("had ended")
        else:
            _judge(row, name, folder, target, before, b"old", None)


def _judge(
    row: Row,
    name: str,
    folder: Path,
    target: Path,
    before: dict[str, str],
    old: bytes | None,
    complete: bytes | None,
) -> None:
    """Count a killed command: its file is the old one or complete, and no other changed."""
    after = snapshot(folder)
    visible = {path for path in after if not Path(path).name.startswith(".")}
    key = target.relative_to(folder).as_posix()
    others = [path for path in before if path != key and after.get(path) != before[path]]
    now = target.read_bytes() if target.exists() else None
    for path in after.keys() - visible - before.keys():  # drafts, which no command reads
        (folder / path).unlink()
        row.measured["hidden drafts left behind"] = (
            row.measured.get("hidden drafts left behind", 0) + 1
        )
    if others:
        row.add("another file changed", lost=True, unexpected=f"{name}: {others[0]}")
    elif visible - before.keys() - {key}:
        row.add("a partial file", unexpected=f"{name}: {visible - before.keys()}")
    elif now == old:
        row.add("the old file, or none")
    elif complete is not None and len(now or b"") != len(complete):
        row.add("a partial file", lost=True, undetected=True, unexpected=name)
    else:
        row.add("the complete new file")


def experiments(bench: Bench) -> None:
    """SIGKILL of `cclk-paper reproduce` and `sweep`: workers end, and the command resumes."""
    if not bench.scale.experiments:
        return
    sweep = ["sweep", "--preset", "digits-infonce", "--over", "infonce:lr=1e-3,3e-3"]
    kinds: dict[str, list[object]] = {
        "reproduce": ["reproduce", "insufficient", "--size", "smoke"],
        "sweep": [*sweep, "--steps", 120, "--checkpoint-every", 10],
    }
    for name, words in kinds.items():
        words = [*words, "--workers", 2, "--quiet"]
        reference = bench.path(name)
        done = bench.succeed(*words, *_folders(reference), fresh=True)
        row = bench.row(f"cclk {name}", "SIGKILL at a random instant")
        for number in bench.each(row, range(bench.scale.experiments)):
            folder = bench.path(name)
            command = bench.start(*words, *_folders(folder), fresh=True)
            # Half of the kills early, while workers start; half while they work.
            low, high = (0.2, 0.5) if number % 2 else (0.5, 0.9)
            time.sleep(done.seconds * bench.random.uniform(low, high))
            problem = _kill_with_workers(row, command)
            partial = _partial(folder / "results")
            again = bench.run(*words, *_folders(folder), fresh=True)
            if again.code:
                row.add("cannot be continued", lost=True, unexpected=str(again))
            elif _measures(folder) != _measures(reference):
                row.add("other results", lost=True, undetected=True, unexpected=str(again))
            else:
                row.add("continued, same results", unexpected=problem or partial)


def _folders(folder: Path) -> list[object]:
    return ["--results", folder / "results", "--runs", folder / "runs"]


def _descendants(pid: int) -> list[int]:
    found = children(pid)
    return found + [below for child in found for below in _descendants(child)]


def _kill_with_workers(row: Row, command: Command) -> str:
    """Kill a command and wait for its workers; what is wrong, or ""."""
    workers = _descendants(command.pid)
    began = time.perf_counter()
    command.send(signal.SIGKILL)
    command.wait()
    while any(map(alive, workers)) and time.perf_counter() - began < 6 * _GONE:
        time.sleep(0.1)
    took = time.perf_counter() - began
    row.most("seconds until its workers had ended", took)
    left = [pid for pid in workers if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return f"workers were there for {took:.0f} s" if took > _GONE else ""


def _partial(folder: Path) -> str:
    """Results files that are not complete; "" if all are."""
    for path in folder.glob("*.json"):
        try:
            json.loads(path.read_text())
        except ValueError:
            return f"{path.name} is partial"
    return ""


def _measures(folder: Path) -> list[Sequence[object]]:
    """The measures of all runs of an experiment."""
    trees = [json.loads(path.read_text()) for path in sorted((folder / "results").glob("*.json"))]
    return [
        [run["seed"], run["measures"]]
        for tree in trees
        for cell in tree["cells"]
        for run in (*cell["tuning"], *cell["runs"])
    ]
