"""Atomic file writes, and locks: a crash, a signal or a full disk never leaves a partial file.

A file is written under a temporary name, a draft, and renamed when it is complete. Every write of
this package goes through this module, so that a failure names the file and the cause.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cclk._extras import needed_for
from cclk._reading import file_size, parse_json, read_bytes, reason
from cclk.errors import RunError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from torch import Tensor

LOCK = ".lock"
"""The lock file in a folder."""
_DRAFT = f".cclk-{platform.node()}-"
"""How the names of drafts of this machine begin; the process id follows."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIGEST = "digest"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file and the cause in an `OSError` of the block."""
    try:
        yield
    except OSError as error:
        cause = error.strerror or str(error)
        raise OSError(f"{path} could not be written: {cause}") from error


def make_parent(path: Path) -> None:
    """Create the folder of a file that is going to be written."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)


def replace_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file atomically, through a temporary file in the same folder.

    Args:
        path: The file to create or replace; its folder must exist.
        write: A function that writes the content to the binary file it receives. Libraries get this
            file instead of a path, so that they cannot write to another one at the same path.

    Raises:
        OSError: If the file could not be written; it is then unchanged. Other errors of `write`
            pass through.
    """
    draft = path.parent / f"{_DRAFT}{os.getpid()}-{secrets.token_hex(4)}.draft"
    with writing(path):
        if path.exists() and not path.is_file():
            raise OSError("it is not a regular file")
        remove_stale_drafts(path.parent)
        with draft.open("x+b") as file:
            try:
                write(file)
                file.flush()
                os.fsync(file.fileno())
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
        sync_folder(path.parent)


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a binary file atomically."""
    replace_file(path, lambda file: file.write(content))


def replace_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    replace_bytes(path, text.encode())


def remove_stale_drafts(folder: Path, below: str = "") -> None:
    """Delete the drafts in a folder whose processes, which their names tell, have ended."""
    if fcntl is None:  # on Windows, signal 0 ends a process
        return
    for draft in folder.glob(f"{below}{_DRAFT}*.draft"):
        with suppress(PermissionError, ValueError, OverflowError):  # of another user
            try:
                os.kill(int(draft.name.removeprefix(_DRAFT).partition("-")[0]), 0)
            except ProcessLookupError:
                draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a renamed entry of a folder durable, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock of a folder or file, which ends with the process; a second holder is an error.

    Drafts that a killed process left in the folder and its subfolders are deleted.

    Raises:
        RunError: If it is held by another process, which the message names.
    """
    if fcntl is None:
        yield
        return
    folder = target.is_dir()
    path = target / LOCK if folder else target.with_name(f".{target.name}{LOCK}")
    with writing(path):
        descriptor = _acquire(path, target)
    try:
        remove_stale_drafts(path.parent)
        if folder:
            remove_stale_drafts(target, "*/")
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path, target: Path) -> int:
    """Open a lock file, lock it, and write who holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(descriptor, 1000).decode(errors="replace").strip()
                raise RunError(
                    f"{target} is being written by {holder or 'another process'}: wait for it to"
                    " end, or choose another folder"
                ) from None
            except OSError as error:  # not on every network file system
                if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                    raise
            if _is_at(descriptor, path):
                os.truncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its last holder has deleted it before it was locked


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a .safetensors file atomically and reproducibly, with a digest in its metadata.

    The library writes metadata in the order of a hash map, which differs between processes; here
    it is sorted. The digest is of the values and the metadata.
    """
    with needed_for("writing .safetensors files"):
        from safetensors.torch import save

    content = memoryview(
        save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict(metadata))
    )
    header, values = _parts(content)
    header["__metadata__"] = dict(sorted(metadata.items()))
    header["__metadata__"][_DIGEST] = _digest(header, values)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # values are aligned to 8 bytes
    replace_file(
        path, lambda file: file.writelines([len(text).to_bytes(8, "little"), text, values])
    )


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and metadata of a .safetensors file; a digest in it is verified first.

    Raises:
        OSError: If it is missing, damaged, or not of this format.
    """
    with needed_for("reading .safetensors files"):
        from safetensors.torch import load

    try:
        content = read_bytes(path, file_size(path))
        header, values = _parts(memoryview(content))
        metadata: dict[str, str] = header.get("__metadata__", {})
        expected = metadata.pop(_DIGEST, None)  # files of other tools have none
        if expected is not None and expected != _digest(header, values):
            raise OSError("its content does not match its digest")
        return load(content), metadata
    except OSError:
        raise
    except Exception as error:  # a damaged header can make the library raise nearly anything
        raise OSError(reason(error)) from error


def _parts(content: memoryview) -> tuple[dict[str, Any], memoryview]:
    """The header and the values of a .safetensors file, after the length of the header."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = parse_json(bytes(content[8:end]).decode())
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    return header, content[end:]


def _digest(header: object, values: memoryview) -> str:
    """SHA-256 of the header of a .safetensors file and of the values after it."""
    state = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    state.update(values)
    return state.hexdigest()
