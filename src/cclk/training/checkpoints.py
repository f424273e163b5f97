"""Checkpoints of a run: RUN/checkpoints/step-000000500.ckpt, the newest two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from cclk.errors import RunError
from cclk.files import replace_file

CHECKPOINTS = "checkpoints"
KEPT = 2
"""How many checkpoints are kept."""


def save_checkpoint(folder: Path, step: int, state: dict[str, Any]) -> None:
    """Write the checkpoint of a step and delete all but the newest ones.

    Args:
        folder: The folder of the run.
        step: The number of finished steps.
        state: The state of the `Trainer`.
    """
    path = folder / CHECKPOINTS / f"step-{step:09d}.ckpt"
    replace_file(path, lambda draft: torch.save({"step": step, **state}, draft))
    for old in _checkpoints(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint from which a run resumes; None if there is none."""
    return next(reversed(_checkpoints(folder)), None)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state of the `Trainer` and the number of finished steps, `step`."""
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise RunError(
            f"{path} is damaged ({reason}): delete it to resume from the checkpoint before"
        ) from error
    return content


def _checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / CHECKPOINTS).glob("step-*.ckpt"))
