"""What the commands tell: a line on stderr, so that stdout holds results only."""

from __future__ import annotations

from rich.console import Console


def say(text: str, quiet: bool = False) -> None:
    """Print a line as it is: paths may hold brackets, which are no markup, and are not broken, so that they can be copied."""
    if not quiet:
        Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
