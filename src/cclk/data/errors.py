"""The one error of this room."""

from __future__ import annotations


class DataError(ValueError):
    """Data that is missing, damaged or asked for wrongly; the message is one line that says what to do."""
