"""`cclk` commands as processes: fresh (`python -m cclk`), or forked from one that imported cclk.

Starting a process and importing torch takes seconds; a fork takes none and runs the same `main`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import ROOT
from benchmarks.faults import crash

_FORKS = multiprocessing.get_context("forkserver")
_PRELOAD = [
    "benchmarks.faults.preload",
    *(f"cclk.cli.{name}" for name in ("main", "train", "evaluate", "report", "export", "embed")),
]
_FORKS.set_forkserver_preload(_PRELOAD)
TIMEOUT = 300.0


@dataclass(frozen=True)
class Done:
    """A command that has ended.

    Attributes:
        code: Its exit code; -n if signal n killed it.
        text: What it printed to stdout and stderr.
        seconds: How long it ran.
    """

    code: int
    text: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        """The lines it printed, without empty ones."""
        return [line for line in self.text.splitlines() if line.strip()]

    @property
    def traceback(self) -> bool:
        """Whether it printed a traceback."""
        return "Traceback (most recent call last)" in self.text

    def __str__(self) -> str:
        shown = " / ".join(self.lines[-2:])
        return f"code {self.code}: {shown[-300:]}"


class Command:
    """A running `cclk` command.

    Args:
        arguments: Of `cclk`.
        folder: The working folder.
        log: The file that receives stdout and stderr.
        environment: Variables to add.
        fresh: Whether to start `python -m cclk` instead of a fork.
        largest_file: The size that no file may exceed, in place of a full disk.
    """

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        folder: Path,
        log: Path,
        environment: Mapping[str, str] | None = None,
        fresh: bool = False,
        largest_file: int | None = None,
    ) -> None:
        words, self.log, self.began = [str(part) for part in arguments], log, time.perf_counter()
        variables = dict(environment or {}) | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
        log.unlink(missing_ok=True)
        self._forked, self._fresh = None, None
        if fresh:
            path = [variables.pop("PYTHONPATH", ""), str(ROOT / "src"), str(ROOT)]
            variables["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
            with log.open("wb") as file:
                self._fresh = subprocess.Popen(
                    [sys.executable, "-m", "cclk", *words],
                    cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                    env=os.environ | variables, preexec_fn=lambda: _limit(largest_file),
                )  # fmt: skip
            self.pid = self._fresh.pid
        else:
            self._forked = _FORKS.Process(
                target=_forked, args=(words, folder, log, variables, largest_file)
            )
            self._forked.start()
            assert self._forked.pid is not None
            self.pid = self._forked.pid

    def running(self) -> bool:
        """Whether it has not ended."""
        if self._fresh is not None:
            return self._fresh.poll() is None
        return self._forked is not None and self._forked.is_alive()

    def send(self, number: int) -> bool:
        """Send a signal; False if it has ended."""
        if not self.running():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def wait(self, timeout: float = TIMEOUT) -> Done:
        """Wait for its end; after the timeout it is killed, and the code is 124."""
        code: int | None
        if self._fresh is not None:
            try:
                code = self._fresh.wait(timeout)
            except subprocess.TimeoutExpired:
                self._fresh.kill()
                self._fresh.wait()
                code = 124
        else:
            assert self._forked is not None
            self._forked.join(timeout)
            code = self._forked.exitcode
            if code is None:
                self._forked.kill()
                self._forked.join()
                code = 124
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return Done(code, text, time.perf_counter() - self.began)


def children(pid: int) -> list[int]:
    """The child processes of a process."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split() for line in listed.splitlines())
    return [int(row[0]) for row in rows if int(row[1]) == pid and not row[2].startswith("Z")]


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(listed) and not listed.startswith("Z")


def _limit(largest_file: int | None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored below nohup
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    if largest_file is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))


def _forked(
    words: list[str],
    folder: Path,
    log: Path,
    variables: Mapping[str, str],
    largest_file: int | None,
) -> None:
    """Run the command in this process, which was forked for it."""
    os.environ.update(variables)
    os.chdir(folder)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    _limit(largest_file)
    sys.argv = ["cclk", *words]
    from cclk.cli.main import main

    if crash.FOLDER in variables:
        crash.arm()
    sys.exit(main(words))
