"""The folder of dataset files and decoded images."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder(data_dir: Path | None = None) -> Path:
    """The folder of all data files: the argument, else CCLK_DATA, else ~/.cache/cclk."""
    return Path(data_dir or os.environ.get("CCLK_DATA") or Path("~", ".cache", "cclk")).expanduser()
