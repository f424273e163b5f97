"""Tables from CSV and Parquet files, cell by cell as text or numbers, with complaints that name
the row and the column.
"""

from __future__ import annotations

import csv
import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cclk.dates import EXAMPLE, days, is_date
from cclk.errors import DataError
from cclk.extras import needed_for

Strings = npt.NDArray[np.object_]
Numbers = npt.NDArray[np.float64]

_LARGEST = float(np.finfo(np.float32).max)
_MISSING = frozenset({"na", "n/a", "nan", "null", "none", "?"})


class Table:
    """The columns of a file. Rows count from 1 and the header is not one, as people count them;
    CSV lines are one more.
    """

    def __init__(self, path: Path) -> None:
        with needed_for("reading tables"):
            import pyarrow as pa
        self.path = path
        if not path.is_file():
            raise DataError(f"there is no file {path}: give a CSV or Parquet file")
        if path.stat().st_size == 0:
            raise DataError(f"{path} is empty: it needs a header and rows")
        self.layout = ""
        """How a CSV file is written, if it is not separated by commas."""
        delimiter = "," if path.suffix == ".parquet" else _delimiter(path)
        try:
            self._table = (
                _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path, delimiter)
            )
        except pa.ArrowInvalid as error:
            told = str(error).splitlines()[0]
            if "UTF8" in told or "utf8" in told:
                told = f"{told.rstrip('.')}: it is not UTF-8 text; save it as UTF-8"
            elif "columns, got" in told:
                told = (
                    f"{told}; columns are separated by {_DELIMITERS[delimiter]}: quote cells that"
                    " contain one"
                )
            raise DataError(f"{path} cannot be read: {told}") from error
        except OSError as error:
            raise DataError(
                f"{path} cannot be read: {error.strerror or str(error).splitlines()[0]}"
            ) from error
        if delimiter != ",":
            self._table, commas = _decimal_points(self._table)
            self.layout = f"separated by {_DELIMITERS[delimiter]}" + (
                ", with decimal commas" if commas else ""
            )
        self.names: list[str] = self._table.column_names
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise DataError(f"{path} has several columns named {twice[0]!r}: rename them")
        if len(self) == 0:
            raise DataError(f"{path} has a header and no rows")

    @classmethod
    def of(cls, frame: Any, wanted: Sequence[str] = ()) -> Table:
        """The wanted columns, or all, of a data frame or a mapping of names to columns, which
        messages call x.
        """
        with needed_for("reading data frames"):
            import pyarrow as pa
        self = cls.__new__(cls)
        self.path, self.layout = Path("x"), ""
        keys = {
            str(key): key
            for key in getattr(frame, "column_names", None)
            or list(getattr(frame, "columns", frame))
        }
        self.names = list(keys)
        wanted = [self.one(name, "an input of the encoder") for name in wanted] or self.names
        try:
            self._table = pa.table({name: frame[keys[name]] for name in wanted})
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"x cannot be read as a table: {' '.join(str(error).split())}"
            ) from error
        return self

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def matching(self, pattern: str, what: str) -> list[str]:
        """The columns of a name, or of a pattern such as sensor_*, in the order of the file."""
        found = (
            [pattern]
            if pattern in self.names
            else [name for name in self.names if fnmatch.fnmatchcase(name, pattern)]
        )
        if not found:
            import difflib

            near = difflib.get_close_matches(pattern, self.names, n=1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            mixed = (
                ""
                if self.layout or ";" not in "".join(self.names)
                else "; if ';' separates its columns, quote names with commas"
            )
            raise DataError(
                f"{self.path} has no column {pattern!r}{meant}, asked for as {what}: it has"
                f" {_listed(self.names)}{mixed}"
            )
        return found

    def one(self, pattern: str, what: str) -> str:
        """The one column of a name."""
        found = self.matching(pattern, what)
        if len(found) > 1:
            raise DataError(
                f"{self.path}: {pattern!r}, asked for as {what}, is several columns"
                f" ({_listed(found)}): name one"
            )
        return found[0]

    def is_list(self, name: str) -> bool:
        """Whether each cell is a list of numbers, as Parquet can hold."""
        import pyarrow.types as types

        kind = self._table.schema.field(name).type
        return bool(
            types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        )

    def vectors(self, name: str) -> Numbers:
        """A column of lists as (n, k); all must have the same length."""
        cells: list[Any] = self._table.column(name).to_pylist()
        width = next((len(cell) for cell in cells if cell), 0)
        values = np.full((len(cells), max(width, 1)), np.nan)
        for row, cell in enumerate(cells):
            if cell is not None:
                if len(cell) != width:
                    raise DataError(
                        f"{self.where(row + 1, name)} has {len(cell)} numbers and others {width}:"
                        " all need the same"
                    )
                try:
                    values[row] = [np.nan if value is None else value for value in cell]
                except (TypeError, ValueError):
                    told = f"{self.where(row + 1, name)} holds {cell!r}: a list must be of numbers"
                    raise DataError(
                        f"{told}; a set of attributes is text, words joined by ';'"
                    ) from None
                if (np.abs(values[row]) > _LARGEST).any():
                    raise DataError(
                        f"{self.where(row + 1, name)} holds an infinite number: they must be finite"
                    )
        return values

    def text(self, name: str, empty: str | None = None) -> Strings:
        """A column as text; a missing cell is None, and an empty one too if it is not said what
        that means.
        """
        column = self._table.column(name)
        # Python has no nanoseconds.
        cells: list[Any] = (
            column if not _is_timestamp(column.type) else _microseconds(column)
        ).to_pylist()
        texts = [
            (
                None
                if cell is None or (isinstance(cell, float) and np.isnan(cell))
                else str(cell).strip()
            )
            for cell in cells
        ]
        known = [empty if cell == "" else cell for cell in texts]
        return np.array(
            [
                None if cell is None or (cell and cell.lower() in _MISSING) else cell
                for cell in known
            ],
            dtype=object,
        )

    def numbers(self, name: str, otherwise: str = "") -> Numbers:
        """A column as numbers, dates as days since 1970-01-01; a missing cell is NaN, and text
        is an error that names its row.

        Args:
            otherwise: what else to do about a cell that is no number, for the error.
        """
        values = self._parsed(name, otherwise)
        endless = np.flatnonzero(np.abs(values) > _LARGEST)
        if len(endless):
            raise DataError(
                f"{self.where(int(endless[0]) + 1, name)} is infinite or beyond 3e38: it must be"
                " finite"
            )
        return values

    def _parsed(self, name: str, otherwise: str) -> Numbers:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._table.column(name)
        if _is_temporal(column.type):
            return np.asarray(
                _microseconds(column).cast(pa.int64()).to_numpy().astype(np.float64) / 86_400e6
            )
        if self._begins_with_date(name):
            wanted, parse = f"a date such as {EXAMPLE}, as in other rows", days
        else:
            wanted, parse = "a number", _float
            if pa.types.is_string(column.type):
                column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            try:
                return np.asarray(column.cast(pa.float64()).to_numpy().astype(np.float64))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                pass  # cell by cell: truth values, spaces, and what is wrong
        values = np.full(len(self), np.nan)
        for row, cell in enumerate(self.text(name)):
            if cell is not None:
                try:
                    values[row] = parse(cell)
                except ValueError:
                    point = " with a decimal point" if parse is _float and "," in cell else ""
                    raise DataError(
                        f"{self.where(row + 1, name)} is {cell!r}: it must be"
                        f" {wanted}{point}{otherwise}"
                    ) from None
        return values

    def is_numeric(self, name: str) -> bool:
        """Whether every cell that is there is a number; dates are not."""
        if _is_temporal(self._table.column(name).type) or self._begins_with_date(name):
            return False
        try:
            self._parsed(name, "")
        except DataError:
            return False
        return True

    def is_date(self, name: str) -> bool:
        """Whether every cell that is there is written as an ISO date or date-time."""
        if _is_temporal(self._table.column(name).type):
            return True
        return self._begins_with_date(name) and all(
            is_date(cell) for cell in self.text(name) if cell is not None
        )

    def _begins_with_date(self, name: str) -> bool:
        """Whether the first cell that is there is a date: quick where a column is anything else."""
        import pyarrow.types as types

        column = self._table.column(name)
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            return False
        cells = ((cell.as_py() or "").strip() for cell in column)
        return is_date(next((cell for cell in cells if cell and cell.lower() not in _MISSING), ""))

    def where(self, row: int, name: str) -> str:
        """How a cell is called in a complaint."""
        return f"{self.path}, row {row}, column {name!r}"


_TRUTH = {"true": "1", "false": "0", "yes": "1", "no": "0"}


def _float(text: str) -> float:
    return float(_TRUTH.get(text.lower(), text))


def _is_timestamp(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_timestamp(kind))


def _is_temporal(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_date(kind)) or _is_timestamp(kind)


def _microseconds(column: Any) -> Any:
    """Dates or timestamps of any unit as timestamps in microseconds."""
    import pyarrow as pa

    return column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False)


