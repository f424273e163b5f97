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
from cclk.errors import warn

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
