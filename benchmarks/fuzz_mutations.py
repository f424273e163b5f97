"""Mutations of files: of bytes, of JSON, and of the headers of archives, arrays and tensors."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

ODD_TEXTS = (
    "", " ", "\0", "\x1b[31m", "a\r\nb", "\u202e", "\ud800", "é", "🙂", "=1+1", "../../etc/passwd",
    "NaN", "1e999", "-0", "null", "x" * 10_000, "%s{0}", "<script>", "a:b", "os:system", "*", "[",
)  # fmt: skip
ODD_NUMBERS = (
    0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324,
    float("nan"), float("inf"), float("-inf"), True,
)  # fmt: skip
SHAPES = (
    (10**13,), (10**6, 10**7), (-1,), (0,), (), (2**63,), (2**62, 4), (0, 2**62), (1,) * 70, (3,),
    (2**31, 2**31, 2**31), (40, 4),
)  # fmt: skip
DTYPES = (
    "|O", "<f8", "<f4", ">f4", "|u1", "|b1", "<U1000000", "|S0", "<U0", "|V8", "<c16", "<M8[ns]",
    "<m8[s]", "<f2", "bogus", "[('a', '<f4')]", "<i8", "<U7",
)  # fmt: skip


def mutate_bytes(content: bytes, others: Sequence[bytes], source: random.Random) -> bytes:
    """Change a file, without knowledge of its format.

    Args:
        content: the file.
        others: further valid files, to splice with.
        source: of all choices.
    """
    data = bytearray(content)
    for _ in range(source.choice((1, 1, 1, 2, 4, 16))):
        if not data:
            break
        at = source.randrange(len(data))
        end = min(len(data), at + source.choice((1, 4, 16, 64, 512)))
        match source.randrange(9):
            case 0:
                data[at] ^= 1 << source.randrange(8)
            case 1:
                data[at] = source.randrange(256)
            case 2:
                del data[at:]
            case 3:
                data[at:end] = bytes(end - at)
            case 4:
                del data[at:end]
            case 5:
                data[at:at] = data[at:end] * source.choice((1, 2, 50))
            case 6:
                data[at:at] = source.randbytes(source.choice((1, 3, 40)))
            case 7:
                other = source.choice(others)
                data = data[:at] + other[source.randrange(len(other)) :]
            case 8:
                value = source.choice((0, 1, 0xFF, 0x7F, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**63))
                data[at : at + 8] = (value % 2 ** (8 * len(data[at : at + 8]))).to_bytes(
                    len(data[at : at + 8]), source.choice(("little", "big"))
                )
    return bytes(data)


def odd_value(source: random.Random) -> Any:
    """A value of a type or size that a reader does not expect."""
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: source.choice(ODD_TEXTS),
        lambda: source.choice(ODD_NUMBERS),
        lambda: source.choice((None, [], {}, [[]], {"": 0}, [None], [1, "a"], {"value": 1})),
        lambda: _nested(source.choice((2, 20, 40, 200))),
        lambda: [odd_value(source) for _ in range(3)],
        lambda: {source.choice(ODD_TEXTS): odd_value(source)},
        lambda: source.uniform(-2, 2),
        lambda: source.randrange(-3, 100),
    )
    return source.choice(kinds)()


def _nested(depth: int) -> Any:
    tree: Any = 1
    for _ in range(depth):
        tree = [tree]
    return tree


def mutate_tree(tree: Any, source: random.Random) -> Any:
    """Change parsed JSON in one to three points: types, missing and additional keys."""
    tree = copy.deepcopy(tree)
    for _ in range(source.choice((1, 1, 2, 3))):
        holders = [node for node in _nodes(tree) if node]
        if not holders:
            return odd_value(source)
        node = source.choice(holders)
        key: Any = (
            source.choice(list(node)) if isinstance(node, dict) else source.randrange(len(node))
        )
        match source.randrange(6):
            case 0:
                del node[key]
            case 1 if isinstance(node, dict):
                node[source.choice((*ODD_TEXTS, "linear", "r2", "step"))] = odd_value(source)
            case 2 if isinstance(node, dict):
                node[source.choice(list(node))] = copy.deepcopy(node[key])
            case 3 if isinstance(node[key], int | float):
                node[key] = source.choice(ODD_NUMBERS)
            case _:
                node[key] = odd_value(source)
    return tree if source.random() > 0.02 else odd_value(source)


def _nodes(tree: Any) -> list[Any]:
    nodes, level = [], [tree]
    while level:
        nodes += level
        children = [
            child for node in level for child in (node.values() if isinstance(node, dict) else node)
        ]
        level = [child for child in children if isinstance(child, dict | list)]
    return [node for node in nodes if isinstance(node, dict | list)]


def as_json(tree: Any, source: random.Random) -> bytes:
    """Write a tree as JSON, sometimes with repeated keys, deep nesting or in another encoding."""
    text = json.dumps(tree)
    match source.randrange(40):
        case 0:
            text = text.replace("{", '{"a": 1, "a": 2, ', 1)
        case 1:
            text = "[" * 100_000 + text
        case 2:
            text = text.replace("{", '{"a": ' + "[" * 5000 + "]" * 5000 + ", ", 1)
        case 3:
            return text.encode(source.choice(("utf-16", "utf-8-sig", "utf-32")))
        case 4:
            text = text.replace(": ", ': -1e400, "b": ', 1)
        case 5:
            text += source.choice(("}", "\n{}", "\0", " //"))
    return text.encode()


def mutate_npz(arrays: dict[str, Any], source: random.Random) -> bytes:
    """Write arrays as .npz with an edited header, values or archive."""
    arrays = dict(arrays)
    name = source.choice(list(arrays))
    parts = {key: _npy(value) for key, value in arrays.items()}
    how = zipfile.ZIP_DEFLATED if source.random() < 0.3 else zipfile.ZIP_STORED
    match source.randrange(7):
        case 0:
            parts[name] = _npy(arrays[name], shape=source.choice(SHAPES))
        case 1:
            parts[name] = _npy(arrays[name], dtype=source.choice(DTYPES))
        case 2:
            dtype, shape = source.choice(DTYPES), source.choice(SHAPES)
            parts[name] = _npy(arrays[name], shape, dtype) + bytes(source.choice((0, 64, 10**5)))
        case 3:
            parts[name] = mutate_bytes(parts[name], list(parts.values()), source)
        case 4:
            parts[source.choice((*parts, "split", "x_test", "classes", "bogus", "a/b"))] = parts[
                name
            ]
        case 5:
            del parts[name]
        case 6:
            parts[name] = _npy(_odd_array(arrays[name], source))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", how) as archive:
        for key, content in parts.items():
            archive.writestr(f"{key}.npy", content)
    content = stream.getvalue()
    return edit_archive(content, source) if source.random() < 0.2 else content


def _odd_array(array: Any, source: random.Random) -> Any:
    array = np.atleast_1d(array)
    with np.errstate(all="ignore"):
        match source.randrange(6):
            case 0 if array.dtype.kind == "f":
                return np.full_like(array, source.choice((np.nan, np.inf, 1e38, -1e38, 0)))
            case 1:
                return array[: source.randrange(3)]
            case 2:
                return array.astype("U9")
            case 3:
                return np.array(source.choice(ODD_TEXTS[5:10]))
            case 4:
                return np.zeros(source.choice(((40, 0), (0, 4), (40, 1, 1), (40,))), np.float32)
            case _:
                return array.astype("S9").astype("S9")


def _npy(array: Any, shape: object = None, dtype: object = None) -> bytes:
    """An .npy file, with another shape or type in its header."""
    descr = np.lib.format.dtype_to_descr(array.dtype) if dtype is None else dtype
    shape = array.shape if shape is None else shape
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    text = header.encode("latin-1", "replace") + b" " * (-(len(header) + 11) % 64) + b"\n"
    values: bytes = array.tobytes()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + values


def edit_archive(content: bytes, source: random.Random) -> bytes:
    """Change fields of the directory of a zip archive: sizes, offsets, methods and names."""
    data = bytearray(content)
    signatures = [
        at for sign in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06") for at in _find(data, sign)
    ]
    if signatures:
        at = source.choice(signatures) + source.randrange(4, 46)
        size = source.choice((1, 2, 4))
        value = source.choice((0, 1, 8, 0xFF, 0xFFFF, 2**31, 2**32 - 1)) % 2 ** (8 * size)
        data[at : at + size] = value.to_bytes(size, "little")
    return bytes(data)


def _find(data: bytearray, sign: bytes) -> list[int]:
    found, at = [], data.find(sign)
    while at >= 0:
        found.append(at)
        at = data.find(sign, at + 1)
    return found


def mutate_safetensors(content: bytes, source: random.Random) -> bytes:
    """Change the header of a .safetensors file: shapes, types, offsets and metadata."""
    size = int.from_bytes(content[:8], "little")
    header, values = json.loads(content[8 : 8 + size]), content[8 + size :]
    metadata = header.get("__metadata__", {})
    match source.randrange(4):
        case 0:
            header = mutate_tree(header, source)
        case 1:
            name = source.choice([name for name in header if name != "__metadata__"])
            entry = header[name]
            match source.randrange(3):
                case 0:
                    entry["shape"] = [abs(n) for n in source.choice(SHAPES)]
                case 1:
                    entry["dtype"] = source.choice(
                        ("F64", "F16", "BF16", "I8", "U64", "BOOL", "F8_E4M3", "F4", "C64", "X")
                    )
                case 2:
                    entry["data_offsets"] = [source.randrange(99), source.randrange(2**40)]
        case 2 if metadata:
            name = source.choice(list(metadata))
            try:
                metadata[name] = json.dumps(mutate_tree(json.loads(metadata[name]), source))
            except ValueError:
                metadata[name] = source.choice(ODD_TEXTS)
        case _ if metadata:
            name = source.choice(list(metadata))
            metadata[name] = source.choice((*ODD_TEXTS, "[" * 5000, "{}", "[]", "NaN", "1e999"))
    text = json.dumps(header).encode()
    size = len(text) if source.random() > 0.03 else source.choice((0, 2**40, 2**63))
    return size.to_bytes(8, "little") + text + values
