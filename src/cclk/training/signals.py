"""Ctrl-C and SIGTERM as something to be looked at between steps, so that work ends where it can
be gone on with.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """The signals that came, in a list that fills as they do; a second Ctrl-C ends everything at
    once.

    A second SIGTERM does not: schedulers send it to a parent and its children, and the parent hands
    it on.
    """
    caught: list[int] = []

    def note(signum: int, _: object) -> None:
        if caught and signum == signal.SIGINT:
            raise KeyboardInterrupt
        caught.append(signum)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: somebody else handles signals
        before = {}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
