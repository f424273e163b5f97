"""Atomic file writes, and locks that end with their process."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from cclk.errors import RunError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file and the cause in an `OSError` of the block.

    Args:
        path: The file that the block writes.
    """
    try:
        yield
    except OSError as error:
        raise OSError(f"{path} could not be written: {error.strerror or error}") from error


def replace_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file through a temporary one, so that a failure leaves the old one as it was.

    Args:
        path: The file to create or replace; its folder is created.
        write: Writes the content to the binary file it receives.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".cclk-", delete=False) as file:
            draft = Path(file.name)
            try:
                write(file)
                file.flush()
                os.fsync(file.fileno())
                draft.chmod(0o666 & ~_umask())
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise


def replace_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    replace_file(path, lambda file: file.write(text.encode()))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file or folder, .NAME.lock beside it; a second holder is an error.

    Args:
        path: The file or folder; its parent is created.
    """
    lock = path.with_name(f".{path.name}.lock")
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a+")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(1000).strip() or "another process"
            raise RunError(
                f"{path} is being written by {holder}: wait for it to end, or choose another folder"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {os.uname().nodename}\n")
        file.flush()
        try:
            yield
        finally:
            with suppress(OSError):
                lock.unlink()
