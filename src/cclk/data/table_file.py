"""`TableFile`: the columns of a CSV or Parquet file as text or numbers, with errors that name row
and column.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cclk._dates import EXAMPLE, days, is_date
from cclk._extras import needed_for
from cclk._numerals import thousands
from cclk._reading import file_size, reason
from cclk.data.csv_file import DELIMITERS, MISSING, read_csv
from cclk.errors import DataError

Strings = npt.NDArray[np.object_]
Doubles = npt.NDArray[np.float64]

_LARGEST = float(np.finfo(np.float32).max)
_TRUTH = {"true": "1", "false": "0", "yes": "1", "no": "0"}
_SMALL = 1 << 28
"""Bytes that any Parquet file may expand to."""
_EXPANSION = 1000
"""Times its own size that a Parquet file may expand to."""


class TableFile:
    """The columns of a table. In messages, rows count from 1, without the header.

    Args:
        path: a .parquet file, or a CSV file separated by commas, semicolons or tabs.
    """

    def __init__(self, path: Path) -> None:
        with needed_for("reading tables"):
            import pyarrow  # noqa: F401
        self.path = path
        self.layout = ""
        """The layout of a CSV file that is not separated by commas."""
        self._commas: set[str] = set()
        delimiter = ","
        try:
            size = file_size(path)
            if size == 0:
                raise DataError("it is empty: it needs a header and rows")
            if path.suffix == ".parquet":
                self._table = _read_parquet(path, size)
            else:
                self._table, delimiter = read_csv(path)
        except FileNotFoundError:
            raise DataError(
                f"{path} does not exist: pass the path of a CSV or Parquet file"
            ) from None
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read: {reason(error)}") from error
        if delimiter != ",":
            self._table, self._commas = _decimal_points(self._table)
            decimals = ", with decimal commas" if self._commas else ""
            self.layout = f"separated by {DELIMITERS[delimiter]}{decimals}"
        self.names: list[str] = self._table.column_names
        repeated = [name for name in self.names if self.names.count(name) > 1]
        if repeated:
            raise DataError(f"{path} has several columns named {min(repeated)!r}: rename them")
        if len(self) == 0:
            raise DataError(f"{path} has a header and no rows")

    @classmethod
    def of(cls, frame: Any, names: Sequence[str] = ()) -> TableFile:
        """Return columns, by default all, of a data frame or mapping, which messages call x."""
        with needed_for("reading data frames"):
            import pyarrow as pa
        self = cls.__new__(cls)
        self.path, self.layout, self._commas = Path("x"), "", set()
        keys = {
            str(key): key
            for key in getattr(frame, "column_names", None)
            or list(getattr(frame, "columns", frame))
        }
        self.names = list(keys)
        names = [self.one(name, "an input of the encoder") for name in names] or self.names
        try:
            self._table = pa.table({name: frame[keys[name]] for name in names})
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"x cannot be read as a table: {' '.join(str(error).split())}"
            ) from error
        return self

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def matching(self, pattern: str, purpose: str) -> list[str]:
        """Return the columns that match a name or a pattern such as sensor_*, in the order of the
        file; error messages name the purpose.
        """
        if pattern in self.names:
            return [pattern]
        matches = [name for name in self.names if fnmatch.fnmatchcase(name, pattern)]
        if not matches:
            near = difflib.get_close_matches(pattern, self.names, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            quote = ""
            if not self.layout and ";" in "".join(self.names):
                quote = "; if ';' separates its columns, quote names with commas"
            raise DataError(
                f"{self.path} has no column {pattern!r}{hint}, requested as {purpose}: it has"
                f" {_listed(self.names)}{quote}"
            )
        return matches

    def one(self, pattern: str, purpose: str) -> str:
        """Return the only column that matches a name or a pattern."""
        matches = self.matching(pattern, purpose)
        if len(matches) > 1:
            raise DataError(
                f"{self.path}: {pattern!r}, requested as {purpose}, matches several columns"
                f" ({_listed(matches)}): name one"
            )
        return matches[0]

    def is_list(self, name: str) -> bool:
        """Return whether each cell is a list of numbers, as in Parquet files."""
        import pyarrow.types as types

        kind = self._table.schema.field(name).type
        return bool(
            types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        )

    def vectors(self, name: str) -> Doubles:
        """Return a column of lists of the same length as (n, k), with NaN for missing lists."""
        cells: list[Any] = self._table.column(name).to_pylist()
        width = next((len(cell) for cell in cells if cell), 0)
        values = np.full((len(cells), max(width, 1)), np.nan)
        for row, cell in enumerate(cells):
            if cell is None:
                continue
            where = self.where(row + 1, name)
            if len(cell) != width:
                raise DataError(
                    f"{where} has {len(cell)} numbers and others have {width}: all lists must have"
                    " the same length"
                )
            try:
                values[row] = [np.nan if value is None else value for value in cell]
            except (TypeError, ValueError):
                raise DataError(
                    f"{where} holds {shown(cell)}: a list must consist of numbers; a set of"
                    " attributes is text, joined by ';'"
                ) from None
            if (np.abs(values[row]) > _LARGEST).any():
                raise DataError(f"{where} holds an infinite number: numbers must be finite")
        return values

    def text(self, name: str, empty: str | None = None) -> Strings:
        """Return a column as text, with None for missing cells and `empty` for empty ones."""
        import pyarrow.types as types

        column = self._table.column(name)
        if types.is_timestamp(column.type):
            column = _microseconds(column)  # Python has no nanoseconds
        try:
            cells = column.to_pylist()
        except (OverflowError, ValueError) as error:  # dates beyond the year 9999
            raise DataError(
                f"{self.path}, column {name!r} cannot be read: {reason(error)}"
            ) from None
        texts = ("na" if cell is None or cell != cell else str(cell).strip() for cell in cells)
        return np.array(
            [empty if not text else None if text.lower() in MISSING else text for text in texts],
            dtype=object,
        )

    def paths(self, name: str) -> Strings:
        """Return a column of paths as text."""
        import pyarrow.types as types

        kind = self._table.schema.field(name).type
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind)):
            raise DataError(
                f"{self.path}, column {name!r} holds {str(kind)[:60]}, not paths of images: write"
                " each image to a file, and its path into this column"
            )
        return self.text(name)

    def numbers(self, name: str, hint: str = "") -> Doubles:
        """Return a column as numbers, with dates as days since 1970-01-01 and NaN for missing
        cells; text is an error that names its row and ends with the hint.
        """
        values = self._parsed(name, hint)
        if fault := self._thousands(name, values):
            raise DataError(f"{self.where(fault[0] + 1, name)} {fault[1]}{hint}")
        infinite = np.flatnonzero(np.abs(values) > _LARGEST)
        if len(infinite):
            raise DataError(
                f"{self.where(int(infinite[0]) + 1, name)} is infinite or beyond 3e38: it must be"
                " finite"
            )
        return values

    def _parsed(self, name: str, hint: str) -> Doubles:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._table.column(name)
        if _is_temporal(column):
            stamps = _microseconds(column).cast(pa.int64()).to_numpy()
            return np.asarray(stamps.astype(np.float64) / 86_400e6)
        expected, parse = f"a date such as {EXAMPLE}, as in other rows", days
        if not self._begins_with_date(name):
            expected, parse = "a number", _float
            if pa.types.is_string(column.type):
                column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            try:
                return np.asarray(column.cast(pa.float64()).to_numpy().astype(np.float64))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                pass  # cell by cell: truth values, spaces, and errors
        values = np.full(len(self), np.nan)
        for row, cell in enumerate(self.text(name)):
            if cell is not None:
                try:
                    values[row] = parse(cell)
                except ValueError:
                    point = " with a decimal point" if parse is _float and "," in cell else ""
                    raise DataError(
                        f"{self.where(row + 1, name)} is {shown(cell)}: it must be"
                        f" {expected}{point}{hint}"
                    ) from None
        return values

    def _thousands(self, name: str, values: Doubles) -> tuple[int, str] | None:
        """Return a cell of a column of text whose point may separate thousands, if any."""
        import pyarrow.types as types

        known = values[~np.isnan(values)]
        # Most columns are decimals by their values, without a search of their text.
        if not (np.abs(known) < 1000).all() or not np.allclose(known, known.round(3), 0, 1e-9):
            return None
        if not types.is_string(self._table.column(name).type) or self._begins_with_date(name):
            return None
        if name in self._commas:  # its points were commas, which do not separate thousands
            return None
        return thousands(self.text(name).tolist(), beside=not self._commas)

    def is_category(self, name: str) -> bool:
        """Return whether the file declares a column to hold categories, as pandas writes them."""
        import pyarrow.types as types

        return bool(types.is_dictionary(self._table.column(name).type))

    def is_numeric(self, name: str) -> bool:
        """Return whether all cells that are not missing are numbers; dates are not."""
        if _is_temporal(self._table.column(name)) or self._begins_with_date(name):
            return False
        try:
            self._parsed(name, "")
        except DataError:
            return False
        return True

    def is_date(self, name: str) -> bool:
        """Return whether all cells that are not missing are ISO dates or date-times."""
        if _is_temporal(self._table.column(name)):
            return True
        return self._begins_with_date(name) and all(
            is_date(cell) for cell in self.text(name) if cell is not None
        )

    def _begins_with_date(self, name: str) -> bool:
        """Return whether the first cell that is not missing is a date, which is fast to check."""
        import pyarrow.types as types

        column = self._table.column(name)
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            return False
        cells = ((cell.as_py() or "").strip() for cell in column)
        return is_date(next((cell for cell in cells if cell and cell.lower() not in MISSING), ""))

    def where(self, row: int, name: str) -> str:
        """Return how messages name a cell."""
        return f"{self.path}, row {row}, column {name!r}"


def shown(cell: object) -> str:
    """Return a cell as messages show it, shortened."""
    text = repr(cell)
    return text if len(text) <= 80 else f"{text[:76]}...{text[-1]}"


def _float(text: str) -> float:
    return float(_TRUTH.get(text.lower(), text))


def _is_temporal(column: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_date(column.type) or types.is_timestamp(column.type))


def _microseconds(column: Any) -> Any:
    """Convert dates or timestamps of any unit to timestamps in microseconds."""
    import pyarrow as pa

    return column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False)


def _read_parquet(path: Path, size: int) -> Any:
    """Read a Parquet file that expands to a size that its own can hold."""
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            # Not the sizes of single columns: asked for those of a damaged file, pyarrow aborts.
            content = file.metadata
            groups = [content.row_group(number) for number in range(content.num_row_groups)]
            values = sum(
                max(group.total_byte_size, group.num_rows * content.num_columns) for group in groups
            )
            if values > max(_SMALL, _EXPANSION * size):
                raise DataError(f"its columns have {values:,} bytes, too many for its size")
            table = file.read()
            table.validate(full=True)
            return table
    except DataError:
        raise
    except Exception as error:  # a damaged file can make pyarrow raise nearly anything
        raise DataError(reason(error)) from error


def _decimal_points(table: Any) -> tuple[Any, set[str]]:
    """Replace decimal commas in columns of numbers; also return the names of these columns."""
    import pyarrow.compute as pc

    replaced = set()
    for position, name in enumerate(table.column_names):
        column = table.column(position)
        decimal = pc.match_substring_regex(column, r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$")
        integer = pc.match_substring_regex(column, r"^\s*([+-]?\d+)?\s*$")
        if (
            pc.any(decimal).as_py()
            and pc.all(pc.or_(decimal, integer)).as_py()
            and thousands(column.to_pylist(), ",") is None
        ):
            column = pc.replace_substring(column, ",", ".")
            table = table.set_column(position, name, column)
            replaced.add(name)
    return table, replaced


def _listed(names: Sequence[str], most: int = 12) -> str:
    # A stray quote makes several lines one name.
    return ", ".join(" ".join(name.split())[:80] for name in names[:most]) + (
        f" and {len(names) - most} more" if len(names) > most else ""
    )
