"""Images that stay in their files until they are asked for: what stands in for a uint8 tensor
(n, c, size, size) too large for memory.

>>> import tempfile, torch
>>> from PIL import Image
>>> folder = tempfile.TemporaryDirectory()
>>> Image.new("RGB", (60, 40), "red").save(f"{folder.name}/red.png")
>>> images = StreamedImages([f"{folder.name}/red.png"] * 500, 32, cache_dir=folder.name)
>>> images.shape, images[torch.tensor([7, 499])].shape, images[0][:, 5, 5]
(torch.Size([500, 3, 32, 32]), torch.Size([2, 3, 32, 32]), tensor([255,   0,   0], dtype=torch.uint8))
>>> folder.cleanup()

How a file becomes size x size values is told in `cclk.data.decode`, how decoded images are kept on
disk in `cclk.data.image_cache`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cclk.data.decode import Mode, need_pillow, read_image
from cclk.data.folder import data_folder
from cclk.data.image_cache import ImageCache, OpenCache
from cclk.errors import DataError

_FORM = 1
"""To be raised with any change to how a image becomes values, so that no cache of the old kind
is read.
"""
_CHUNK = 16


class StreamedImages:
    """Images by their paths, decoded when indexed; `shape`, `dtype`, `ndim`, `len` and indexing
    are those of a uint8 tensor.

    Args:
        paths: a file for each row; a file may stand in several rows.
        size: height and width, in pixels.
        mode: "RGB" for three channels, "L" for one, gray.
        cache_dir: the folder in which decoded images are kept; None: `decoded/` in the data folder
            (CCLK_DATA, else ~/.cache/cclk).
        threads: how many images are decoded at a time; None: one per usable core.
        keep: whether decoded images are kept in the cache; for images that are read once, they need
            not be.
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
        places = {
            path: place for place, path in enumerate(dict.fromkeys(absolute))
        }  # a file in several rows is decoded and kept once
        self._source = _Source(list(places), size, mode, cache_dir, threads, keep)
        self._rows = np.array([places[path] for path in absolute], np.int64)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self._rows), *self._source.shape))

    @property
    def paths(self) -> list[str]:
        """The file of each row, absolute."""
        return [self._source.paths[row] for row in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"StreamedImages(shape={tuple(self.shape)})"

    def __getitem__(self, rows: Tensor | slice | int) -> Tensor:
        """The images of some rows, in fresh memory: (c, size, size) for one row, (k, c, size,
        size) for a slice or integers (k,).
        """
        if isinstance(rows, int):
            return self._source.read(self._rows[[rows]])[0]
        return self._source.read(self._rows[rows if isinstance(rows, slice) else _places(rows)])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[row] for row in range(len(self)))

    def subset(self, rows: Tensor) -> StreamedImages:
        """Some of the rows, in the order given, with the same cache; nothing is read."""
        result = object.__new__(StreamedImages)
        result._source, result._rows = self._source, self._rows[_places(rows)]
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
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise DataError(f"size is {size!r}: it must be a whole number of pixels, at least 1")
        if mode not in ("RGB", "L"):
            raise DataError(f"mode is {mode!r}: choose RGB or L")
        if threads is not None and (
            isinstance(threads, bool) or not isinstance(threads, int) or threads < 1
        ):
            raise DataError(f"threads is {threads!r}: it must be a whole number, at least 1")
        self.paths = paths
        self.size, self.mode = size, mode
        self.shape = (3 if mode == "RGB" else 1, size, size)
        self._threads = threads or _usable_cores()
        self._stamps, key = self._stamp()
        folder = data_folder() / "decoded" if cache_dir is None else Path(cache_dir).expanduser()
        self._cache = (
            ImageCache(folder / f"{key}.rows", len(self.paths), self.shape[0] * size * size)
            if keep
            else None
        )

    def _stamp(self) -> tuple[npt.NDArray[np.int64], str]:
        """Length and time of change of each file, and a name for them all: with other files or
        another size it is another name.
        """
        digest = hashlib.sha256(f"{_FORM} {self.size} {self.mode}\n".encode())
        stamps = np.empty((len(self.paths), 2), np.int64)
        for row, path in enumerate(self.paths):
            try:
                found = os.stat(path)  # noqa: PTH116 - see read_image
            except OSError as error:
                why = (
                    "is missing"
                    if isinstance(error, FileNotFoundError)
                    else f"cannot be read ({error.strerror or error})"
                )
                raise DataError(
                    f"the image {path} {why}: put it back, or leave it out of the list"
                ) from error
            stamps[row] = found.st_size, found.st_mtime_ns
            digest.update(
                f"{path}\0{found.st_size} {found.st_mtime_ns}\n".encode(errors="surrogateescape")
            )
        return stamps, digest.hexdigest()[:32]

    def read(self, rows: npt.NDArray[np.int64]) -> Tensor:
        result = np.empty((len(rows), *self.shape), np.uint8)
        with (
            self._cache.open() if self._cache is not None else nullcontext(OpenCache(None, 0))
        ) as cache:
            missing = [
                place
                for place, row in enumerate(rows)
                if not self._recall(cache, int(row), result[place])
            ]
            if len(missing) == 1 or (missing and self._threads == 1):
                self._decode_all(cache, rows, missing, result)
            elif missing:
                # Threads of this batch alone: none is left behind to a forked process.
                with ThreadPoolExecutor(self._threads) as pool:
                    chunks = [
                        missing[start : start + _CHUNK] for start in range(0, len(missing), _CHUNK)
                    ]
                    for _ in pool.map(
                        lambda chunk: self._decode_all(cache, rows, chunk, result), chunks
                    ):
                        pass
        return torch.from_numpy(result)

    @staticmethod
    def _recall(cache: OpenCache, row: int, target: npt.NDArray[np.uint8]) -> bool:
        content = cache.read(row)
        if content is None:
            return False
        target.reshape(-1)[:] = np.frombuffer(content, np.uint8)
        return True

    def _decode_all(
        self,
        cache: OpenCache,
        rows: npt.NDArray[np.int64],
        places: list[int],
        result: npt.NDArray[np.uint8],
    ) -> None:
        for place in places:
            row = int(rows[place])
            values, found = read_image(self.paths[row], self.size, self.mode)
            result[place] = values
            # A file changed since the cache was named is not kept under that name.
            if (found.st_size, found.st_mtime_ns) == tuple(self._stamps[row]):
                cache.write(row, result[place].tobytes())


def _places(rows: Tensor) -> npt.NDArray[np.int64]:
    if (
        not isinstance(rows, Tensor)
        or rows.ndim != 1
        or rows.dtype == torch.bool
        or rows.is_floating_point()
        or rows.is_complex()
    ):
        what = (
            f"{rows.dtype} of shape {tuple(rows.shape)}"
            if isinstance(rows, Tensor)
            else type(rows).__name__
        )
        raise TypeError(
            f"rows is {what}: index images with an integer, a slice or an integer tensor (k,)"
        )
    return rows.detach().cpu().to(torch.int64).numpy()


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
