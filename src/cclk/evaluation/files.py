"""Reading and writing `evaluation.json`, whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAME = "evaluation.json"


def write_atomically(path: Path, text: str) -> None:
    """Write beside the file and then take its place, so that a reader never sees half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)  # mkstemp's files are private, a result is not
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_evaluation(run: Path, evaluation: Mapping[str, Any]) -> Path:
    """Write {"encoder": ..., "projection": ...} into a run folder; gives the file's path."""
    path = run / NAME
    write_atomically(path, json.dumps(evaluation, indent=2, allow_nan=False) + "\n")
    return path


def read_evaluation(run: Path) -> dict[str, Any] | None:
    """The evaluation of a run folder; None if it has not been evaluated yet."""
    path = run / NAME
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON ({error}): delete it and evaluate the run again") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no evaluation: delete it and evaluate the run again")
    return found
