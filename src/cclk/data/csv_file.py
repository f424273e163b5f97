"""A CSV file as a table of text: its encoding, its delimiter, and errors that name the line."""

from __future__ import annotations

import codecs
import csv
import re
from pathlib import Path
from typing import Any

from cclk._reading import reason
from cclk.errors import DataError

MISSING = frozenset({"na", "n/a", "nan", "null", "none", "?"})
DELIMITERS = {",": "','", ";": "';'", "\t": "tabs"}
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks, the longer ones first, and the encodings that they announce."""
_BLOCK = 1 << 20
"""Bytes of the longest row."""


def read_csv(path: Path) -> tuple[Any, str]:
    """Return all columns of a CSV file as text, and its delimiter.

    UTF-8 is read, and every encoding that a byte order mark announces.

    Args:
        path: the file.

    Raises:
        DataError: naming the line, but not the file.
    """
    import pyarrow as pa

    with path.open("rb") as file:
        start = file.read(_BLOCK)
    encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")
    if encoding in ("utf-8", "utf-8-sig"):
        _require_text(path)
    delimiter = _delimiter(start, encoding)
    try:
        table = _parse(path, delimiter, encoding)
    except (pa.ArrowException, ValueError, OSError, MemoryError) as error:
        _find_fault(path, delimiter, encoding)
        raise DataError(reason(error)) from error
    if any(map(_spans_lines, table.columns)):
        _require_closed_quotes(_content(path, encoding), delimiter)
    return table, delimiter


def _parse(path: Path, delimiter: str, encoding: str) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    # pyarrow removes the mark of UTF-8 itself.
    reading = csv.ReadOptions(encoding="utf8" if encoding == "utf-8-sig" else encoding)
    # All columns as text: kinds are inferred from the full column, not from the first block.
    with csv.open_csv(path, reading, csv.ParseOptions(delimiter=delimiter)) as lines:
        names = lines.schema.names
    nulls = {spelling for word in MISSING for spelling in (word, word.upper(), word.capitalize())}
    return csv.read_csv(
        path,
        reading,
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            null_values=[*nulls, "NaN"],
        ),
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
    )


def _delimiter(start: bytes, encoding: str) -> str:
    """Return the first delimiter that separates the header: one column would be of no use."""
    header = start.decode(encoding, errors="replace").lstrip("\r\n").splitlines()[:1]
    for sign in DELIMITERS:
        try:
            if len(next(csv.reader(header, delimiter=sign), [])) > 1:
                return sign
        except csv.Error:  # a cell of more than 131,072 characters
            continue
    return ","


def _require_text(path: Path) -> None:
    """Raise an error for a file with null characters, which text never has."""
    line = 1
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            if b"\0" in block:
                line += block.count(b"\n", 0, block.index(b"\0"))
                raise DataError(
                    f"line {line} contains a null character: it is damaged, or UTF-16 without a"
                    " byte order mark; save it as UTF-8"
                )
            line += block.count(b"\n")


def _content(path: Path, encoding: str) -> str:
    return path.read_bytes().decode(encoding, errors="replace")


def _find_fault(path: Path, delimiter: str, encoding: str) -> None:
    """Raise an error that names the first line that cannot be read, if there is one."""
    content = path.read_bytes()
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        start = content.rfind(b"\n", 0, error.start) + 1
        shown = content[start : error.start + 20].partition(b"\n")[0].decode("latin-1").strip()
        guess = f" ({shown[-60:]!r} if it is Latin-1)" if encoding.startswith("utf-8") else ""
        raise DataError(
            f"line {content.count(bytes([10]), 0, error.start) + 1} is not"
            f" {encoding.removesuffix('-sig').upper()} text{guess}: save the file as UTF-8, for"
            " example with iconv -f latin1 -t utf-8"
        ) from None
    _require_closed_quotes(text, delimiter)
    lines = text.splitlines(keepends=True)
    if longest := max(lines, key=len, default=""):
        number = lines.index(longest) + 1
        if len(longest.encode()) > _BLOCK // 2:
            raise DataError(f"line {number} has {len(longest):,} characters: shorten its cells")
    reader, width = csv.reader(lines, delimiter=delimiter), 0
    try:
        for cells in reader:
            width = width or len(cells)
            if cells and len(cells) != width:
                raise DataError(
                    f"line {reader.line_num}: expected {width} columns, got {len(cells)}; columns"
                    f" are separated by {DELIMITERS[delimiter]}: quote cells that contain one"
                )
    except csv.Error as error:
        raise DataError(f"line {reader.line_num}: {reason(error)}") from None


def _spans_lines(column: Any) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(column, r"[\r\n]")).as_py())


def _require_closed_quotes(text: str, delimiter: str) -> None:
    """Raise an error for a quoted cell over several lines that does not end in a quote before a
    delimiter or the end of a line: a stray quote makes a cell of all rows up to the next quote.
    """
    quoted = re.compile(
        rf'(?:^|(?<=[{re.escape(delimiter)}\r\n]))"[^"]*(?:""[^"]*)*("(?=[{re.escape(delimiter)}\r\n]|\Z))?'
    )
    for cell in quoted.finditer(text.removeprefix("\ufeff")):
        if cell[1] is None and ("\n" in cell[0] or "\r" in cell[0]):
            line = text.count("\n", 0, cell.start()) + 1
            raise DataError(
                f"line {line} has a stray quote ({cell[0][:30].splitlines()[0]}), which makes a"
                f" cell of {cell[0].count(chr(10)) + 1} lines: remove it, or double it inside"
                " quotes"
            )
