"""What the commands tell: a line on stderr, so that stdout holds results only."""

from __future__ import annotations

from cyclopts import Parameter
from rich.console import Console

QUIET = Parameter(negative="", show_default=False, help="print only warnings and errors")


def say(text: str, quiet: bool = False) -> None:
    """Print a line as it is: paths may hold brackets, which are no markup, and are not broken,
    so that they can be copied.
    """
    if not quiet:
        Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
