"""Single-threaded fits: results and speed do not depend on the number of cores or their load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread inside the block.

    Threads that wait for each other in small products spin: on a busy machine two were 15 times
    slower than one.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
