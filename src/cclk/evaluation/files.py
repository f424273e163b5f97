"""Reading and writing `evaluation.json`, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cclk.files import replace_text

NAME = "evaluation.json"


def write_evaluation(run: Path, evaluation: Mapping[str, Any]) -> Path:
    """Write {"encoder": ..., "projection": ...} into a run folder; gives the file's path."""
    path = run / NAME
    replace_text(path, json.dumps(evaluation, indent=2, allow_nan=False) + "\n")
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
