"""`cclk report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cclk.cli.output import QUIET, TRUST_CODE, notify


def report(
    runs: Annotated[list[Path], Parameter(help="folders of runs", negative="")],
    *,
    out: Annotated[Path, Parameter(help="the page to write")] = Path("report.html"),
    trust_code: Annotated[list[str] | None, TRUST_CODE] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Show runs side by side on one HTML page that needs no network.

    The page has settings, curves, accuracy against leakage, embeddings and weights.
    """
    from cclk.run import Run

    first, *others = [Run(folder, trust_code=trust_code or False) for folder in runs]
    notify(f"written: {first.report(out, beside=others).resolve()}", quiet)
