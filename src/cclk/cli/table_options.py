"""Options for a user's table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from cclk.training.own_table import Missing, OwnTable

_TABLE = Group("Your own table", sort_key=1)


def _column(help: str) -> Parameter:  # noqa: A002
    return Parameter(metavar="COLUMN", help=help)


def _columns(help: str) -> Parameter:  # noqa: A002
    """Several columns after one option, or the option several times."""
    return Parameter(metavar="COLUMN...", negative="", consume_multiple=1, help=help)


_CONDITION = _columns(
    "columns to use, ignore or find hard, or a pattern 'has_*'; a kind or a kernel may follow:"
    " 'site:categorical', 'hour:circular', 'age:laplacian'"
)
_FEATURES = _columns("or columns of numbers, by name or by a pattern 'sensor_*'")
_SPLIT = _column("train, validation or test [default: drawn, 70 : 15 : 15]")
_SPLIT_BY = _column("names persons or the like; rows of one are all in one split")
_GRAY = Parameter(negative="", show_default=False, help="read images in gray")


@Parameter(name="*", group=_TABLE)
@dataclass(frozen=True)
class TableOptions:
    """The fields of `cclk.training.own_table.OwnTable` as options."""

    data: Annotated[Path | None, Parameter(metavar="FILE", help="a .csv or .parquet file")] = None
    image: Annotated[str | None, _column("paths of images, relative to the file")] = None
    features: Annotated[list[str] | None, _FEATURES] = None
    condition: Annotated[list[str] | None, _CONDITION] = None
    label: Annotated[str | None, _column("predicted by probes from the features")] = None
    split: Annotated[str | None, _SPLIT] = None
    split_by: Annotated[str | None, _SPLIT_BY] = None
    row_id: Annotated[str | None, _column("name of each row [default: its number]")] = None
    missing: Annotated[Missing, Parameter(help="rows that lack a value")] = OwnTable.missing
    image_size: Annotated[int, Parameter(help="pixels; images are cropped to a square")] = (
        OwnTable.image_size
    )
    gray: Annotated[bool, _GRAY] = OwnTable.gray

    def table(self) -> OwnTable:
        """The table that these options describe."""
        return OwnTable(**vars(self))
