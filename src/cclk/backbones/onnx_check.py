"""Check an ONNX file before onnxruntime opens it: its size, external data and operators.

The file is a protobuf message, of which only the fields below are read: enough to visit every node
and every tensor, also those in functions and in branches. Values of tensors are skipped.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from cclk._reading import file_size
from cclk.errors import FeatureError

_LARGEST = 1 << 31
"""Bytes of the largest message of protobuf."""
_MOST_FIELDS = 1 << 21
"""Fields of the largest network: reading more would take longer than the network itself."""
_DEPTH = 64
_FIELDS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {1: "name", 7: "node", 10: "domain", 11: "attribute"},
    "node": {4: "name", 5: "attribute", 7: "domain"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
    "entry": {1: "key", 2: "value"},
}
"""Messages of the ONNX format -> number of a field -> the message or text that it holds."""
_RUNTIME = ("com.microsoft", "com.ms.", "ai.onnx", "org.pytorch")
"""Domains that onnxruntime has operators of, which it prefers to functions of the file."""
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""The operators of the ONNX standard. Others, such as those of onnxruntime's makers, are code of
which less is known: one of them loads compiled programs.
"""


def check_onnx(path: Path) -> None:
    """Raise an error for an ONNX file that is damaged, that names files in other folders, or
    that has operators beyond the standard.

    Args:
        path: The file.
    """
    try:
        size = file_size(path)
        if not 0 < size <= _LARGEST:
            raise ValueError(f"it has {size} bytes")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            content = _Content(data)
    except (OSError, ValueError, IndexError) as error:
        raise FeatureError(
            f"{path} is not an ONNX file, or damaged: {error}; export the network again"
        ) from error
    folder = path.parent.resolve()
    for location in content.locations:
        plain = Path(location).name == location and "\0" not in location
        target = (folder / location).resolve() if plain else folder
        if target.parent != folder or not target.is_file():
            raise FeatureError(
                f"{path} has weights in {location!r}: they must be in a file beside it"
            )
    for domain, name in content.nodes:
        own = (domain, name) in content.functions and not domain.startswith(_RUNTIME)
        if domain not in _DOMAINS and not own:
            raise FeatureError(
                f"{path} has the operator {name!r} of {domain!r}, which is not one of the ONNX"
                " standard: export the network without it"
            )


class _Content:
    """What an ONNX file contains.

    Args:
        data: The bytes of the file.

    Attributes:
        nodes: Domain and name of the operator of each node.
        functions: Domain and name of each function that the file defines.
        locations: The files that hold weights.
    """

    def __init__(self, data: mmap.mmap) -> None:
        self.nodes: set[tuple[str, str]] = set()
        self.functions: set[tuple[str, str]] = set()
        self.locations: set[str] = set()
        self._data, self._left = data, _MOST_FIELDS
        waiting = [("model", 0, len(data), 0)]
        while waiting:
            message, start, end, depth = waiting.pop()
            texts: dict[str, str] = {}
            for number, first, last in self._fields(start, end):
                kind = _FIELDS[message].get(number)
                if kind in _FIELDS:
                    if depth == _DEPTH:
                        raise ValueError("it is nested too deeply")
                    waiting.append((kind, first, last, depth + 1))
                elif kind is not None:
                    texts[kind] = data[first:last].decode("utf-8", "replace")
            named = texts.get("domain", ""), texts.get("name", "")
            if message == "node":
                self.nodes.add(named)
            elif message == "function":
                self.functions.add(named)
            elif message == "entry" and texts.get("key") == "location":
                self.locations.add(texts.get("value", ""))

    def _fields(self, position: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield number, first and last byte of each field with text or a message."""
        while position < end:
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"it has more than {_MOST_FIELDS:,} fields")
            tag, position = self._varint(position)
            if tag >> 32 or not tag >> 3:  # of which a parser may read the lower half
                raise ValueError(f"it has no valid field at byte {position:,}")
            match tag & 7:
                case 0:
                    _, position = self._varint(position)
                case 1:
                    position += 8
                case 2:
                    length, position = self._varint(position)
                    if position + length <= end:
                        yield tag >> 3, position, position + length
                    position += length
                case 5:
                    position += 4
                case _:
                    raise ValueError(f"there is an unknown field at byte {position}")
        if position != end:
            raise ValueError(f"a field ends at byte {position} instead of {end}")

    def _varint(self, position: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, position
        raise ValueError(f"there is no number at byte {position}")
