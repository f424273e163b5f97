"""Messages of commands, on stderr: stdout is for results."""

from __future__ import annotations

import re

from cyclopts import Parameter

from cclk._terminal import Console
from cclk.training.settings import setting_fields

_NAMES = "|".join(["preset", *(name for name, _, _ in setting_fields())])
"""The arguments that messages of the library name with a value."""
QUIET = Parameter(negative="", show_default=False, help="print only warnings and errors")

TRUST_CODE = Parameter(
    negative="",
    show_default=False,
    metavar="NAME",
    help="run package.module:thing if a file names it",
)


def with_options(text: str) -> str:
    """Return a message of the library with Python arguments written as options.

    >>> with_options("missing='drop' drops them, or steps=60, gray=True")
    '--missing drop drops them, or --steps 60, --gray'
    """

    def option(match: re.Match[str]) -> str:
        value = match[2] or match[3]
        name = f"--{match[1].replace('_', '-')}"
        return name if value == "True" else f"{name} {value}"

    return re.sub(rf"(?<![\w.-])({_NAMES})=(?:(?:'|\")([^'\"]*)(?:'|\")|([\w.]+))", option, text)


def notify(text: str, quiet: bool = False) -> None:
    """Print a line without markup or wrapping, so that paths can be copied."""
    if not quiet:
        Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
