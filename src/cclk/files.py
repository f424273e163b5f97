"""Files are written whole or not at all: a crash, a signal or a full disk never leaves half of
one in place of a good one.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cclk.extras import needed_for

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from torch import Tensor

T = TypeVar("T")


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a draft beside the file, make sure it is on the disk, then let it take
    the file's place.

    Raises:
        OSError: if it could not be written; the file is as it was before.
    """
    draft = path.with_name(f".{path.name}.draft-{os.getpid()}")
    try:
        draft.touch()
        rights = draft.stat().st_mode
        write(draft)
        if (
            draft.stat().st_mode != rights
        ):  # some libraries make files that only their owner may read
            draft.chmod(stat.S_IMODE(rights))
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(path)
    except RuntimeError as error:  # what torch makes of a failed write
        raise OSError(
            f"{path} could not be written: {str(error).strip().partition(chr(10))[0]}"
        ) from error
    except OSError as error:
        raise OSError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    replace_file(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def check_json(kind: TypeAdapter[T], tree: object) -> T:
    """The values of parsed JSON as this type.

    Raises:
        ValueError: the first field that is missing or of another type, in one line.
    """
    from pydantic import ValidationError

    try:
        return kind.validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}" if field else first["msg"]
        ) from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a .safetensors file atomically, whose bytes depend on nothing but tensors and metadata.

    The library writes metadata in the order of a hash map, which is another one in every process;
    here it is sorted.
    """
    with needed_for("writing .safetensors files"):
        from safetensors.torch import save

    content = memoryview(
        save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict(metadata))
    )
    end = 8 + int.from_bytes(
        content[:8], "little"
    )  # the file is the header's length in 8 bytes, the header as JSON, the values
    header = json.loads(bytes(content[8:end]))
    header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # values are aligned to 8 bytes

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            file.writelines([len(text).to_bytes(8, "little"), text, content[end:]])

    replace_file(path, write)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a .safetensors file.

    Raises:
        OSError: if it is missing, not of this format or damaged.
    """
    with needed_for("reading .safetensors files"):
        from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stored:
            names = stored.keys()
            return {name: stored.get_tensor(name) for name in names}, stored.metadata() or {}
    except SafetensorError as error:
        raise OSError(str(error)) from error
