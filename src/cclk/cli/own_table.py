"""A user's table on the command line: the options about it, and settings that suit what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from cclk.errors import SettingsError

_TABLE = Group("Your own table", sort_key=1)
_CONDITION = (
    "columns to use, ignore or find hard, or a pattern 'has_*'; a kind or a kernel may follow:"
    " 'site:categorical', 'age:laplacian'"
)


def _columns(told: str) -> Parameter:
    """Several columns after one option, or the option several times."""
    return Parameter(metavar="COLUMN...", negative="", consume_multiple=1, help=told)


@Parameter(name="*", group=_TABLE)
@dataclass(frozen=True)
class Table:
    """What a table is and what its columns are for."""

    data: Annotated[Path | None, Parameter(metavar="FILE", help="a .csv or .parquet file")] = None
    image: Annotated[
        str | None, Parameter(metavar="COLUMN", help="paths of images, relative to the file")
    ] = None
    features: Annotated[
        list[str] | None, _columns("or columns of numbers, by name or by a pattern 'sensor_*'")
    ] = None
    condition: Annotated[list[str] | None, _columns(_CONDITION)] = None
    label: Annotated[
        str | None, Parameter(metavar="COLUMN", help="what probes try to predict from the encoder")
    ] = None
    split: Annotated[
        str | None,
        Parameter(
            metavar="COLUMN", help="train, validation or test [default: drawn, 70 : 15 : 15]"
        ),
    ] = None
    row_id: Annotated[
        str | None, Parameter(metavar="COLUMN", help="name of each row [default: its number]")
    ] = None
    missing: Annotated[
        Literal["error", "drop", "impute"], Parameter(help="rows that lack a value")
    ] = "error"
    image_size: Annotated[int, Parameter(help="pixels; images are cut to a square")] = 32
    gray: Annotated[
        bool, Parameter(negative="", show_default=False, help="read images as gray")
    ] = False

    def told(self) -> dict[str, Any]:
        """The columns that were named."""
        named = {
            name: getattr(self, name)
            for name in ("image", "features", "condition", "label", "split", "row_id")
        }
        return {name: value for name, value in named.items() if value}


def table_settings(table: Table, given: Mapping[str, Any], *, chosen: bool) -> dict[str, Any]:
    """The settings as given, and those that the table brings.

    Args:
        chosen: whether a preset or a file has settings already; then nothing is chosen for the
            user.
    """
    told = table.told()
    if table.data is None:
        if told:
            raise SettingsError(
                f"--{next(iter(told)).replace('_', '-')} tells about a table: say which one with"
                " --data FILE"
            )
        return dict(given)
    for name in ("dataset", "dataset_options"):
        if name in given:
            raise SettingsError(
                f"--data and --{name.replace('_', '-')} both say what to train on: give one of them"
            )
    options: dict[str, Any] = {**told, "missing": table.missing}
    if "image" in told:
        options |= {"size": table.image_size, "gray": table.gray}
    suited = {} if chosen else _suited(table)
    if "encoder" in given:  # options are those of the encoder that would have been chosen
        suited.pop("encoder_options", None)
    return suited | dict(given) | {"dataset": str(table.data.resolve()), "dataset_options": options}


def _suited(table: Table) -> dict[str, Any]:
    """Network and views for numbers, small images, and photographs."""
    if table.features:
        return {"encoder": "mlp", "augmentation": "vectors"}
    if table.gray and table.image_size == 32:
        return {"encoder": "lenet5", "augmentation": "digits"}
    stem = "cifar" if table.image_size < 96 else "imagenet"
    return {
        "encoder": "resnet18",
        "encoder_options": {"stem": stem, "width": 16},
        "augmentation": "digits" if table.gray else "simclr",
    }
