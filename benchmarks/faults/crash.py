"""Crash points: SIGKILL right before the n-th file operation of a process in a folder.

Python reports opens, renames and deletions to audit hooks, so the command itself is not changed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

FOLDER, NUMBER, LOG = "FAULT_FOLDER", "FAULT_NUMBER", "FAULT_LOG"
"""Environment variables: where operations count, which one is the last, and where to list them."""
_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def arm() -> None:
    """Count file operations of this process, as the environment says."""
    folder = os.path.realpath(os.environ[FOLDER]) + os.sep
    number, log = int(os.environ.get(NUMBER, 0)), os.environ.get(LOG)
    listed = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if log else None
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event not in _EVENTS or not isinstance(arguments[0], str | os.PathLike):
            return
        path = str(Path.cwd() / arguments[0])  # not resolved, which would be audited too
        if not path.startswith(folder):
            return
        flags = arguments[2] if event == "open" else _WRITING
        # Opened for reading, a draft is about to be synchronized.
        if not (isinstance(flags, int) and flags & _WRITING) and ".draft" not in path:
            return
        count += 1
        if listed is not None:
            os.write(listed, f"{event} {path.removeprefix(folder)}\n".encode())
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def plant(folder: Path) -> None:
    """Write a folder for PYTHONPATH that arms every process that is started with it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text("from benchmarks.faults.crash import arm\narm()\n")
