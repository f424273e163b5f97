"""The data folder, which holds dataset files and decoded images."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder(data_dir: Path | None = None) -> Path:
    """Return the data folder: the argument, else CCLK_DATA, else ~/.cache/cclk.

    Args:
        data_dir: a folder that takes precedence over the environment variable.
    """
    return Path(data_dir or os.environ.get("CCLK_DATA") or Path("~", ".cache", "cclk")).expanduser()
