"""Metrics of a run: JSON lines, one for each logged step, and the same for TensorBoard."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cclk._extras import needed_for
from cclk._files import replace_text
from cclk.errors import RunError

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The logged metrics of a run; a last line that a crash cut off is dropped."""
    path = folder / METRICS
    lines: list[dict[str, float]] = []
    with suppress(ValueError):
        for line in path.read_text().splitlines() if path.exists() else ():
            lines.append(json.loads(line.replace("effective_partners", "effective_neighbors")))
    return lines


class MetricsWriter:
    """Writes metrics from a step on; lines that an interrupted run logged after it are dropped.

    Args:
        folder: The folder of the run.
        start: The number of finished steps.
        enabled: False in all processes but the first.
    """

    def __init__(self, folder: Path, start: int, enabled: bool) -> None:
        self.folder, self.start, self.enabled = folder, start, enabled

    def __enter__(self) -> MetricsWriter:
        if self.enabled:
            kept = [line for line in read_metrics(self.folder) if line["step"] <= self.start]
            path = self.folder / METRICS
            replace_text(path, "".join(json.dumps(line) + "\n" for line in kept))
            self._file = path.open("a")
            with needed_for("training"):
                from torch.utils.tensorboard import SummaryWriter

            board = str(self.folder / TENSORBOARD)
            self._board = SummaryWriter(board, purge_step=self.start + 1)
        return self

    def __exit__(self, *_: object) -> None:
        if self.enabled:
            with suppress(OSError):  # a full disk has been reported by then
                self._file.close()
            self._board.close()

    def add(self, line: Mapping[str, float]) -> None:
        """Log the metrics of a step."""
        if self.enabled:
            self._file.write(json.dumps(line) + "\n")
            for name, value in line.items():
                if name != "step":
                    self._board.add_scalar(name, value, line["step"])

    def flush(self) -> None:
        """Write to disk, before the checkpoint that follows."""
        if self.enabled:
            try:
                self._file.flush()
            except OSError as error:
                raise RunError(
                    f"{self.folder / METRICS} could not be written: {error.strerror};"
                    " earlier checkpoints are intact"
                ) from error


class Clock:
    """Steps per second since the last call."""

    def __init__(self, step: int) -> None:
        self.restart(step)

    def speed(self, step: int) -> float:
        """Steps per second since the clock was started or last read."""
        steps, seconds = step - self._step, time.perf_counter() - self._time
        self.restart(step)
        return steps / max(seconds, 1e-9)

    def restart(self, step: int) -> None:
        """Start again from this step."""
        self._step, self._time = step, time.perf_counter()
