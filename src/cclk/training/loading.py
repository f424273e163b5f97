"""The samples of each step; image files of the next step are read while this one computes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor

from cclk.data.streamed import StreamedImages


class Loader:
    """Samples by step.

    Args:
        x: All samples.
        rows: Returns the rows of a step; called in the caller's thread.
        total: The number of steps; nothing beyond is read ahead.
    """

    def __init__(
        self, x: Tensor | StreamedImages, rows: Callable[[int], Tensor], total: int
    ) -> None:
        self.x, self.rows, self.total = x, rows, total
        self._pool = None if isinstance(x, Tensor) else ThreadPoolExecutor(1, "cclk-loader")
        self._ahead: dict[int, Future[Tensor]] = {}

    def load(self, step: int) -> Tensor:
        """The samples of a step; errors in reading them ahead are raised here."""
        if self._pool is None:
            return self.x[self.rows(step)]
        waiting = self._ahead.pop(step, None) or self._submit(self._pool, step)
        samples = waiting.result()
        if step + 1 < self.total:
            self._ahead = {step + 1: self._submit(self._pool, step + 1)}
        return samples

    def _submit(self, pool: ThreadPoolExecutor, step: int) -> Future[Tensor]:
        return pool.submit(self.x.__getitem__, self.rows(step))

    def close(self) -> None:
        """Stop reading ahead."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
