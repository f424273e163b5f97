"""The results page: a block of Markdown for each experiment, with its figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cclk.errors import ResultError
from cclk_paper._files import replace_text
from cclk_paper.experiments import results
from cclk_paper.experiments.figures import draw
from cclk_paper.experiments.markdown import markdown
from cclk_paper.experiments.registry import EXPERIMENTS
from cclk_paper.experiments.results import ExperimentResult


def read_results(folder: Path) -> dict[str, ExperimentResult]:
    """The results at size cpu or paper in a folder, by their names on the page."""
    if not folder.is_dir():
        raise ResultError(
            f"there is no folder {folder}: run an experiment first, such as cclk-paper"
            " reproduce fair --size smoke"
        )
    named: dict[str, ExperimentResult] = {}
    for result in map(results.read, results.experiments_in(folder)):
        if result.size != "smoke":
            named[result.experiment + ("" if result.size == "cpu" else f"-{result.size}")] = result
    if not named:
        raise ResultError(
            f"{folder} contains no results at size cpu or paper: run cclk-paper reproduce first"
        )
    order = {name: number for number, name in enumerate(EXPERIMENTS)}
    return dict(
        sorted(named.items(), key=lambda item: (order.get(item[1].experiment, len(order)), item[0]))
    )


def write_page(named: Mapping[str, ExperimentResult], out: Path) -> None:
    """Write the page and its figures, in the folder `figures` beside it.

    Args:
        named: Results by their names on the page.
        out: The page. In an existing one, only the blocks of these results are replaced.
    """
    page = out.read_text(encoding="utf-8") if out.exists() else "# Results\n"
    for name, result in named.items():
        figures = draw(replace(result, experiment=name), out.parent / "figures")
        images = [
            f"![{result.title}]({path.relative_to(out.parent).as_posix()})" for path in figures
        ]
        lines = [f"<!-- {name} -->", markdown(result).rstrip(), *([""] if images else []), *images]
        block = "\n".join([*lines, "<!-- end -->"])
        parts = re.split(rf"<!-- {re.escape(name)} -->\n.*?<!-- end -->", page, flags=re.DOTALL)
        page = block.join(parts) if len(parts) > 1 else f"{page.rstrip()}\n\n{block}\n"
    replace_text(out, page)
