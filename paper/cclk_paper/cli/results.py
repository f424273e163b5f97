"""`cclk-paper results`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cclk._terminal import escape
from cclk.cli.output import QUIET, notify
from cclk_paper.cli.options import RESULTS
from cclk_paper.experiments.markdown import markdown
from cclk_paper.experiments.results_page import read_results, write_page


def results(
    folder: Annotated[Path, RESULTS] = Path("results"),
    *,
    out: Annotated[Path | None, Parameter(help="Markdown file to write; default: print it")] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Render the results of all experiments as Markdown, with figures beside it.

    `cclk-paper results --out docs/results.md`

    In an existing file, only the text between `<!-- NAME -->` and `<!-- end -->` is replaced.
    """
    experiments = read_results(folder)
    if out is None:
        print(escape("\n".join(map(markdown, experiments.values()))))
        return
    write_page(experiments, out)
    notify(f"written: {out}", quiet)
