"""`cclk-paper`: the commands, with the exit codes and messages of `cclk`."""

from __future__ import annotations

import sys

from cclk.cli.main import Program
from cclk.cli.main import main as run

PAPER = Program(
    "cclk-paper",
    "The experiments of the CCL-K paper, and benchmarks beyond it.",
    "cclk_paper.cli",
    {
        "features": "Run an image encoder over a dataset and keep its features as the condition of"
        " a run.",
        "reproduce": "Run experiments of the paper and print their results beside the published"
        " figures.",
        "bench": "Compare ways to remove a condition from features: utility at the same leakage.",
        "results": "Render the results of all experiments as Markdown, with figures beside it.",
        "sweep": "Draw accuracy against leakage, for methods over values of one of their settings.",
    },
    needs_arguments=("sweep",),
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The arguments of the command line; by default those of this process.
    """
    return run(arguments, PAPER)


if __name__ == "__main__":
    sys.exit(main())
