"""Progress of a grid: a bar over its runs, and a line for each finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cclk._terminal import Console
from cclk_paper.experiments.measure import Measure


class GridDisplay:
    """Progress over the runs of an experiment."""

    def __init__(self, title: str, quiet: bool) -> None:
        self.title = title
        self.console = Console(stderr=True, quiet=quiet)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.fields[running]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.progress.add_task(title, total=0, running="")

    def __enter__(self) -> GridDisplay:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def begin(self, runs: int) -> None:
        """Add to the number of runs."""
        total = self.progress.tasks[0].total or 0
        self.progress.update(self.task, total=total + runs)

    def working(self, titles: Sequence[str]) -> None:
        self.progress.update(self.task, running=" | ".join(titles))

    def finished(
        self, title: str, seed: int, measures: Mapping[Measure, float], seconds: float
    ) -> None:
        self.progress.advance(self.task)
        done, total = int(self.progress.tasks[0].completed), int(self.progress.tasks[0].total or 0)
        shown = "  ".join(
            f"{name} {value:.3f}" for name, value in measures.items() if not name.endswith("mse")
        )
        self.console.print(
            f"{self.title} {done}/{total}: {title}, seed {seed}: {shown}  ({seconds:.0f} s)",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def failed(self, message: str) -> None:
        self.progress.advance(self.task)
        self.console.print(
            f"{self.title}: {message}", style="red", markup=False, highlight=False, soft_wrap=True
        )
