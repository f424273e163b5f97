"""ISO dates and date-times as days since 1970-01-01, in UTC if they have no offset.

>>> is_date("2024-05-01"), is_date("2024-05-01T18:30:00+02:00"), is_date("1 May 2024")
(True, True, False)
>>> days("1970-01-02"), days("1970-01-02 06:00")
(1.0, 1.25)
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from cclk.errors import DataError

EXAMPLE = "2024-05-31"
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_date(text: str) -> bool:
    """Whether the text has the format of a date; the day need not exist."""
    return _ISO.fullmatch(text) is not None


def days(text: str) -> float:
    """Convert a date to a number of days.

    Raises:
        DataError: If the date does not exist.
    """
    try:
        return days_of(datetime.fromisoformat(text))
    except ValueError:
        raise DataError(f"{text!r} is not a date such as {EXAMPLE}") from None


def days_of(moment: date) -> float:
    """Convert a date or date-time object to a number of days."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) / timedelta(days=1)
