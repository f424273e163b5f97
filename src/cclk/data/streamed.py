"""`StreamedImages`: images that stay in their files until they are indexed, with the interface of
a uint8 tensor (n, c, size, size).

>>> import tempfile, torch
>>> from PIL import Image
>>> folder = tempfile.TemporaryDirectory()
>>> Image.new("RGB", (60, 40), "red").save(f"{folder.name}/red.png")
>>> images = StreamedImages([f"{folder.name}/red.png"] * 500, 32, cache_dir=folder.name)
>>> images.shape, images[torch.tensor([7, 499])].shape
(torch.Size([500, 3, 32, 32]), torch.Size([2, 3, 32, 32]))
>>> images[0][:, 5, 5]
tensor([255,   0,   0], dtype=torch.uint8)
>>> folder.cleanup()

`cclk.data.decode` turns a file into values; `cclk.data.image_cache` keeps decoded images on disk.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cclk.data.decode import Mode, need_pillow, read_image
from cclk.data.folder import data_folder, may_write
from cclk.data.image_cache import ImageCache, OpenCache
from cclk.data.splits import Rows
from cclk.errors import DataError

_FORM = 1
"""Increased when decoding changes, so that caches with the old values are not read."""
_CHUNK = 16
_MOST = 1024
"""Pixels per side, for batches of such images to fit in memory; also of threads."""
_NAMED = 3
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class StreamedImages:
    """Images by their paths, decoded when indexed; `shape`, `dtype`, `ndim`, `len` and indexing
    are those of a uint8 tensor.

    Args:
        paths: the file of each row; several rows may share a file.
        size: height and width, in pixels.
        mode: "RGB" for three channels, "L" for gray.
        cache_dir: the folder of the cache of decoded images; None: `decoded/` in the data folder
            (CCLK_DATA, else ~/.cache/cclk).
        threads: the number of images decoded in parallel; None: one per usable core.
        keep: whether decoded images are cached; not needed for images that are read once.
    """

    dtype = torch.uint8
    ndim = 4

    def __init__(
        self,
        paths: Sequence[str | Path],
        size: int,
        *,
        mode: Mode = "RGB",
        cache_dir: str | Path | None = None,
        threads: int | None = None,
        keep: bool = True,
    ) -> None:
        absolute = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - see read_image
        # A file that several rows share is decoded and cached once.
        number = {path: row for row, path in enumerate(dict.fromkeys(absolute))}
        self._source = _Source(list(number), size, mode, cache_dir, threads, keep)
        self._rows: Rows = np.array([number[path] for path in absolute], np.int64)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self._rows), *self._source.shape))

    @property
    def paths(self) -> list[str]:
        """The absolute path of each row."""
        return [self._source.paths[row] for row in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"StreamedImages(shape={tuple(self.shape)})"

    def __getitem__(self, rows: Tensor | slice | int) -> Tensor:
        """Return images in new memory: (c, size, size) for an integer, (k, c, size, size) for a
        slice or integers (k,).
        """
        if isinstance(rows, int):
            return self._source.read(self._rows[[rows]])[0]
        return self._source.read(self._rows[rows if isinstance(rows, slice) else _integers(rows)])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[row] for row in range(len(self)))

    def faults(self, seconds: float = math.inf) -> tuple[dict[str, str], int]:
        """Decode all images into the cache; return the path and fault of those that cannot be
        read, and how many rows were tried.

        Args:
            seconds: the time after which the rest is not tried; the order is random then.
        """
        rows = np.unique(self._rows)
        if math.isfinite(seconds):
            rows = np.random.default_rng(0).permutation(rows)
        faults, tried = self._source.faults(rows, seconds)
        return faults, int(np.isin(self._rows, rows[:tried]).sum())

    def subset(self, rows: Tensor) -> StreamedImages:
        """Return the selected rows, in this order, with the same cache; nothing is read.

        Args:
            rows: integers (m,).
        """
        result = object.__new__(StreamedImages)
        result._source, result._rows = self._source, self._rows[_integers(rows)]
        return result


class _Source:
    """The files of a list of images, shared by all of its subsets."""

    def __init__(
        self,
        paths: list[str],
        size: int,
        mode: Mode,
        cache_dir: str | Path | None,
        threads: int | None,
        keep: bool,
    ) -> None:
        need_pillow()
        for name, value in (("image size", size), ("threads", 1 if threads is None else threads)):
            if type(value) is not int or not 1 <= value <= _MOST:
                raise DataError(f"{name} is {value!r}: it must be an integer from 1 to {_MOST}")
        if mode not in ("RGB", "L"):
            raise DataError(f"mode is {mode!r}: choose RGB or L")
        self.paths, self.size, self.mode = paths, size, mode
        self.shape = (3 if mode == "RGB" else 1, size, size)
        self._threads = threads or _usable_cores()
        self._stamps, key = self._stamp()
        own = data_folder() / "decoded"
        folder = own if cache_dir is None else Path(cache_dir).expanduser()
        if not may_write(folder) and not (folder / f"{key}.rows").is_file():
            folder = own
        self._cache = ImageCache(
            folder / f"{key}.rows" if keep else None,
            len(paths),
            self.shape[0] * size * size,
            writable=may_write(folder),
        )

    def _stamp(self) -> tuple[Rows, str]:
        """Return size and modification time of each file, and a hash of paths, stamps and form."""
        digest = hashlib.sha256(f"{_FORM} {self.size} {self.mode}\n".encode())
        stamps = np.empty((len(self.paths), 2), np.int64)
        for row, path in enumerate(self.paths):
            try:
                status = os.stat(path)  # noqa: PTH116 - see read_image
            except OSError as error:
                missing = isinstance(error, FileNotFoundError)
                why = "is missing" if missing else f"cannot be read ({error.strerror or error})"
                raise DataError(
                    f"the image {path} {why}: restore it, or remove it from the list"
                ) from error
            stamps[row] = status.st_size, status.st_mtime_ns
            digest.update(
                f"{path}\0{status.st_size} {status.st_mtime_ns}\n".encode(errors="surrogateescape")
            )
        return stamps, digest.hexdigest()[:32]

    def read(self, rows: Rows) -> Tensor:
        result = np.empty((len(rows), *self.shape), np.uint8)
        missing: list[int] = []
        with self._cache.open() as cache:
            for position, row in enumerate(rows):
                content = cache.read(int(row))
                if content is None:
                    missing.append(position)
                else:
                    result[position].reshape(-1)[:] = np.frombuffer(content, np.uint8)
            if len(missing) == 1 or self._threads == 1:
                self._decode(cache, rows, missing, result)
            elif missing:
                chunks = [
                    missing[start : start + _CHUNK] for start in range(0, len(missing), _CHUNK)
                ]
                # A pool per batch: no threads exist when a process forks between batches.
                with ThreadPoolExecutor(self._threads) as pool:
                    list(pool.map(lambda chunk: self._decode(cache, rows, chunk, result), chunks))
        return torch.from_numpy(result)

    def faults(self, rows: Rows, seconds: float) -> tuple[dict[str, str], int]:
        faults: dict[str, str] = {}
        end, tried = time.monotonic() + seconds, 0
        with self._cache.open() as cache, ThreadPoolExecutor(self._threads) as pool:
            while tried < len(rows) and time.monotonic() < end:
                some = rows[tried : tried + _CHUNK * self._threads].tolist()
                for row, fault in zip(
                    some, pool.map(partial(self._fault, cache), some), strict=True
                ):
                    if fault:
                        faults[self.paths[row]] = fault
                tried += len(some)
        return faults, tried

    def _fault(self, cache: OpenCache, row: int) -> str:
        if cache.read(row) is None:
            try:
                self._store(cache, row)
            except DataError as error:
                return str(error)
        return ""

    def _store(self, cache: OpenCache, row: int) -> npt.NDArray[np.uint8]:
        """Decode an image into the cache."""
        values, status = read_image(self.paths[row], self.size, self.mode)
        # A file that changed after the hash was computed is not stored under that hash.
        if (status.st_size, status.st_mtime_ns) == tuple(self._stamps[row]):
            cache.write(row, values.tobytes())
        return values

    def _decode(
        self, cache: OpenCache, rows: Rows, positions: list[int], result: npt.NDArray[np.uint8]
    ) -> None:
        for position in positions:
            result[position] = self._store(cache, int(rows[position]))


def describe_faults(faults: Mapping[str, str], total: int) -> str:
    """Return one sentence on images that cannot be read: how many, the first names, the reasons.

    >>> describe_faults({"a/1.png": "the image a/1.png is missing: restore it"}, 80)
    '1 of 80 images cannot be read: 1.png (missing): replace them, or remove their rows'

    Args:
        faults: path and message of each such image.
        total: the number of all images.
    """
    names = defaultdict(list)
    for path, message in faults.items():
        why = re.sub(r" \([^)]*\)", "", message.rpartition(path)[2].partition(":")[0]).strip()
        why = why.removeprefix("cannot be read, ").removeprefix("is ")
        names[why or "damaged"].append(Path(path).name)
    parts = []
    for why, some in sorted(names.items(), key=lambda item: -len(item[1]))[:3]:
        more = f" and {len(some) - _NAMED:,} more" if len(some) > _NAMED else ""
        shown = [
            name if len(name) <= 24 else f"{name[:8]}...{name[-12:]}" for name in some[:_NAMED]
        ]
        parts.append(f"{', '.join(shown)}{more} ({why})")
    pointers = any("Git LFS" in why for why in names)
    remedy = "run git lfs pull" if pointers else "replace them, or remove their rows"
    return f"{len(faults):,} of {total:,} images cannot be read: {'; '.join(parts)}: {remedy}"


def _integers(rows: Tensor) -> Rows:
    if not isinstance(rows, Tensor) or rows.ndim != 1 or rows.dtype not in _INTEGERS:
        raise TypeError(
            f"rows is {rows!r:.60}: index images with an integer, a slice or an integer tensor (k,)"
        )
    return rows.detach().cpu().to(torch.int64).numpy()


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
