"""Output on a terminal: names and messages from files cannot control it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

_CONTROL = re.compile(
    # Control characters but tab and newline, marks that reverse the direction of text, separators
    # of lines, and halves of surrogate pairs, which cannot be encoded.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape(text: str) -> str:
    r"""Return text with its control characters written as escapes.

    Args:
        text: Any text, such as the name of a column.

    Example:
        >>> print(escape("age\x1b[31m"))
        age\x1b[31m
    """
    return _CONTROL.sub(lambda match: _written(ord(match[0])), text)


def _written(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Console(RichConsole):
    """A console that escapes the control characters of everything that it prints."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a renderable; those that control the terminal are rich's own."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(escape(segment.text), segment.style)
