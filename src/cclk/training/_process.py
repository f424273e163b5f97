"""What training changes in its process: freed memory, signals and the number of threads."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

_WATCH_SECONDS = 0.2


def retain_freed_memory() -> None:
    """Keep freed memory in the process (glibc only).

    Returning pages and faulting them in again costs a fifth of a small network's step.
    """
    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD


def trim_memory() -> None:
    """Return freed memory to the system, so that a process that trains many runs does not grow."""
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def stop_signals() -> list[signal.Signals]:
    """The signals that stop a run: SIGINT, SIGTERM, and SIGHUP unless nohup ignores it."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals


def exit_with_parent(parent: int) -> None:
    """End this process as soon as its parent has ended, also if the parent was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="exit-with-parent", daemon=True).start()


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Record `stop_signals` in a list, so that a run can stop at a resumable point.

    A second SIGINT raises `KeyboardInterrupt`. A second SIGTERM does not: schedulers send it to a
    parent and its children, and the parent forwards it. Only the main
    thread records signals.
    """
    caught: list[int] = []

    def record(signum: int, _: object) -> None:
        if caught and signum == signal.SIGINT:
            raise KeyboardInterrupt
        caught.append(signum)

    before = {}
    with suppress(ValueError):  # not in the main thread
        before = {number: signal.signal(number, record) for number in stop_signals()}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def without_new_variables() -> Iterator[None]:
    """Remove environment variables that are set inside the block, as imports of libraries do."""
    before = set(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - before:
            del os.environ[name]


@contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Let torch compute with this number of threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
