"""The command that looks at data before anything is trained on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from cclk.cli.own_table import Table, table_settings
from cclk.cli.setting_options import MAIN, SettingOptions
from cclk.training.settings import load

_MARKS = {"fine": ("ok", "green"), "warning": ("??", "yellow"), "problem": ("!!", "red")}


def check(
    config: Annotated[Path | None, Parameter(group=MAIN, help="TOML file with settings")] = None,
    *,
    table: Table | None = None,
    preset: Annotated[
        str | None, Parameter(group=MAIN, help="settings that come with cclk")
    ] = None,
    settings: SettingOptions | None = None,
) -> int:
    """Look at data as `cclk train` would see them: read everything once, and tell what is in
    them and what is wrong.

    `cclk check --data people.csv --image path --condition age --label smiling --batch-size 256`

    Rows, images that cannot be read, columns that never change or hardly repeat, rare classes,
    conditions that are also inputs, how many like samples an anchor has in a batch, and how long
    training will take. Ends with 0 if all is well, 1 if there is a problem (!!), 2 if the data
    cannot be read at all.

    Any setting of `cclk train` may be given by its name, such as --method, --steps or --batch-size:
    `--help-all` lists them.
    """
    from cclk.training.checkup import examine

    given = (settings or SettingOptions()).given()
    complete = load(
        config,
        preset,
        table_settings(table or Table(), given, chosen=config is not None or preset is not None),
    )
    console, problems = Console(), 0
    with console.status("reading everything once"):
        for finding in examine(complete):
            mark, style = _MARKS[finding.level]
            console.print(Text.assemble((mark, style), " ", finding.text), soft_wrap=True)
            problems += finding.level == "problem"
    return 1 if problems else 0
