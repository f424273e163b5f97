"""`cclk train`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from cclk.cli.output import QUIET, TRUST_CODE, notify
from cclk.cli.setting_options import MAIN, takes_settings
from cclk.errors import RunError
from cclk.training.settings import presets

_PRESET = Parameter(
    group=MAIN, metavar="NAME", help=f"ready settings [choices: {', '.join(presets())}]"
)
_OUT = Parameter(group=MAIN, help="folder of the run [default: runs/METHOD-DATASET-seedSEED]")
_RESUME = Parameter(group=MAIN, negative="", show_default=False, help="resume the run in --out")


@takes_settings
def train(
    config: Annotated[Path | None, Parameter(group=MAIN, help="TOML file with settings")] = None,
    *,
    preset: Annotated[str | None, _PRESET] = None,
    out: Annotated[Path | None, _OUT] = None,
    resume: Annotated[bool, _RESUME] = False,
    trust_code: Annotated[list[str] | None, Parameter(group=MAIN), TRUST_CODE] = None,
    quiet: Annotated[bool, Parameter(group=MAIN), QUIET] = False,
    **overrides: Any,
) -> None:
    """Train an encoder into a run folder, from a table of your own, a dataset or a preset.

    `cclk train --data people.csv --image path --condition age site --label smiling`

    `cclk train --preset digits-fair --seed 1 --out runs/fair-1`

    Ctrl-C saves the run, and `cclk train --resume --out RUN` resumes it. --help-all lists settings.
    """
    if resume and out is None:
        raise RunError("--resume needs --out, the folder of the run to resume")
    if resume and (overrides or config or preset):
        raise RunError(f"--resume takes all settings from {out}: remove the other options")
    from cclk import run
    from cclk.training._process import retain_freed_memory

    retain_freed_memory()
    if resume and out is not None:
        trained = run.Run(out, trust_code=trust_code or False).resume(quiet=quiet)
    else:
        trained = run.train(
            preset=preset,
            settings=config,
            overrides=overrides,
            trust_code=trust_code or False,
            out=out,
            command=shlex.join(["cclk", *sys.argv[1:]]),
            quiet=quiet,
        )
    notify(f"trained: {trained.folder}; evaluate it with: cclk evaluate {trained.folder}", quiet)
