"""Atomic file writes: a crash, a signal or a full disk never leaves a partial file."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cclk._extras import needed_for
from cclk.errors import CclkError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from torch import Tensor

T = TypeVar("T")
_DIGEST = "digest"


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


def check_json(kind: TypeAdapter[T], tree: object) -> T:
    """Validate parsed JSON as this type.

    Raises:
        CclkError: The first field that is missing or of another type, in one line.
    """
    from pydantic import ValidationError

    try:
        return kind.validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field, message = ".".join(map(str, first["loc"])), first["msg"]
        raise CclkError(
            f"{field}: {message[0].lower()}{message[1:]}" if field else message
        ) from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a .safetensors file atomically and reproducibly.

    The library writes metadata in the order of a hash map, which differs between processes; here
    it is sorted. A digest of values and metadata is added to the metadata.
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
    header["__metadata__"][_DIGEST] = _digest(header, [content[end:]])
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # values are aligned to 8 bytes

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            file.writelines([len(text).to_bytes(8, "little"), text, content[end:]])

    replace_file(path, write)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and metadata of a .safetensors file; a digest in it is verified.

    Raises:
        OSError: If it is missing, damaged, or not of this format.
    """
    with needed_for("reading .safetensors files"):
        from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stored:
            metadata = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise OSError(str(error)) from error
    expected = metadata.pop(_DIGEST, None)  # files of other tools have none
    if expected is not None and expected != _digest_of_file(path):
        raise OSError("its content does not match its digest")
    return tensors, metadata


def _digest_of_file(path: Path) -> str:
    """The digest that `write_tensors` would store in this file."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        del header["__metadata__"][_DIGEST]
        return _digest(header, iter(lambda: file.read(1 << 20), b""))


def _digest(header: object, values: Iterable[bytes | memoryview]) -> str:
    """SHA-256 of the header of a .safetensors file and of the values after it."""
    state = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for part in values:
        state.update(part)
    return state.hexdigest()
