"""Checkpoints of a run: RUN/checkpoints/step-000000500.ckpt, the newest two.

A checkpoint holds a digest of its content and the settings, data and step of its run. If the newest
one is damaged, the one before is used; a checkpoint of another run is refused.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cclk._files import replace_file, writing
from cclk._reading import check_tree, file_size, reason
from cclk.errors import RunError, warn

CHECKPOINTS = "checkpoints"
KEPT = 2
"""How many checkpoints are kept."""
_FREE = (
    "data.data_dir", "train.devices", "train.nodes", "train.log_every", "train.checkpoint_every",
)  # fmt: skip
"""Settings that do not change the weights of a run."""
_MOST_NODES = 200_000


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


def save_checkpoint(
    folder: Path, step: int, state: Mapping[str, object], identity: RunIdentity
) -> None:
    """Write the checkpoint of a step and delete all but the newest ones.

    Args:
        folder: The folder of the run.
        step: The number of finished steps.
        state: The state of the `Trainer`.
        identity: The run.
    """
    content = {"step": step, "run": asdict(identity), **state}
    content["digest"] = _digest(content)
    path = folder / CHECKPOINTS / f"step-{step:09d}.ckpt"
    replace_file(path, lambda file: torch.save(content, file))
    for old in _checkpoints(folder)[:-KEPT]:
        with writing(old):
            old.unlink(missing_ok=True)


def load_checkpoint(folder: Path, identity: RunIdentity) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint that is intact; None if the run has none yet.

    Args:
        folder: The folder of the run.
        identity: The run that resumes.

    Returns:
        The path of the checkpoint, and the state of the `Trainer` with the number of finished
        steps, `step`.
    """
    paths = _checkpoints(folder)
    for path in reversed(paths):
        try:
            content = _read(path)
        except RunError as error:
            warn(f"{error}; using the checkpoint before")
            continue
        _require_same_run(path, content.pop("run"), identity)
        return path, content
    if paths:
        raise RunError(f"all checkpoints of {folder} are damaged: delete them to train again")
    return None


def _read(path: Path) -> dict[str, Any]:
    """The content of a checkpoint, if it is intact."""
    try:
        _check_archive(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
        if type(content) is not dict or "step" not in content:
            raise ValueError("it is not a checkpoint")
        digest, step = content.pop("digest", None), content["step"]
        actual = _digest(content)
        if digest == actual:
            content["run"] = _run_identity(content.get("run"))
    except Exception as error:  # a damaged pickle can make torch raise nearly anything
        raise RunError(f"{path} is damaged ({reason(error)})") from error
    if digest is None:
        raise RunError(f"{path} has no digest (it was written by an older version)")
    if digest != actual:
        raise RunError(f"{path} is damaged (its content does not match its digest)")
    if type(step) is not int or path.name != f"step-{step:09d}.ckpt":
        raise RunError(f"{path} is damaged (it contains step {step!r})")
    return content


def _check_archive(path: Path) -> None:
    """Raise an error if an archive would expand to more than its own size."""
    size = file_size(path)
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > size:
            raise ValueError("its parts are larger than the file")


def _run_identity(tree: Any) -> RunIdentity:
    """Validate the run of a checkpoint."""
    run = RunIdentity(**tree)
    kinds = {"settings": dict, "data_fingerprint": str, "version": str, "processes": int}
    for name, kind in kinds.items():
        if type(getattr(run, name)) is not kind:
            raise ValueError(f"{name} of its run is not of type {kind.__name__}")
    check_tree(run.settings)
    return run


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
    """Settings that would change the weights of a run and differ, a sentence each.

    Args:
        stored: Settings in a file of the run; those that its version did not have are skipped.
        current: Settings of the run, in the same form.
    """
    before, now = _flat(stored), _flat(current)
    return [
        f"{name} was {_short(before[name])} and is {_short(now[name])}"
        for name in sorted(before.keys() & now.keys())
        if name not in _FREE and before[name] != now[name]
    ]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _flat(tree: Mapping[str, object]) -> dict[str, object]:
    """Settings by their full names."""
    names: dict[str, object] = {}
    for section, value in tree.items():
        if isinstance(value, Mapping):
            names |= {f"{section}.{name}": item for name, item in value.items()}
        else:
            names[section] = value
    return names


def _digest(content: Any) -> str:
    """SHA-256 of nested containers of tensors and plain values."""
    state, nodes = hashlib.sha256(), 0

    def add(node: Any) -> None:
        nonlocal nodes
        nodes += 1
        if nodes > _MOST_NODES:  # shared references can describe more than memory can hold
            raise ValueError("it contains too many values")
        if isinstance(node, Tensor):
            if node.numel() * node.element_size() > node.untyped_storage().nbytes():
                raise ValueError("a tensor has more values than the file holds")
            array = node.detach().cpu().contiguous()
            state.update(f"{array.dtype}{tuple(array.shape)}".encode())
            state.update(array.flatten().view(torch.uint8).numpy().data)
        elif isinstance(node, Mapping):
            for name in sorted(node, key=repr):
                state.update(repr(name).encode())
                add(node[name])
        elif isinstance(node, list | tuple):
            state.update(f"[{len(node)}]".encode())
            for item in node:
                add(item)
        else:
            state.update(repr(node).encode())

    add(content)
    return state.hexdigest()


def _checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / CHECKPOINTS).glob("step-*.ckpt"))
