"""`cclk check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.text import Text

from cclk._terminal import Console
from cclk.cli.output import TRUST_CODE
from cclk.cli.setting_options import MAIN, SettingOptions
from cclk.cli.table_options import TableOptions

_MARKS = {"fine": ("ok", "green"), "warning": ("??", "yellow"), "problem": ("!!", "red")}


def check(
    config: Annotated[Path | None, Parameter(group=MAIN, help="TOML file with settings")] = None,
    *,
    table: TableOptions | None = None,
    preset: Annotated[
        str | None, Parameter(group=MAIN, help="settings that come with cclk")
    ] = None,
    trust_code: Annotated[bool, Parameter(group=MAIN), TRUST_CODE] = False,
    settings: SettingOptions | None = None,
) -> int:
    """Check data as `cclk train` would read them: their content, problems, and the training time.

    `cclk check --data people.csv --image path --condition age --label smiling --batch-size 256`

    Reports rows, images that cannot be read, columns that never change or hardly repeat, rare
    classes, conditions that are also inputs, the effective number of neighbors in a batch, the
    training time, and, if a condition is to be removed, how much of it inputs, untrained encoder
    and label reveal. Exits with 0 if all is well, 1 if there is a problem (!!), 2 if the data
    cannot be read.

    Takes every setting of `cclk train` by its name, such as --method, --steps or --batch-size:
    `--help-all` lists them.
    """
    from cclk.evaluation.baselines import predict_removal
    from cclk.run import complete_settings
    from cclk.training import check as checking

    complete = complete_settings(
        (table or TableOptions()).table(),
        preset=preset,
        settings=config,
        overrides=(settings or SettingOptions()).passed(),
        trust_code=trust_code,
    )
    console, problems = Console(), 0
    with console.status("reading all data"):
        for finding in checking.check(complete):
            mark, style = _MARKS[finding.level]
            console.print(Text.assemble((mark, style), " ", finding.text), soft_wrap=True)
            problems += finding.level == "problem"
    if not problems and (complete.method.startswith("fair") or complete.removal.leakage_penalty):
        with console.status("probing inputs, untrained encoder and label"):
            for finding in predict_removal(complete):
                console.print(Text.assemble(("ok", "green"), " ", finding.text), soft_wrap=True)
    return 1 if problems else 0
