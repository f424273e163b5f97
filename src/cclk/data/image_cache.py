"""A cache of decoded images: one file with one record per row, written when a row is first decoded.

A record is the checksum of a row's bytes followed by the bytes. Rows with a wrong checksum (not
written yet, partly written before a crash, or being written by another process) are decoded again.
So several processes can share a file without locks, and the file can be deleted at any time. The
file is sparse: only rows that were written take space. It is read with plain reads, not mapped, so
that what was read does not count as memory of the process.
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
    """The cache file while a batch is read; without a descriptor, every read misses."""

    def __init__(self, row_bytes: int, writable: bool) -> None:
        self.descriptor: int | None = None
        self.failure: OSError | None = None
        self._row_bytes, self._writable = row_bytes, writable

    def read(self, row: int) -> memoryview | None:
        """Return the bytes of a row, or None if they are not cached."""
        if self.descriptor is None:
            return None
        length = 4 + self._row_bytes
        try:
            record = memoryview(os.pread(self.descriptor, length, row * length))
        except OSError as error:
            self.failure = error
            return None
        valid = len(record) == length and _checksum(record[4:]) == record[:4]
        return record[4:] if valid else None

    def write(self, row: int, content: bytes) -> None:
        """Store the bytes of a row, unless the cache is only read or an earlier write failed."""
        if not self._writable or self.descriptor is None or self.failure is not None:
            return
        try:
            os.pwrite(self.descriptor, _checksum(content) + content, row * (4 + self._row_bytes))
        except OSError as error:
            self.failure = error


class ImageCache:
    """The cache file of one list of images; if it cannot be used, one warning is emitted and rows
    are decoded each time.

    Args:
        path: the file, whose name must change with anything that changes a row; None: no cache.
        rows: the number of rows.
        row_bytes: the number of bytes of each row.
        writable: whether rows may be written; otherwise the file must exist.
    """

    def __init__(
        self, path: Path | None, rows: int, row_bytes: int, *, writable: bool = True
    ) -> None:
        self.path, self._rows, self._row_bytes, self._writable = path, rows, row_bytes, writable
        self._works = path is not None
        self._checked = False

    @contextmanager
    def open(self) -> Iterator[OpenCache]:
        """Open the cache; it is closed between batches, so that processes can fork."""
        opened = OpenCache(self._row_bytes, self._writable)
        if self.path is not None and self._works:
            try:
                opened.descriptor = self._descriptor(self.path)
            except OSError as error:
                self._disable(error)
        try:
            yield opened
        finally:
            if opened.descriptor is not None:
                os.close(opened.descriptor)
        if opened.failure is not None:
            self._disable(opened.failure)

    def _descriptor(self, path: Path) -> int:
        if not hasattr(os, "pread"):
            raise OSError("this system cannot read a file at an offset")
        flags = getattr(os, "O_CLOEXEC", 0)
        if not self._writable:
            return os.open(path, os.O_RDONLY | flags)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
        if not self._checked:  # fail at the start rather than when the disk is full
            missing = self._rows * (4 + self._row_bytes) - os.fstat(descriptor).st_blocks * 512
            free = shutil.disk_usage(path.parent).free
            if missing > max(0, free - _SPARE):
                os.close(descriptor)
                raise OSError(
                    f"it would take {_size(missing)} more, and the disk has {_size(free)} left"
                )
            self._checked = True
        return descriptor

    def _disable(self, error: OSError) -> None:
        if self._works and self.path is not None:
            self._works = False
            warn(
                f"decoded images are not cached in {self.path.parent} ({error.strerror or error}):"
                " every image is decoded each time it is used; free some space, or choose another"
                " data folder"
            )


def _checksum(content: bytes | memoryview) -> bytes:
    # Never 0: a row that was not written begins with zeros.
    return (zlib.crc32(content) or 1).to_bytes(4, "little")


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
