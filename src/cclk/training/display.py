"""Progress of training: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cclk._terminal import Console

_LINE_EVERY = 10.0
"""Seconds between lines if stderr is not a terminal."""


class Display:
    """Progress of one run."""

    def __init__(self, total: int, quiet: bool) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        self.total, self.title, self.last = total, "", 0.0
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[metrics]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def begin(self, title: str, start: int, data: str, removal: str = "") -> None:
        if removal:
            self._print(f"{title} {removal}")
        self._print(data)
        self.title, self.began, self.start = title, time.perf_counter(), start
        self.task = self.progress.add_task(title, total=self.total, completed=start, metrics="")
        if start:
            self._print(f"{title}: resuming from step {start}")

    def show(self, line: Mapping[str, float]) -> None:
        metrics = f"loss {line['loss']:.3f}  {line['samples_per_second']:,.0f} samples/s"
        if "effective_neighbors" in line:
            metrics += f"  neighbors {line['effective_neighbors']:.1f}"
        if "penalty" in line:
            metrics += f"  penalty {line['penalty']:.2f}"
        self.progress.update(self.task, completed=line["step"], metrics=metrics)
        now = time.perf_counter()
        if not self.console.is_terminal and (
            now - self.last > _LINE_EVERY or line["step"] == self.total
        ):
            self.last = now
            left = (
                (now - self.began) / max(line["step"] - self.start, 1) * (self.total - line["step"])
            )
            self._print(
                f"{self.title}: step {line['step']:.0f}/{self.total}  {metrics}  {left:.0f} s left"
            )

    def _print(self, text: str) -> None:
        """Print without markup: names of categories and files may contain brackets."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
