"""How many threads a run computes with: as many as asked for, else all cores, or fewer if a
short measurement says that is faster.

On a busy machine threads wait for each other at the end of every operation, and one thread can be
faster than two. Sums depend on how they are divided among threads, so the number is kept with the
run: a resumed run computes as it began.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_ROUNDS = 5
_GAIN = 1.1
"""How many times faster fewer threads must be to be selected: a measurement this short is noisy."""
SAMPLES = 64
"""At most this many samples are used to measure."""
_SECONDS = 0.2
"""About how long a measured step may take: a large network is measured on fewer samples."""
_LEAST = 4


@contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Let torch compute with this many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def best_threads(network: nn.Module, samples: Tensor) -> int:
    """The number of threads to train a network with, measured by forward and backward passes of
    a copy on a few samples.

    OMP_NUM_THREADS is taken as a decision: with it, and on a GPU, nothing is measured.
    """
    most = torch.get_num_threads()
    if most == 1 or "OMP_NUM_THREADS" in os.environ or samples.is_cuda:
        return most
    # A copy, and no random state: the run that follows must not depend on what was measured.
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
    """The number of threads, halved from `most` on, with which a step is fastest; `most` unless
    fewer are clearly faster.

    Args:
        step: Takes a step and returns its seconds.
    """
    candidates = [most]
    while candidates[-1] > 1:
        candidates.append(candidates[-1] // 2)
    # The sum, not the best: on a busy machine the slow rounds are the ones in which threads wait
    # for each other.
    total = dict.fromkeys(candidates, 0.0)
    for number in range(_ROUNDS + 1):
        for threads in candidates:
            with computing_with(threads):
                seconds = step()
            if number:  # the first round warms up
                total[threads] += seconds
    quickest = min(candidates, key=lambda threads: total[threads])
    return quickest if total[most] > _GAIN * total[quickest] else most
