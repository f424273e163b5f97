"""Decoded images on disk, so that each file is decoded once: a file with one record per row,
written as rows are first decoded.

A record is the checksum of a row's bytes and then the bytes. A row is there if its checksum is
right: rows not written yet, half written when a process or the machine went down, or being written
by another process at this moment are simply decoded (again). So several processes may share a file
without locks, and the file may be deleted at any time. It is sparse: only rows that were written
take space. It is read with plain reads, not mapped: what was read does not stay in the memory of
the process.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cclk.errors import warn

_SPARE = 1 << 28
"""Bytes always left free on the disk."""


class OpenCache:
    """The file while a batch is read. Without a descriptor nothing is found and nothing is kept."""

    def __init__(self, descriptor: int | None, row_bytes: int) -> None:
        self.descriptor, self._row_bytes = descriptor, row_bytes
        self.failure: OSError | None = None

    def read(self, row: int) -> memoryview | None:
        """The bytes of a row, or None if they are not there."""
        if self.descriptor is None:
            return None
        try:
            record = memoryview(
                os.pread(self.descriptor, 4 + self._row_bytes, row * (4 + self._row_bytes))
            )
        except OSError as error:
            self.failure = error
            return None
        content = record[4:]
        whole = len(content) == self._row_bytes and _checksum(content) == record[:4]
        return content if whole else None

    def write(self, row: int, content: bytes) -> None:
        """Keep a row, unless an earlier one could not be written."""
        if self.descriptor is None or self.failure is not None:
            return
        try:
            os.pwrite(self.descriptor, _checksum(content) + content, row * (4 + self._row_bytes))
        except OSError as error:
            self.failure = error


class ImageCache:
    """The cache file of one list of images; where it cannot be used there is one warning, and
    every row is decoded each time.

    Args:
        path: the file; its name must change with anything that changes a row.
        rows: how many rows there are.
        row_bytes: the bytes of each.
    """

    def __init__(self, path: Path, rows: int, row_bytes: int) -> None:
        self.path, self._rows, self._row_bytes = path, rows, row_bytes
        self._works = True
        self._checked = False

    @contextmanager
    def open(self) -> Iterator[OpenCache]:
        """The cache for a while. Nothing is held open in between, so that processes may fork and
        files be deleted.
        """
        opened = OpenCache(self._descriptor(), self._row_bytes)
        try:
            yield opened
        finally:
            if opened.descriptor is not None:
                os.close(opened.descriptor)
        if opened.failure is not None:
            self._give_up(opened.failure)

    def _descriptor(self) -> int | None:
        if not self._works:
            return None
        try:
            if not hasattr(os, "pread"):
                raise OSError("this system cannot read a file at a place")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666
            )
        except OSError as error:
            self._give_up(error)
            return None
        try:
            self._check_space(descriptor)
        except OSError as error:
            os.close(descriptor)
            self._give_up(error)
            return None
        return descriptor

    def _check_space(self, descriptor: int) -> None:
        """Refuse at the start what would fill the disk half-way."""
        if self._checked:
            return
        missing = self._rows * (4 + self._row_bytes) - os.fstat(descriptor).st_blocks * 512
        free = shutil.disk_usage(self.path.parent).free
        if missing > max(0, free - _SPARE):
            raise OSError(
                f"it would take {_size(missing)} more, and the disk has {_size(free)} left"
            )
        self._checked = True

    def _give_up(self, error: OSError) -> None:
        if not self._works:
            return
        self._works = False
        warn(
            f"decoded images are not kept in {self.path.parent} ({error.strerror or error}):"
            " training goes on, but decodes every image each time it is seen; free some space, or"
            " choose another data folder"
        )


def _checksum(content: bytes | memoryview) -> bytes:
    # Never 0, which is what a row not written yet begins with.
    return (zlib.crc32(content) or 1).to_bytes(4, "little")


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
