"""The samples of each step; image files of the next step are read while this one computes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from torch import Tensor

from cclk.data.streamed import StreamedImages


class StepRows(NamedTuple):
    """The rows of a step."""

    batch: Tensor
    """The batch of all processes."""
    further: Tensor
    """Rows from which only the penalty learns."""
    own: Tensor
    """Those of both that this process computes."""


class Loader:
    """Rows and samples by step."""

    def __init__(
        self, x: Tensor | StreamedImages, draw: Callable[[int], StepRows], total: int
    ) -> None:
        self.x, self.draw, self.total = x, draw, total
        self._pool = None if isinstance(x, Tensor) else ThreadPoolExecutor(1, "cclk-loader")
        self._ahead: dict[int, tuple[StepRows, Future[Tensor]]] = {}

    def load(self, step: int) -> tuple[StepRows, Tensor]:
        """The rows of a step, and the samples of the own ones; raises errors of reading ahead."""
        if self._pool is None:
            rows = self.draw(step)
            return rows, self.x[rows.own]
        ahead = step in self._ahead
        rows, waiting = self._ahead.pop(step) if ahead else self._submit(self._pool, step)
        samples = waiting.result()
        if step + 1 < self.total:
            self._ahead = {step + 1: self._submit(self._pool, step + 1)}
        return rows, samples

    def _submit(self, pool: ThreadPoolExecutor, step: int) -> tuple[StepRows, Future[Tensor]]:
        rows = self.draw(step)
        return rows, pool.submit(self.x.__getitem__, rows.own)

    def close(self) -> None:
        """Stop reading ahead."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
