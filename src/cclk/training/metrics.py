"""Metrics of a run: JSON lines, one for each logged step, and the same for TensorBoard."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cclk._extras import needed_for
from cclk._files import replace_text
from cclk._reading import file_size, parse_json, reason
from cclk.errors import CclkError, RunError, warn

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The logged metrics of a run.

    A last line that a crash cut off is dropped, and so are damaged lines, with a warning.
    """
    path = folder / METRICS
    if not path.exists():
        return []
    lines: list[dict[str, float]] = []
    damaged: list[int] = []
    try:
        file_size(path)
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    lines.append(_parse_line(line))
                except ValueError:
                    if line.endswith(b"\n"):
                        damaged.append(number)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {reason(error)}") from error
    if damaged:
        warn(
            f"{path}: {len(damaged)} damaged lines are ignored, the first is line {damaged[0]};"
            " curves lack these steps"
        )
    return lines


def _parse_line(line: bytes) -> dict[str, float]:
    """Return the metrics of one line: numbers by name, among them the step."""
    text = line.decode().replace("effective_partners", "effective_neighbors")
    tree = parse_json(text)
    if not isinstance(tree, dict) or not all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in tree.values()
    ):
        raise CclkError("a line must be an object of numbers")
    step = tree.get("step")
    if not isinstance(step, int) or step < 0:
        raise CclkError("a line needs its step")
    return tree


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
