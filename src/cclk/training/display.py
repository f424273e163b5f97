"""What training shows while it works: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_LINE_EVERY = 10.0
"""Seconds between lines where there is no terminal to draw a bar on."""


class Display:
    """Progress of one run."""

    def __init__(self, total: int, quiet: bool) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        self.total, self.title, self.last = total, "", 0.0
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
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

    def begin(self, title: str, start: int, data: str) -> None:
        self._say(data)
        self.title, self.began, self.start = title, time.perf_counter(), start
        self.task = self.progress.add_task(title, total=self.total, completed=start, told="")
        if start:
            self._say(f"{title}: going on from step {start}")

    def show(self, line: dict[str, Any]) -> None:
        told = f"loss {line['loss']:.3f}  {line['images_per_second']:,.0f} images/s"
        if "effective_neighbors" in line:
            told += f"  neighbors {line['effective_neighbors']:.1f}"
        self.progress.update(self.task, completed=line["step"], told=told)
        now = time.perf_counter()
        if not self.console.is_terminal and (
            now - self.last > _LINE_EVERY or line["step"] == self.total
        ):
            self.last = now
            left = (
                (now - self.began) / max(line["step"] - self.start, 1) * (self.total - line["step"])
            )
            self._say(f"{self.title}: step {line['step']}/{self.total}  {told}  {left:.0f} s left")

    def _say(self, text: str) -> None:
        """As it is: categories and file names may have brackets, which would be taken for markup."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
