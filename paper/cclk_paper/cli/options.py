"""Options and output that the commands share."""

from __future__ import annotations

import sys

from cyclopts import Parameter
from rich.markdown import Markdown

from cclk._terminal import Console
from cclk.errors import SettingsError
from cclk_paper.experiments import ExperimentResult
from cclk_paper.experiments.markdown import markdown

RESULTS = Parameter(help="folder of the results files")
RUNS = Parameter(help="folder of the runs, from which an interrupted grid resumes")
WORKERS = Parameter(
    help="runs at a time; default: one per core, each with one thread, or one where there is a GPU"
)
_PIPED_WIDTH = 160


def show(result: ExperimentResult, quiet: bool) -> None:
    """Print the tables of a result; in a file they are as wide as they need."""
    if not quiet:
        width = None if sys.stdout.isatty() else _PIPED_WIDTH
        Console(width=width).print(Markdown(markdown(result)))


def require_positive(**numbers: int | None) -> None:
    """Raise an error if an option is less than 1."""
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise SettingsError(f"--{name} is {value}: it must be at least 1")
