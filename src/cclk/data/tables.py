"""Tables from CSV and Parquet files, cell by cell as text or numbers, with complaints that name the row and the column."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cclk.data.errors import DataError
from cclk.extras import needed_for

Strings = npt.NDArray[np.object_]
Numbers = npt.NDArray[np.float64]

_LARGEST = float(np.finfo(np.float32).max)
_MISSING = frozenset({"na", "n/a", "nan", "null", "none", "?"})


class Table:
    """The columns of a file. Rows count from 1 and the header is not one, as people count them; CSV lines are one more."""

    def __init__(self, path: Path) -> None:
        with needed_for("reading tables"):
            import pyarrow as pa
        self.path = path
        if not path.is_file():
            raise DataError(f"there is no file {path}: give a CSV or Parquet file")
        if path.stat().st_size == 0:
            raise DataError(f"{path} is empty: it needs a header and rows")
        try:
            self._table = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
        except pa.ArrowInvalid as error:
            told = str(error).splitlines()[0]
            if "UTF8" in told or "utf8" in told:
                told = f"{told.rstrip('.')}: it is not UTF-8 text; save it as UTF-8"
            raise DataError(f"{path} cannot be read: {told}") from error
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or str(error).splitlines()[0]}") from error
        self.names: list[str] = self._table.column_names
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise DataError(f"{path} has several columns named {twice[0]!r}: rename them")
        if len(self) == 0:
            raise DataError(f"{path} has a header and no rows")

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def matching(self, pattern: str, what: str) -> list[str]:
        """The columns of a name, or of a pattern such as sensor_*, in the order of the file."""
        found = [pattern] if pattern in self.names else [name for name in self.names if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            import difflib

            near = difflib.get_close_matches(pattern, self.names, n=1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise DataError(f"{self.path} has no column {pattern!r}{meant}, asked for as {what}: it has {_listed(self.names)}")
        return found

    def one(self, pattern: str, what: str) -> str:
        """The one column of a name."""
        found = self.matching(pattern, what)
        if len(found) > 1:
            raise DataError(f"{self.path}: {pattern!r}, asked for as {what}, is several columns ({_listed(found)}): name one")
        return found[0]

    def is_list(self, name: str) -> bool:
        """Whether each cell is a list of numbers, as Parquet can hold."""
        import pyarrow.types as types

        kind = self._table.schema.field(name).type
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

    def vectors(self, name: str) -> Numbers:
        """A column of lists as (n, k); all must have the same length."""
        cells: list[Any] = self._table.column(name).to_pylist()
        width = next((len(cell) for cell in cells if cell), 0)
        values = np.full((len(cells), max(width, 1)), np.nan)
        for row, cell in enumerate(cells):
            if cell is not None:
                if len(cell) != width:
                    raise DataError(f"{self.where(row + 1, name)} has {len(cell)} numbers and others {width}: all need the same")
                try:
                    values[row] = [np.nan if value is None else value for value in cell]
                except (TypeError, ValueError):
                    told = f"{self.where(row + 1, name)} holds {cell!r}: a list must be of numbers"
                    raise DataError(f"{told}; a set of attributes is text, words joined by ';'") from None
                if (np.abs(values[row]) > _LARGEST).any():
                    raise DataError(f"{self.where(row + 1, name)} holds an infinite number: they must be finite")
        return values

    def text(self, name: str, empty: str | None = None) -> Strings:
        """A column as text; a missing cell is None, and an empty one too if it is not said what that means."""
        cells: list[Any] = self._table.column(name).to_pylist()
        texts = [None if cell is None or (isinstance(cell, float) and np.isnan(cell)) else str(cell).strip() for cell in cells]
        known = [empty if cell == "" else cell for cell in texts]
        return np.array([None if cell is None or (cell and cell.lower() in _MISSING) else cell for cell in known], dtype=object)

    def numbers(self, name: str, what: str = "a number") -> Numbers:
        """A column as numbers; a missing cell is NaN, and text is an error that names its row."""
        values = self._parsed(name, what)
        endless = np.flatnonzero(np.abs(values) > _LARGEST)
        if len(endless):
            raise DataError(f"{self.where(int(endless[0]) + 1, name)} is infinite or beyond 3e38: it must be finite")
        return values

    def _parsed(self, name: str, what: str) -> Numbers:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._table.column(name)
        if pa.types.is_string(column.type):
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        try:
            values: Numbers = column.cast(pa.float64()).to_numpy().astype(np.float64)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # cell by cell: truth values, spaces, and what is wrong
            values = np.array([self._number(cell, row, name, what) for row, cell in enumerate(self.text(name), 1)])
        return values

    def _number(self, cell: str | None, row: int, name: str, what: str) -> float:
        try:
            return np.nan if cell is None else float(_TRUTH.get(cell.lower(), cell))
        except ValueError:
            raise DataError(f"{self.where(row, name)} is {cell!r}: it must be {what}") from None

    def is_numeric(self, name: str) -> bool:
        """Whether every cell that is there is a number."""
        try:
            self._parsed(name, "")
        except DataError:
            return False
        return True

    def where(self, row: int, name: str) -> str:
        """How a cell is called in a complaint."""
        return f"{self.path}, row {row}, column {name!r}"


_TRUTH = {"true": "1", "false": "0", "yes": "1", "no": "0"}


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    # Everything as text: what a column is, and which cell is wrong, is decided here and not by the first block of the file.
    with csv.open_csv(path) as lines:
        names = lines.schema.names
    words = [spelt for word in _MISSING for spelt in {word, word.upper(), word.capitalize()}] + ["NaN", "N/A"]
    convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=words)
    return csv.read_csv(path, convert_options=convert, parse_options=csv.ParseOptions(newlines_in_values=True))


def _read_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
