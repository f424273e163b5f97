"""Training that is killed or stopped: by SIGKILL, by signals, and one of two processes."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.faults.bench import Bench, signal_name
from benchmarks.faults.commands import Command, alive, children
from benchmarks.faults.rows import Row

_LONG = {"steps": 300, "checkpoint_every": 10, "log_every": 7}
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DEADLINE = 60.0
"""Seconds in which a process must notice that another one is gone."""


def random_kills(bench: Bench) -> None:
    """SIGKILL at a random instant, then resume."""
    reference = bench.path("reference")
    undisturbed = {False: bench.succeed(*bench.training(reference, **_LONG)).seconds}
    if bench.scale.fresh:
        words = bench.training(bench.path("timed"), **_LONG)
        undisturbed[True] = bench.succeed(*words, fresh=True).seconds
    row = bench.row("cclk train", "SIGKILL at a random instant")
    for number in bench.each(row, range(bench.scale.kills)):
        fresh = number < 2 * bench.scale.fresh
        folder = bench.path()
        arguments = bench.training(folder, **_LONG)
        command = bench.start(*arguments, fresh=fresh)
        time.sleep(bench.random.uniform(0, undisturbed[fresh]))
        command.send(signal.SIGKILL)
        command.wait()
        done = bench.finish(folder, arguments, fresh)
        bench.judge(row, folder, done, reference, "")
        shutil.rmtree(folder)


def crash_points(bench: Bench) -> None:
    """SIGKILL right before each file operation of a training, then resume."""
    reference = bench.path("reference")
    operations = bench.points(bench.training(reference), reference)
    row = bench.row("cclk train", "SIGKILL before each of its file operations")
    row.measured["file operations"] = len(operations)
    numbers = bench.some(range(1, len(operations) + 1), bench.scale.points)
    for number in bench.each(row, numbers):
        folder = bench.path()
        arguments = bench.training(folder)
        fresh = number % 16 == 0 and bench.scale.fresh > 0
        killed = bench.crash(arguments, folder, number, fresh)
        if killed.code != -signal.SIGKILL:
            row.add("was not killed", unexpected=f"{operations[number - 1]}: {killed}")
            continue
        done = bench.finish(folder, arguments)
        bench.judge(row, folder, done, reference, "")
        shutil.rmtree(folder)
    row = bench.row("cclk train --resume", "SIGKILL before each of its file operations")
    folder = bench.interrupted()
    _rewind(folder)
    operations = bench.points(["train", "--resume", "--out", folder, "--quiet"], folder)
    numbers = bench.some(range(1, len(operations) + 1), bench.scale.points)
    for number in bench.each(row, numbers):
        folder = bench.interrupted()
        _rewind(folder)
        arguments = ["train", "--resume", "--out", folder, "--quiet"]
        bench.crash(arguments, folder, number, False)
        bench.judge(row, folder, bench.finish(folder, arguments), reference, "")
        shutil.rmtree(folder)


def _rewind(folder: Path) -> None:
    """Remove the newest checkpoint, so that steps are left."""
    max((folder / "checkpoints").glob("*.safetensors")).unlink()


def signals(bench: Bench) -> None:
    """SIGTERM, SIGINT and SIGHUP: the run is saved, exits with 128 + n, and resumes."""
    reference = bench.path("reference")
    bench.succeed(*bench.training(reference, **_LONG))
    for number in _STOPPING:
        name = signal_name(number)
        row = bench.row("cclk train", f"{name} between steps")
        for attempt in bench.each(row, range(bench.scale.signals)):
            fresh = attempt < bench.scale.fresh
            folder = bench.path()
            arguments = bench.training(folder, **_LONG)
            command = bench.start(*arguments, fresh=fresh)
            _wait_for_checkpoint(command, folder)
            time.sleep(bench.random.uniform(0, 0.1))
            _judge_stopped(bench, row, command, number, folder, arguments, reference)
    row = bench.row("cclk train", "SIGTERM, SIGINT or SIGHUP at a random instant")
    attempts = 3 * bench.scale.fresh
    for attempt in bench.each(row, range(attempts)):
        number = _STOPPING[attempt % 3]
        folder = bench.path()
        arguments = bench.training(folder, **_LONG)
        command = bench.start(*arguments, fresh=True)
        time.sleep(bench.random.uniform(0.05, 6.0))
        _judge_stopped(bench, row, command, number, folder, arguments, reference)
    if not attempts:
        bench.rows.remove(row)


def _judge_stopped(
    bench: Bench,
    row: Row,
    command: Command,
    number: int,
    folder: Path,
    arguments: list[object],
    reference: Path,
) -> None:
    began = time.perf_counter()
    sent = command.send(number)
    done = command.wait(_DEADLINE)
    begun = (folder / "settings.json").exists()
    expected = {128 + number}
    if not begun:
        expected.add(-number)  # before the command had taken over
    if not sent or (folder / "encoder.safetensors").exists():
        expected.add(0)  # it had taken its last step
    before = ""
    if done.traceback:
        before = f"traceback, {done}"
    elif done.code not in expected:
        before = f"{signal_name(number)}: expected {128 + number}, {done}"
    elif begun and done.code > 0 and (len(done.lines) != 1 or "resume" not in done.text):
        before = f"expected one line that says how to resume, {done}"
    row.most("seconds until it ended", time.perf_counter() - began)
    bench.judge(row, folder, bench.finish(folder, arguments), reference, before)
    shutil.rmtree(folder, ignore_errors=True)


def _wait_for_checkpoint(command: Command, folder: Path) -> None:
    deadline = time.perf_counter() + 120
    while not list(folder.glob("checkpoints/step-*.safetensors")) and command.running():
        if time.perf_counter() > deadline:
            return
        time.sleep(0.005)


def ranks(bench: Bench) -> None:
    """Two processes: one is killed, or one is sent a signal."""
    if not bench.scale.ranks:
        return
    changes = {"devices": 2, "steps": 600, "checkpoint_every": 50, "log_every": 50}
    reference = bench.path("reference")
    bench.succeed(*bench.training(reference, **changes), fresh=True)
    targets: dict[str, Callable[[int, list[int]], int]] = {
        "the first process": lambda first, _: first,
        "the second process": lambda _, others: others[0],
    }
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        for target, pick in targets.items():
            row = bench.row("cclk train --devices 2", f"{signal_name(number)} of {target}")
            for _ in bench.each(row, range(bench.scale.ranks)):
                folder = bench.path()
                arguments = bench.training(folder, **changes)
                command = bench.start(*arguments, fresh=True)
                _wait_for_checkpoint(command, folder)
                others = children(command.pid)
                if not others:
                    row.add("the second process was not there", unexpected=str(command.wait()))
                    continue
                began = time.perf_counter()
                os.kill(pick(command.pid, others), number)
                done = command.wait(2 * _DEADLINE)
                while any(map(alive, others)) and time.perf_counter() - began < 2 * _DEADLINE:
                    time.sleep(0.1)
                took = time.perf_counter() - began
                row.most("seconds until all ended", took)
                before = _ranks_problem(number, target, done.code, done.lines, done.traceback)
                hanging = [pid for pid in others if alive(pid)]
                for pid in hanging:
                    os.kill(pid, signal.SIGKILL)
                if hanging or done.code == 124 or took > _DEADLINE:
                    before = f"a process hangs ({took:.0f} s), {done}"
                finished = bench.finish(folder, arguments, fresh=True)
                bench.judge(row, folder, finished, reference, before)


def _ranks_problem(number: int, target: str, code: int, lines: list[str], traceback: bool) -> str:
    shown = " / ".join(lines)[-300:]
    if traceback:
        return f"traceback: {shown}"
    if number == signal.SIGKILL and target == "the first process":
        return "" if code == -number else f"code {code}: {shown}"
    if len(lines) != 1:
        return f"{len(lines)} lines: {shown}"
    if number != signal.SIGKILL and code != 128 + number:
        return f"code {code} instead of {128 + number}: {shown}"
    return ""
