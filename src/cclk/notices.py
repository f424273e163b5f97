"""The one category of warning this package raises, so that users can filter it by name."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch

_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


class CclkWarning(UserWarning):
    """Something worked, but probably not as intended; the text says what to change."""


def warn(message: str) -> None:
    """Warn at the caller's own line: the first frame that is neither in this package nor in torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, CclkWarning, frame.f_code.co_filename, frame.f_lineno, registry=registry)