_DELIMITERS = {",": "','", ";": "';'", "\t": "tabs"}


def _delimiter(path: Path) -> str:
    """What separates the names of the header; a file with a single column would be of no use, so
    the first that separates any is it.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = file.readline()
    return next(
        (sign for sign in _DELIMITERS if len(next(csv.reader([header], delimiter=sign), [])) > 1),
        ",",
    )


def _read_csv(path: Path, delimiter: str) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    # Everything as text: what a column is, and which cell is wrong, is decided here and not by the
    # first block of the file.
    with csv.open_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter)) as lines:
        names = lines.schema.names
    words = [
        spelled for word in _MISSING for spelled in {word, word.upper(), word.capitalize()}
    ] + ["NaN", "N/A"]
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=words
    )
    return csv.read_csv(
        path,
        convert_options=convert,
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
    )


def _decimal_points(table: Any) -> tuple[Any, bool]:
    """Columns of whole numbers and numbers with a decimal comma, with points instead; and
    whether there are any.
    """
    import pyarrow.compute as pc

    found = False
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        decimal = pc.match_substring_regex(column, r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$")
        whole = pc.match_substring_regex(column, r"^\s*([+-]?\d+)?\s*$")
        if pc.any(decimal).as_py() and pc.all(pc.or_(decimal, whole)).as_py():
            table, found = (
                table.set_column(place, name, pc.replace_substring(column, ",", ".")),
                True,
            )
    return table, found


def _read_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
