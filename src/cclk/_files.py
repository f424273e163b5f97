"""Atomic file writes: a crash, a signal or a full disk never leaves a partial file."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cclk._extras import needed_for
from cclk._reading import file_size, reason

if TYPE_CHECKING:
    from torch import Tensor


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically, through a temporary file in the same folder.

    Args:
        path: The file to create or replace.
        write: A function that writes the content to the path it receives.

    Raises:
        OSError: If the file could not be written; it is then unchanged.
    """
    draft = path.with_name(f".{path.name}.draft-{os.getpid()}")
    try:
        draft.touch()
        mode = draft.stat().st_mode
        write(draft)
        if draft.stat().st_mode != mode:  # some libraries create files that only the owner can read
            draft.chmod(stat.S_IMODE(mode))
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(path)
    except (OSError, RuntimeError) as error:  # torch raises RuntimeError
        reason = getattr(error, "strerror", None) or str(error).strip().partition("\n")[0]
        raise OSError(f"{path} could not be written: {reason}") from error
    finally:
        draft.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    replace_file(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a .safetensors file atomically and reproducibly.

    The library writes metadata in the order of a hash map, which differs between processes; here
    it is sorted.
    """
    with needed_for("writing .safetensors files"):
        from safetensors.torch import save

    content = memoryview(
        save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict(metadata))
    )
    # The file is the length of the header in 8 bytes, the header as JSON, and the values.
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8:end]))
    header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # values are aligned to 8 bytes

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            file.writelines([len(text).to_bytes(8, "little"), text, content[end:]])

    replace_file(path, write)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and metadata of a .safetensors file.

    Raises:
        OSError: If it is missing, damaged, or not of this format.
    """
    with needed_for("reading .safetensors files"):
        from safetensors import safe_open

    file_size(path)  # a pipe or device might never end
    try:
        with safe_open(path, framework="pt") as stored:
            names = stored.keys()
            return {name: stored.get_tensor(name) for name in names}, stored.metadata() or {}
    except Exception as error:  # a damaged header can make the library raise nearly anything
        raise OSError(reason(error)) from error
