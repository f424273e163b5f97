"""Messages of commands, on stderr: stdout is for results."""

from __future__ import annotations

from cyclopts import Parameter

from cclk._terminal import Console

QUIET = Parameter(negative="", show_default=False, help="print only warnings and errors")

TRUST_CODE = Parameter(
    negative="",
    show_default=False,
    metavar="NAME",
    help="run package.module:thing if a file names it",
)


def notify(text: str, quiet: bool = False) -> None:
    """Print a line without markup or wrapping, so that paths can be copied."""
    if not quiet:
        Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
