"""Atomic file writes, and locks: a crash, a signal or a full disk never leaves a partial file.

A file is written under a temporary name, a draft, and renamed when it is complete. Every write of
this package goes through this module, so that each failure names the file and the cause.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import platform
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cclk._extras import needed_for
from cclk._reading import file_size, reason
from cclk.errors import RunError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from torch import Tensor

LOCK = ".lock"
"""The lock file in a folder."""
_DRAFTS = ".cclk-*.draft"
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIGEST = "digest"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file and the cause in an `OSError` of the block.

    Args:
        path: The file or folder that the block writes.
    """
    try:
        yield
    except OSError as error:
        cause = error.strerror or str(error)
        raise OSError(f"{path} could not be written: {cause}") from error


def make_parent(path: Path) -> None:
    """Create the folder of a file that is going to be written.

    Args:
        path: The file.
    """
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
    with writing(path):
        if path.exists() and not path.is_file():
            raise OSError("it is not a regular file")
        remove_stale_drafts(path.parent)
        draft, descriptor = _open_draft(path.parent)
    try:
        raw = _Draft(descriptor, "r+b")
        with io.BufferedRandom(raw) as file:
            try:
                write(file)
            except Exception:
                if raw.failure is None:
                    raise
            with writing(path):
                file.flush()
                if raw.failure is not None:
                    raise raw.failure
                os.fsync(descriptor)
                draft.replace(path)
        _sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a binary file atomically."""
    replace_file(path, lambda file: file.write(content))


def replace_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    replace_bytes(path, text.encode())


def move_file(source: Path, path: Path) -> None:
    """Move a complete file into its folder, durably.

    Args:
        source: The file, on the same file system.
        path: The file to create or replace.
    """
    with writing(path):
        with source.open("rb") as file:
            os.fsync(file.fileno())
        source.replace(path)
        _sync_folder(path.parent)


def open_log(path: Path) -> IO[bytes]:
    """Open a file that grows line by line, to append to it.

    Args:
        path: The file; it is created if necessary.
    """
    with writing(path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINK
        return os.fdopen(os.open(path, flags, 0o666), "ab")


@contextmanager
def scratch_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file without a name, of which nothing is left behind.

    Args:
        path: The file that is going to be written from it; it is in the same folder.
    """
    with writing(path):
        file = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
    try:
        yield file
    finally:
        with suppress(OSError):  # of a write that has failed before
            file.close()


class _Draft(io.FileIO):
    """A file that records the first failed write instead of raising it.

    A library in C++ that finishes its file in a destructor would abort the process on an exception.
    """

    failure: OSError | None = None

    def write(self, content: object) -> int:
        if self.failure is None:
            try:
                return super().write(content)  # type: ignore[arg-type]
            except OSError as error:
                self.failure = error
        return memoryview(content).nbytes  # type: ignore[arg-type]


def _open_draft(folder: Path) -> tuple[Path, int]:
    """Create a draft, with the rights of the umask, and lock it while its process lives."""
    while True:
        draft = folder / f".cclk-{secrets.token_hex(8)}.draft"
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666)
        if fcntl is not None:
            with suppress(OSError):  # not on every network file system
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, draft):
            return draft, descriptor
        os.close(descriptor)  # removed as stale before it was locked


def remove_stale_drafts(folder: Path, pattern: str = _DRAFTS) -> None:
    """Delete drafts that a killed process left in a folder; those of running processes are locked.

    Args:
        folder: The folder.
        pattern: Of the drafts below it.
    """
    if fcntl is None:
        return
    for draft in folder.glob(pattern):
        with suppress(OSError):  # locked, or of another user
            descriptor = os.open(draft, os.O_RDONLY | _NO_LINK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                draft.unlink()
            finally:
                os.close(descriptor)


def _sync_folder(folder: Path) -> None:
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

    Args:
        target: A folder, locked by the file .lock in it, or a file, locked by .NAME.lock beside it.

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
            remove_stale_drafts(target, f"*/{_DRAFTS}")
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
    """Write a .safetensors file atomically and reproducibly, with a digest in its metadata."""
    parts = tensor_file(tensors, metadata)
    replace_file(path, lambda file: file.writelines(parts))


def tensor_file(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> list[bytes | memoryview]:
    """The content of a .safetensors file, in parts.

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
    return [len(text).to_bytes(8, "little"), text, content[end:]]


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and metadata of a .safetensors file; a digest in it is verified.

    Raises:
        OSError: If it is missing, damaged, or not of this format.
    """
    with needed_for("reading .safetensors files"):
        from safetensors import safe_open

    file_size(path)  # a pipe or device might never end
    try:
        with safe_open(path, framework="pt") as stored:
            metadata = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        expected = metadata.pop(_DIGEST, None)  # files of other tools have none
        actual = None if expected is None else _digest_of_file(path)
    except Exception as error:  # a damaged header can make the library raise nearly anything
        raise OSError(reason(error)) from error
    if expected != actual:
        raise OSError("its content does not match its digest")
    return tensors, metadata


def parse_tensors(content: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and metadata of the content of a .safetensors file.

    Raises:
        ValueError: If it is not of this format.
    """
    with needed_for("reading .safetensors files"):
        from safetensors.torch import load

    try:
        tensors = load(content)
    except Exception as error:  # a damaged header can make the library raise nearly anything
        raise ValueError(reason(error)) from error
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return tensors, header.get("__metadata__", {})


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
