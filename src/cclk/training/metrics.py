"""Metrics of a run: JSON lines, one for each logged step."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cclk._files import replace_text, writing
from cclk._reading import file_size, parse_json, reason
from cclk.errors import CclkError, RunError, warn

METRICS = "metrics.jsonl"


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
    tree = parse_json(line.decode())
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

    Metrics that cannot be written stop the run, which resumes from its last checkpoint without a
    gap in them.
    """

    def __init__(self, folder: Path, start: int, enabled: bool) -> None:
        self.folder, self.start, self.enabled = folder, start, enabled
        self.path = folder / METRICS

    def __enter__(self) -> MetricsWriter:
        if self.enabled:
            kept = [line for line in read_metrics(self.folder) if line["step"] <= self.start]
            replace_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))
            with writing(self.path):
                self._file = self.path.open("ab")
        return self

    def __exit__(self, *_: object) -> None:
        if self.enabled:
            with suppress(OSError):  # a full disk has been reported by then
                self._file.close()

    def add(self, line: Mapping[str, float]) -> None:
        """Log the metrics of a step."""
        if self.enabled:
            with writing(self.path):
                self._file.write(json.dumps(line).encode() + b"\n")
                self._file.flush()

    def flush(self) -> None:
        """Write to disk, before the checkpoint that follows."""
        if self.enabled:
            with writing(self.path):
                os.fsync(self._file.fileno())
