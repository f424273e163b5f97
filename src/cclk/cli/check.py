"""`cclk check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from cclk._terminal import Console
from cclk.cli.output import TRUST_CODE, with_options
from cclk.cli.setting_options import MAIN, takes_settings

_MARKS = {"fine": ("ok", "green"), "warning": ("??", "yellow"), "problem": ("!!", "red")}


@takes_settings
def check(
    config: Annotated[Path | None, Parameter(group=MAIN, help="TOML file with settings")] = None,
    *,
    preset: Annotated[
        str | None, Parameter(group=MAIN, help="settings that come with cclk")
    ] = None,
    trust_code: Annotated[list[str] | None, Parameter(group=MAIN), TRUST_CODE] = None,
    **overrides: Any,
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
    from cclk import run

    settings = run.complete_settings(
        preset=preset, settings=config, overrides=overrides, trust_code=trust_code or False
    )
    console, code = Console(), 0
    with console.status("reading and probing all data"):
        for finding in run.findings(settings):
            mark, style = _MARKS[finding.level]
            text = Text.assemble((mark, style), " ", with_options(finding.text))
            console.print(text, soft_wrap=True)
            code = max(code, finding.level == "problem")
    return int(code)
