"""Metrics of a run: JSON lines, one for each logged step, and the same for TensorBoard."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cclk._extras import needed_for
from cclk._files import make_parent, open_log, replace_text, writing
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
    text = text.replace("images_per_second", "samples_per_second")
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

    Metrics that cannot be written stop the run, which resumes from its last checkpoint without a
    gap in them. TensorBoard's copy of them cannot stop it.

    Args:
        folder: The folder of the run.
        start: The number of finished steps.
        enabled: False in all processes but the first.
    """

    def __init__(self, folder: Path, start: int, enabled: bool) -> None:
        self.folder, self.start, self.enabled = folder, start, enabled
        self.path = folder / METRICS

    def __enter__(self) -> MetricsWriter:
        if self.enabled:
            kept = [line for line in read_metrics(self.folder) if line["step"] <= self.start]
            replace_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))
            self._file = open_log(self.path)
            self._board = _Board(self.folder / TENSORBOARD, self.start + 1)
        return self

    def __exit__(self, *_: object) -> None:
        if self.enabled:
            with suppress(OSError):  # a full disk has been reported by then
                self._file.close()
            self._board.close()

    def add(self, line: Mapping[str, float]) -> None:
        """Log the metrics of a step."""
        if self.enabled:
            with writing(self.path):
                self._file.write(json.dumps(line).encode() + b"\n")
                self._file.flush()
            self._board.add(line)

    def flush(self) -> None:
        """Write to disk, before the checkpoint that follows."""
        if self.enabled:
            with writing(self.path):
                os.fsync(self._file.fileno())


class _Board:
    """An event file of TensorBoard; if it cannot be written, one warning is emitted.

    `SummaryWriter` writes in a thread, in which a full disk prints a traceback and stops the run.

    Args:
        folder: The folder of the event files.
        start: The first step; TensorBoard drops earlier files' events from it on.
    """

    def __init__(self, folder: Path, start: int) -> None:
        with needed_for("training"):
            from tensorboard.compat.proto.event_pb2 import (  # type: ignore[import-untyped]
                Event,
                SessionLog,
            )
            from tensorboard.compat.proto.summary_pb2 import (  # type: ignore[import-untyped]
                Summary,
            )
            from tensorboard.summary.writer.record_writer import (  # type: ignore[import-untyped]
                RecordWriter,
            )
        self._event, self._summary = Event, Summary
        name = f"events.out.tfevents.{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}"
        self.path, self._writer = folder / name, None
        try:
            make_parent(self.path)
            self._writer = RecordWriter(open_log(self.path))
        except OSError as error:
            self._stop(error)
        self._write(Event(file_version="brain.Event:2"))
        self._write(Event(step=start, session_log=SessionLog(status=SessionLog.START)))

    def add(self, line: Mapping[str, float]) -> None:
        """Log the metrics of a step."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in line.items()
            if name != "step"
        ]
        self._write(self._event(step=int(line["step"]), summary=self._summary(value=values)))

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()

    def _write(self, event: Any) -> None:
        if self._writer is not None:
            event.wall_time = time.time()
            try:
                with writing(self.path):
                    self._writer.write(event.SerializeToString())
                    self._writer.flush()
            except OSError as error:
                self._stop(error)

    def _stop(self, error: OSError) -> None:
        self.close()
        self._writer = None
        warn(f"{error}; training continues without TensorBoard")


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
