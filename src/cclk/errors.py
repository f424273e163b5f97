"""Errors and the warning of this package; messages name the problem and the remedy.

All errors are `CclkError`, and so `ValueError`, except `Interrupted` and `Stopped`, which report
signals.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

LONGEST = 300
"""Characters of the longest message, whatever it quotes."""
_PART = 50


def shortened(message: str, longest: int = LONGEST) -> str:
    """Return a message of at most `longest` characters.

    Of a longer one, the middle of the longest parts, such as paths, is left out; if that is not
    enough, the middle of the message: its start names the problem, and its end the remedy.
    """
    parts, excess = message.split(" "), len(message) - longest
    for number in sorted(range(len(parts)), key=lambda number: -len(parts[number])):
        part = parts[number]
        if excess <= 0 or len(part) <= _PART:
            break
        parts[number] = f"{part[:16]}...{part[19 - _PART :]}"
        excess -= len(part) - _PART
    message = " ".join(parts)
    if excess > 0:
        message = f"{message[: longest // 2 - 3]} ... {message[-longest // 2 + 2 :]}"
    return message


class CclkError(ValueError):
    """Base class of all errors of this package; long messages are shortened."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class DataError(CclkError):
    """Data that are missing, damaged, or requested with wrong options."""


class SettingsError(CclkError):
    """Settings that are unknown, invalid, or do not fit the data."""


class RunError(CclkError):
    """A run folder that cannot be created, read or continued."""


class FeatureError(CclkError):
    """Features that cannot be extracted, or a feature file that does not fit its dataset."""


class ResultError(CclkError):
    """A results file of an experiment that cannot be read."""


class Interrupted(Exception):  # noqa: N818 (a signal is not an error)
    """Training was stopped by a signal, after it was saved."""

    def __init__(self, signum: int, step: int, folder: Path) -> None:
        super().__init__(
            f"stopped at step {step}, which is saved; resume with: cclk train --resume --out"
            f" {folder}"
        )
        self.signum = signum


class Stopped(Exception):  # noqa: N818 (a signal is not an error)
    """Several runs were stopped by a signal; finished runs are kept, unfinished ones are saved."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


class CclkWarning(UserWarning):
    """A call that works, but probably not as intended; the message names what to change."""


def warn(message: str) -> None:
    """Emit a `CclkWarning` at the caller's line: the first frame outside this package and torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in (
        "cclk",
        "torch",
    ):
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        shortened(message), CclkWarning, frame.f_code.co_filename, frame.f_lineno, registry=registry
    )
