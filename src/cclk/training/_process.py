"""What training changes in its process: freed memory, signals and the number of threads."""

from __future__ import annotations

import copy
import ctypes
import gc
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor, nn

SAMPLES = 64
"""Largest batch on which threads are compared."""
_LEAST = 4
_ROUNDS = 3
_GAIN = 1.25
"""How many times faster fewer threads must be to be selected: a short measurement is noisy."""
_SECONDS = 0.2
"""Time of a measured step to aim at: a large network is measured on fewer samples."""
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
    """End this process as soon as its parent has ended, also if the parent was killed.

    Args:
        parent: The process id of the parent.
    """

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


def best_threads(network: nn.Module, samples: Tensor) -> int:
    """Measure the number of threads to train with, by forward and backward passes of a copy.

    On a busy machine threads wait for each other at the end of every operation, and one thread can
    be faster than two. Sums depend on how they are divided among threads, so the number is saved
    with the run. If OMP_NUM_THREADS is set, and on a GPU, nothing is measured.

    Args:
        network: The network; a copy is measured and the RNG state is restored.
        samples: A batch in the form that the network takes.
    """
    most = torch.get_num_threads()
    if most == 1 or "OMP_NUM_THREADS" in os.environ or samples.is_cuda:
        return most
    trial, batch = copy.deepcopy(network), samples[:_LEAST]
    with torch.random.fork_rng(devices=[]):

        def step() -> float:
            began = time.perf_counter()
            trial.zero_grad()
            trial(batch).square().mean().backward()
            return time.perf_counter() - began

        step()  # the first one allocates
        batch = samples[: min(max(_LEAST, int(_LEAST * _SECONDS / step())), SAMPLES)]
        return fastest(step, most)


def fastest(step: Callable[[], float], most: int) -> int:
    """The number of threads, halved from `most` on, with which a step is fastest.

    Args:
        step: Takes a step and returns its seconds.
        most: The largest number; returned unless fewer threads are clearly faster.
    """
    candidates = [most]
    while candidates[-1] > 1:
        candidates.append(candidates[-1] // 2)
    # The best, not the sum: one slow round on a quiet machine must not cost half of its speed.
    best = dict.fromkeys(candidates, math.inf)
    for number in range(_ROUNDS + 1):
        for threads in candidates:
            with computing_with(threads):
                seconds = step()
            if number:  # the first round warms up
                best[threads] = min(best[threads], seconds)
    quickest = min(candidates, key=lambda threads: best[threads])
    return quickest if best[most] > _GAIN * best[quickest] else most
