"""Results of experiments, one JSON file each: what was run, how, and what came out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cclk.experiments.plan import Size
from cclk.files import replace_text

_NEEDED = {"experiment", "size", "title", "source", "command", "version"}


class ResultError(ValueError):
    """A results file that cannot be used; the message is one line that says what to do."""


def path_of(folder: Path, name: str, size: Size) -> Path:
    """The file of an experiment: only other sizes than `cpu` are in its name."""
    return folder / (f"{name}.json" if size == "cpu" else f"{name}-{size}.json")


def key_of(settings: Mapping[str, object], split: str, seed: int, data: str = "") -> str:
    """A name for one run and where it is measured: the same settings, split, seed and data have the same key, wherever the data lie."""
    told = {name: value for name, value in settings.items() if name != "data_dir"}
    text = json.dumps([told, split, seed, *([data] if data else [])], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> dict[str, Any]:
    """The content of a results file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}): mend it, or delete it to run the experiment again") from None
    if not isinstance(content, dict) or not content.keys() >= _NEEDED or not content.keys() & {"cells", "picture"}:
        raise ResultError(f"{path} holds no result of an experiment: choose another folder")
    return content


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def experiments_in(folder: Path) -> list[Path]:
    """The results files of experiments in a folder; other JSON files are left alone."""
    return sorted(path for path in folder.glob("*.json") if '"experiment"' in path.read_text(encoding="utf-8", errors="replace")[:200])


def finished_runs(folder: Path) -> dict[str, dict[str, Any]]:
    """Every finished run in a folder of results, of any experiment, by its key."""
    runs: dict[str, dict[str, Any]] = {}
    for path in experiments_in(folder) if folder.is_dir() else []:
        for cell in read(path).get("cells", []):
            for run in [*cell["tuning"], *cell["runs"]]:
                before = runs.get(run["key"], run)  # another experiment may have measured more of the same run
                runs[run["key"]] = before | run | {"measures": before["measures"] | run["measures"]}
    return runs
