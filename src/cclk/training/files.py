"""The files of a run; what is wrong with one is said in a line. Imports torch only where it is
used: every command imports this.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cclk.errors import RunError
from cclk.files import replace_file, replace_text


def write_json(path: Path, content: object) -> None:
    replace_text(path, json.dumps(content, indent=2) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise RunError(
            f"there is no {path.name} in {path.parent}: is it the folder of a run?"
        ) from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {_first_line(error)}") from error


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    import torch

    replace_file(path, lambda draft: torch.save(content, draft))


def read_checkpoint(path: Path) -> dict[str, Any]:
    import torch

    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise RunError(
            f"{path} is damaged ({_first_line(error)}): delete it to go on from the checkpoint"
            " before"
        ) from error
    return content


@dataclass(frozen=True)
class Before:
    """What a folder was before a run began in it, so that a run that cannot begin leaves nothing
    behind.
    """

    folder: Path
    missing: list[Path]
    """The folder and its parents, those that do not exist."""
    entries: set[str]

    @classmethod
    def of(cls, folder: Path) -> Before:
        entries = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
        return cls(
            folder, [path for path in (folder, *folder.parents) if not path.exists()], entries
        )

    def restore(self, names: Iterable[str]) -> None:
        """Delete what has these names, and folders that are empty; nothing that was there before."""
        for path in (self.folder / name for name in names if name not in self.entries):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.exists():
                path.unlink()
        for path in self.missing:
            with suppress(OSError):  # somebody else has put something there, or nothing was made
                path.rmdir()


def make_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{path} cannot be made: {error.strerror}; choose another --out") from error
    if not os.access(path, os.W_OK):
        raise RunError(f"{path} cannot be written to: choose another --out")
    return path


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
