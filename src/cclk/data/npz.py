"""The arrays of an .npz file, checked before memory is allocated for them; never unpickled."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from cclk._reading import file_size, reason
from cclk.columns import Array
from cclk.errors import DataError

_EXPANSION = 100
"""Times its own size that a file may expand to; compressed images reach about 10."""
_SMALL = 1 << 28
"""Bytes that any file may expand to."""


def read_npz(path: Path) -> dict[str, Array]:
    """Return all arrays of an .npz file.

    Raises:
        DataError: if the file or one of its arrays is damaged, or larger than the file can hold;
            the message does not name the file.
    """
    try:
        limit = max(_SMALL, _EXPANSION * file_size(path))
        if not zipfile.is_zipfile(path):
            raise DataError("it is not an .npz file, or it is truncated")
        arrays: dict[str, Array] = {}
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > limit:
                raise DataError(f"its arrays have more than {limit:,} bytes, too many for its size")
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise DataError(f"the array {name} is repeated")
                with archive.open(member) as stream:
                    arrays[name] = _read_array(stream, member.file_size, name)
        return arrays
    except DataError:
        raise
    except Exception as error:  # a damaged archive can make zipfile raise nearly anything
        raise DataError(f"it cannot be read ({reason(error)})") from error


def _read_array(stream: IO[bytes], size: int, name: str) -> Array:
    try:
        shape, dtype = _read_header(stream)
    except Exception as error:
        raise DataError(f"{name} is damaged, or not an array ({reason(error)})") from error
    if dtype.hasobject:
        raise DataError(
            f"{name} is an array of Python objects; store it as numbers or text of one dtype"
        )
    values = math.prod(shape)
    if min(shape, default=1) < 0 or (dtype.itemsize == 0 and values):
        raise DataError(f"{name} is damaged (it is {dtype} of shape {shape})")
    expected = stream.tell() + values * dtype.itemsize
    if size != expected:
        raise DataError(
            f"{name} is damaged (it has {size} bytes, but {dtype} of shape {shape} needs"
            f" {expected})"
        )
    try:
        stream.seek(0)
        array = np.asarray(npy.read_array(stream, allow_pickle=False))
        if dtype.kind == "U" and array.size:
            native = np.ascontiguousarray(array.astype(dtype.newbyteorder("="), copy=False))
            codes = native.ravel().view(np.uint32)
            if bool(((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any()):
                raise ValueError("its text is not valid Unicode")
        return array
    except Exception as error:  # zlib, the checksum, or text that is not Unicode
        raise DataError(f"{name} is damaged ({reason(error)})") from error


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type of an array."""
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(stream)
    if version not in readers:
        raise ValueError(f"version {version} of its format is for arrays of records")
    shape, _, dtype = readers[version](stream)
    return shape, dtype
