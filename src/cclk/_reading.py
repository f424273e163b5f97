"""Reading of files that anybody may have written: bounded in size, and with one kind of error.

Functions raise `OSError` if a file cannot be read, and `CclkError` if its content is invalid;
messages do not name the file, which callers do.
"""

from __future__ import annotations

import json
import math
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from cclk.errors import CclkError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

LARGEST_TEXT = 1 << 26
"""Bytes of the largest text file that is read at once."""
POINTER = "it is a Git LFS pointer: run git lfs pull to get the file itself"
_POINTER = b"version https://git-lfs.github.com/spec/"
_DEPTH = 32
_INTEGER = 1 << 63
LARGEST_NUMBER = 1e100
"""The largest number in JSON: sums and squares of larger ones would not be finite."""


def reason(error: BaseException) -> str:
    """Return the message of an error in one short line, without the name of a file."""
    text = getattr(error, "strerror", None) or next(iter(str(error).strip().splitlines()), "")
    return text[:200].strip() or type(error).__name__


def file_size(path: Path) -> int:
    """Return the size of a regular file in bytes.

    Raises:
        OSError: If it is missing, a pointer of Git LFS, or a folder, pipe or device, which might
            never end.
    """
    try:
        status = path.stat()
    except ValueError as error:  # a name with a null byte
        raise OSError(reason(error)) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or device"
        raise OSError(f"it is {kind}, not a file")
    if status.st_size < 1000:  # as every pointer
        with path.open("rb") as file:
            if is_pointer(file.read(len(_POINTER))):
                raise OSError(POINTER)
    return status.st_size


def is_pointer(start: bytes) -> bool:
    """Whether a file that starts with these bytes is a pointer of Git LFS to the file itself."""
    return start.startswith(_POINTER)


def read_bytes(path: Path, limit: int = LARGEST_TEXT) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    size = file_size(path)
    if size > limit:
        raise OSError(f"it has {size} bytes, more than the {limit} that such a file may have")
    return path.read_bytes()


def read_text(path: Path, limit: int = LARGEST_TEXT) -> str:
    """Return the content of a UTF-8 text file; a byte order mark is removed."""
    content = read_bytes(path, limit)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CclkError(
            f"it is not UTF-8 text (byte 0x{content[error.start]:02x} in line {line})"
        ) from None


def read_json(path: Path) -> object:
    """Return the content of a JSON file; see `parse_json`."""
    return parse_json(read_text(path))


def parse_json(text: str) -> object:
    """Parse JSON strictly.

    NaN, numbers beyond 1e100, integers beyond 64 bits, repeated keys, deep nesting, and text that
    cannot be encoded are errors.
    """
    try:
        tree: object = json.loads(
            text,
            object_pairs_hook=_without_repeated_keys,
            parse_constant=_not_finite,
            parse_float=_finite,
            parse_int=_integer,
        )
    except RecursionError:
        raise CclkError("it is nested too deeply") from None
    except CclkError:
        raise
    except ValueError as error:
        raise CclkError(f"it is not valid JSON: {reason(error)}") from None
    check_tree(tree)
    return tree


def parse_toml(text: str) -> dict[str, object]:
    """Parse TOML; deep nesting, and text that cannot be encoded are errors."""
    try:
        tree: dict[str, object] = tomllib.loads(text)
    except RecursionError:
        raise CclkError("it is nested too deeply") from None
    except (ValueError, OverflowError) as error:
        raise CclkError(f"it is not valid TOML: {reason(error)}") from None
    check_tree(tree, finite=False)
    return tree


def check_tree(tree: object, *, finite: bool = True) -> None:
    """Raise an error for values in nested containers that cannot be stored as JSON.

    Args:
        tree: The containers; values of other types than JSON's are accepted.
        finite: Whether numbers must be finite.
    """
    level, depth = [tree], 0
    while level:
        if depth > _DEPTH:
            raise CclkError("it is nested too deeply")
        children: list[object] = []
        for node in level:
            match node:
                case Mapping():
                    children += node.keys()
                    children += node.values()
                case list() | tuple():
                    children += node
                case str():
                    _check_text(node)
                case float() if finite and not math.isfinite(node):
                    _not_finite(str(node))
                case int() if abs(node) >= _INTEGER:
                    raise CclkError("it contains an integer beyond 64 bits")
        level, depth = children, depth + 1


def check_json(kind: TypeAdapter[T], tree: object) -> T:
    """Validate parsed JSON as this type.

    Raises:
        CclkError: The first field that is missing or of another type, in one line.
    """
    from pydantic import ValidationError

    try:
        return kind.validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field, message = ".".join(map(str, first["loc"]))[:100], reason(CclkError(first["msg"]))
        message = message.removeprefix("Value error, ")
        raise CclkError(
            f"{field}: {message[0].lower()}{message[1:]}" if field else message
        ) from None


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise CclkError(f"the key {repeated[:100]!r} is repeated")
    return tree


def _not_finite(text: str) -> NoReturn:
    raise CclkError(f"it contains {text}: numbers must be finite")


def _finite(text: str) -> float:
    value = float(text)
    if not abs(value) <= LARGEST_NUMBER:
        _not_finite(text[:40])
    return value


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) >= _INTEGER:
        raise CclkError("it contains an integer beyond 64 bits")
    return int(text)


def _check_text(text: str) -> None:
    if text.isascii() and "\0" not in text:
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CclkError("it contains text that is not valid Unicode") from None
    if "\0" in text:
        raise CclkError("it contains text with a null character")
