"""Checkpoints of a run: RUN/checkpoints/step-000000500.safetensors, the newest two.

A checkpoint holds the state of the `Trainer`, and the settings, data and step of its run: tensors,
and everything else as JSON in the metadata, with a digest of all that is verified. If the newest
checkpoint is damaged, the one before is used; a checkpoint of another run is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor

from cclk._files import read_tensors, write_tensors, writing
from cclk._reading import LARGEST_NUMBER, check_json, parse_json, reason
from cclk.errors import RunError, warn

CHECKPOINTS = "checkpoints"
KEPT = 2
"""How many checkpoints are kept."""
_FREE = (
    "data.data_dir", "train.devices", "train.nodes", "train.log_every", "train.checkpoint_every",
)  # fmt: skip
"""Settings that do not change the weights of a run."""


@dataclass(frozen=True)
class RunIdentity:
    """What a checkpoint must have in common with the run that resumes from it.

    Attributes:
        settings: All settings, as JSON values.
        data_fingerprint: Content hash of the dataset.
        version: Of cclk.
        processes: The number of processes.
    """

    settings: Mapping[str, object]
    data_fingerprint: str
    version: str
    processes: int


_IDENTITY = TypeAdapter(RunIdentity)


def save_checkpoint(
    folder: Path, step: int, state: Mapping[str, object], identity: RunIdentity
) -> None:
    """Write the checkpoint of a step and delete all but the newest ones."""
    tensors: dict[str, Tensor] = {}
    metadata = {
        "run": json.dumps(asdict(identity)),
        "state": json.dumps(_plain({"step": step, **state}, "", tensors)),
    }
    path = folder / CHECKPOINTS / f"step-{step:09d}.safetensors"
    write_tensors(path, tensors, metadata)
    for old in checkpoints(folder)[:-KEPT]:
        with writing(old):
            old.unlink(missing_ok=True)


def load_checkpoint(folder: Path, identity: RunIdentity) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint that is intact; None if the run has none yet."""
    paths = checkpoints(folder)
    for path in reversed(paths):
        try:
            content = _read(path)
        except RunError as error:
            warn(f"{error}; using the checkpoint before")
            continue
        _require_same_run(path, content.pop("run"), identity)
        return path, content
    if paths:
        raise RunError(f"all checkpoints of {folder} are damaged: train again, into another folder")
    return None


def _read(path: Path) -> dict[str, Any]:
    """The content of a checkpoint, if it is intact."""
    try:
        tensors, metadata = read_tensors(path)
    except OSError as error:
        raise RunError(f"{path} is damaged ({reason(error)})") from error
    try:
        state = _restored(parse_json(metadata.pop("state")), tensors)
        step, run = state["step"], check_json(_IDENTITY, parse_json(metadata.pop("run")))
        if metadata:
            raise ValueError("its metadata are unknown")  # such as a digest with a damaged name
    except Exception as error:  # it was written by someone else
        raise RunError(f"{path} is not a checkpoint ({reason(error)})") from error
    if type(step) is not int or path.stem != f"step-{step:09d}":
        raise RunError(f"{path} is damaged (it contains step {step!r})")
    return {**state, "run": run}


def _plain(node: object, name: str, tensors: dict[str, Tensor]) -> object:
    """A tree as JSON: objects stand for what JSON lacks, and tensors are collected by name."""
    match node:
        case Tensor():
            while name in tensors:  # of keys like 1 and "1"
                name += "'"
            # Copied, because .safetensors files cannot hold tensors that share memory.
            tensors[name] = node.detach().to("cpu", copy=True)
            return {"tensor": name}
        case Mapping():
            items = [[key, _plain(value, f"{name}/{key}", tensors)] for key, value in node.items()]
            return {"dict": items}
        case list() | tuple():
            values = [_plain(value, f"{name}/{i}", tensors) for i, value in enumerate(node)]
            return {"tuple": values} if isinstance(node, tuple) else values
        case float() if not abs(node) <= LARGEST_NUMBER:
            return {"float": repr(node)}
        case None | bool() | int() | float() | str():
            return node
    raise RunError(
        f"{name[1:]} of the state of the run is of type {type(node).__name__}: a checkpoint holds"
        " tensors, numbers, text, and containers of them"
    )


def _restored(node: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return the tree that `_plain` converted."""
    if isinstance(node, list):
        return [_restored(value, tensors) for value in node]
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    match kind:
        case "tensor":
            return tensors[content]
        case "dict":
            return {key: _restored(value, tensors) for key, value in content}
        case "float":
            return float(content)
        case "tuple":
            return tuple(_restored(value, tensors) for value in content)
    raise ValueError(f"it contains an object of kind {kind[:40]!r}")


def _require_same_run(path: Path, stored: RunIdentity, identity: RunIdentity) -> None:
    changed = changed_settings(stored.settings, identity.settings)
    if stored.data_fingerprint != identity.data_fingerprint:
        changed.append("the data differ")
    if changed:
        raise RunError(
            f"{path} belongs to another run: {'; '.join(changed)}. Restore the settings, or train"
            " into another folder"
        )
    for name in ("version", "processes"):
        if getattr(stored, name) != getattr(identity, name):
            warn(
                f"{path} was written with {name} {getattr(stored, name)}, and this is"
                f" {getattr(identity, name)}: weights may differ in the last digits"
            )


def changed_settings(stored: Mapping[str, object], current: Mapping[str, object]) -> list[str]:
    """Settings that would change the weights of a run and differ, a sentence each."""
    before, now = _flat(stored), _flat(current)
    return [
        f"{name} was {before[name]!r:.100} and is {now[name]!r:.100}"
        for name in sorted(before.keys() & now.keys())
        if name not in _FREE and before[name] != now[name]
    ]


def _flat(tree: Mapping[str, object]) -> dict[str, object]:
    """Settings by their full names."""
    return {
        f"{section}.{name}" if name else section: item
        for section, value in tree.items()
        for name, item in (value if isinstance(value, Mapping) else {"": value}).items()
    }


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, damaged or not, the oldest first."""
    return sorted((folder / CHECKPOINTS).glob("step-*.safetensors"))
