"""Text that means numbers but cannot be parsed as such: a stray word, units, other dates.

Such a column would silently become one of categories, nearly each of them with one row. A column is
suspected if at least half of its cells, or of its distinct ones, are numbers, dates, times, or
numbers with the same unit, and if these alone would be continuous: few whole numbers are categories
anyway, with or without a word among them.

>>> disguised(["1.5", "2.5", "unknown"])
(2, "is 'unknown', but 2 of 3 cells are numbers: correct it, leave it empty if it is missing")
>>> disguised(["12cm", "8.5cm"])
(0, "is '12cm': remove the unit")
>>> disguised(["1", "2", "A"]) is None
True
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from cclk._dates import EXAMPLE, is_date

FEW = 10
"""Integers with at most this many distinct values are categories."""
_SPACES = r"[ \u00a0\u202f]"
_DIGITS = r"(?:\d+(?:[.,]\d*)?(?:[eE][+-]?\d+)?|[.,]\d+)"
_GROUPED = rf"(?:\d{{1,3}}(?:[.,']|{_SPACES})\d{{3}}(?:(?:[.,']|{_SPACES})\d{{3}})*(?:[.,]\d+)?)"
_UNIT = r"[^\W\d_]{1,12}|[%‰°$€£¥₹µ'\"][^\W\d_]{0,3}|[^\W\d_]{1,6}(?:/[^\W\d_]{1,6}|[²³])"
_MEASURE = re.compile(
    rf"(?P<before>[$€£¥₹])?\s*[+-]?(?P<digits>{_GROUPED}|{_DIGITS})\s*(?P<after>{_UNIT})?"
)
_DATE = re.compile(
    r"(\d{1,2}([./-])\d{1,2}\2(\d{4}|\d{2})|\d{4}([./])\d{1,2}\4\d{1,2})"
    r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?"
)
_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[aApP][mM])?")
_KINDS = {"iso": "dates", "date": "dates", "time": "times"}
_REMEDIES = {
    "date": f"write dates as {EXAMPLE}",
    "time": "write times as numbers, such as hours",
    "unit": "remove the unit",
    "separator": "write numbers with a decimal point and without separators of thousands",
}


def disguised(cells: Sequence[str | None]) -> tuple[int, str] | None:
    """Return the first cell that keeps a column from being numbers: its row, and what it is.

    Args:
        cells: A column of text, which is not all numbers or all ISO dates; None if missing.
    """
    counts = Counter(cell for cell in cells if cell is not None)
    forms = {cell: _form(cell.strip()) for cell in counts}
    units = Counter(form for form in forms.values() if form.startswith("unit"))
    unit = units.most_common(1)[0][0] if units else ""
    readable = {
        cell: form for cell, form in forms.items() if form and (form[:4] != "unit" or form == unit)
    }
    rows, total = sum(counts[cell] for cell in readable), counts.total()
    if 2 * len(readable) < len(counts) and 2 * rows < total:
        return None
    of_form = Counter(readable.values())
    kinds = Counter[str]()
    for text, form in readable.items():
        kinds[_KINDS.get(form, "numbers")] += counts[text]
    kind, same = kinds.most_common(1)[0]
    plain = "iso" if kind == "dates" else "number"
    if not of_form.keys() & {"iso", "date", "time"} and _few_integers(readable):
        return None
    for row, cell in enumerate(cells):
        if cell is not None and forms[cell] != plain:
            what = _REMEDIES.get(readable.get(cell, "").partition(" ")[0])
            return row, f"is {cell[:60]!r}" + (
                f": {what}"
                if what
                else f", but {same:,} of {total:,} cells are {kind}: correct it, leave it empty if"
                " it is missing"
            )
    return None


def thousands(
    cells: Sequence[str | None], sign: str = ".", *, beside: bool = True
) -> tuple[int, str] | None:
    """Return the first cell whose point may separate thousands: its row, and what it is.

    >>> thousands(["993", "1.234"])
    (1, "is '1.234', beside '993': is it 1.234 or 1234? Write 1234, or '993' as '993.0'")
    >>> thousands(["993", "1.234", "0.5"]) is thousands(["1.234", "2.345"]) is None
    True

    Args:
        cells: A column of text; None if missing.
        sign: The decimal point or comma.
        beside: Whether cells without a point are needed, which decimals of a fixed length lack.
    """
    pattern = re.compile(rf"[+-]?(0|[1-9]\d{{0,2}}({re.escape(sign)}\d{{3}})*)")
    first: int | None = None
    short = ""
    for row, cell in enumerate(cells):
        text = (cell or "").strip()
        if not text:
            continue
        if pattern.fullmatch(text) is None:
            return None
        if sign not in text:
            short = short or text
        elif first is None:
            first = row
    if first is None or (beside and not short):
        return None
    text = (cells[first] or "").strip()
    decimal, joined = text.replace(sign, "."), text.replace(sign, "")
    others = f"beside {short!r}" if short else "in a file of decimal commas"
    remedy = f", or {short!r} as '{short}{sign}0'" if short else ""
    return first, f"is {text!r}, {others}: is it {decimal} or {joined}? Write {joined}{remedy}"


def as_float(cell: str) -> float | None:
    """Return the number that a cell is; None for other text."""
    try:
        return float(cell)
    except ValueError:
        return None


def _form(cell: str) -> str:
    """The form of a cell: number, iso, date, time, separator, "unit cm", or "" for other text."""
    if as_float(cell) is not None:
        return "number"
    for form, matches in (("iso", is_date), ("date", _DATE.fullmatch), ("time", _TIME.fullmatch)):
        if matches(cell):
            return form
    measure = _MEASURE.fullmatch(cell)
    if measure is None:
        return ""
    unit = measure["before"] or measure["after"]
    return f"unit {unit.lower()}" if unit else "separator"


def _few_integers(cells: dict[str, str]) -> bool:
    numbers = set()
    for cell, form in cells.items():
        number = as_float(cell)
        if number is None:
            measure = _MEASURE.fullmatch(cell.strip())
            digits = measure["digits"] if measure else ""
            if re.fullmatch(_GROUPED, digits):
                return False
            number = float(digits.replace(",", ".") or "nan") if form else float("nan")
        numbers.add(number)
    return len(numbers) <= FEW and all(number.is_integer() for number in numbers)
