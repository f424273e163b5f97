"""The files of a run; what is wrong with one is said in a line. Imports torch only where it is used: every command imports this."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cclk.files import replace_file, replace_text


class RunError(ValueError):
    """A run folder that cannot be used; the message is one line that says what to do."""


class Interrupted(Exception):  # noqa: N818 (it is no error)
    """A signal stopped the run after it was saved."""

    def __init__(self, signum: int, step: int, folder: Path) -> None:
        super().__init__(f"stopped at step {step}, which is saved; go on with: cclk train --resume --out {folder}")
        self.signum = signum


class Stopped(Exception):  # noqa: N818 (it is no error)
    """A signal stopped several runs; what was finished is kept, what was under way is saved."""


def write_json(path: Path, content: object) -> None:
    replace_text(path, json.dumps(content, indent=2) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise RunError(f"there is no {path.name} in {path.parent}: is it the folder of a run?") from None
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
        raise RunError(f"{path} is damaged ({_first_line(error)}): delete it to go on from the checkpoint before") from error
    return content


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
