"""The data folder, which holds dataset files and decoded images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_reading_only: ContextVar[bool] = ContextVar("reading_only", default=False)


def data_folder(data_dir: Path | None = None) -> Path:
    """Return the data folder: the argument, else CCLK_DATA, else ~/.cache/cclk.

    Args:
        data_dir: a folder that takes precedence over the environment variable.
    """
    return Path(data_dir or os.environ.get("CCLK_DATA") or Path("~", ".cache", "cclk")).expanduser()


@contextmanager
def reading_only() -> Iterator[None]:
    """Create nothing outside the user's own data folder for datasets that the block loads.

    The settings of a run folder may come from a stranger, who must not decide where files are
    created.
    """
    token = _reading_only.set(True)
    try:
        yield
    finally:
        _reading_only.reset(token)


def may_write(folder: Path) -> bool:
    """Return whether files of datasets may be created in a folder.

    Args:
        folder: any folder; inside `reading_only` it must be in the user's own data folder.
    """
    return not _reading_only.get() or folder.resolve().is_relative_to(data_folder().resolve())
