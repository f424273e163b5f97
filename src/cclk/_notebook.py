"""Results that show themselves in a notebook."""

from __future__ import annotations

from html import escape


class Shown:
    """A result that a notebook and an interactive prompt show as `print` does."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
