"""`cclk-paper sweep`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from cclk.cli.output import QUIET, TRUST_CODE, notify
from cclk.cli.setting_options import takes_settings
from cclk.data.fingerprint import fingerprint
from cclk.errors import SettingsError
from cclk.training.run_folder import load_dataset
from cclk.training.settings import load
from cclk_paper.cli.options import RESULTS, RUNS, WORKERS, require_positive, show
from cclk_paper.experiments import BENCHES, EXPERIMENTS, SIZES, Pool
from cclk_paper.experiments import reproduce as run_grid
from cclk_paper.experiments import results as files
from cclk_paper.experiments.figures import draw
from cclk_paper.experiments.measure import check
from cclk_paper.experiments.sweep import DEFAULT, MEASURES, Knob, extends, flat
from cclk_paper.experiments.sweep import sweep as plan_sweep

_OVER = Parameter(
    help="METHOD:SETTING=VALUE,VALUE,..., one or several", negative="", consume_multiple=1
)
_TEST = Parameter(negative="", help="measure on the test split instead of the validation split")


@takes_settings
def sweep(
    *,
    over: Annotated[list[str] | None, _OVER] = None,
    preset: Annotated[str | None, Parameter(help="settings that all methods start from")] = None,
    config: Annotated[Path | None, Parameter(help="or a TOML file with such settings")] = None,
    name: Annotated[str, Parameter(help="name of the result")] = "sweep",
    seeds: Annotated[int, Parameter(help="runs of each value")] = 1,
    test: Annotated[bool, _TEST] = False,
    workers: Annotated[int | None, WORKERS] = None,
    results: Annotated[Path, RESULTS] = Path("results"),
    runs: Annotated[Path, RUNS] = Path("runs/reproduce"),
    trust_code: Annotated[list[str] | None, TRUST_CODE] = None,
    quiet: Annotated[bool, QUIET] = False,
    **overrides: Any,
) -> None:
    """Draw accuracy against leakage, for methods over values of one of their settings.

    `cclk-paper sweep --preset digits-fair --over fair-cclk:leakage_penalty=1,3,10 infonce:lr=1e-3`

    The settings that trade accuracy for leakage are `leakage_penalty` and `neighbors`, the
    effective number of neighbors of the median anchor of Fair-CCLK: with few neighbors there is no
    reason to encode the condition; with nearly the full batch the loss is plain InfoNCE. (The
    number holds for random batches; --sampler local gives more.) By default Fair-InfoNCE and
    InfoNCE over their learning rates are shown too. Leakage is that of the worst of a panel of
    probes. Writes RESULTS/NAME.json and RESULTS/NAME.svg.
    """
    require_positive(seeds=seeds, workers=workers)
    target = files.path_of(results, name, "cpu")
    names = (*EXPERIMENTS, *BENCHES)
    if target in [files.path_of(results, taken, size) for taken in names for size in SIZES]:
        raise SettingsError(f"--name {name} is an experiment of this package: choose another")
    split: Literal["test", "validation"] = "test" if test else "validation"
    common = flat(load(config, preset, overrides, trust_code=trust_code or False))
    if not test and "holdout" not in overrides and common.get("holdout") == 0:
        del common["holdout"]  # a preset may train on all rows, but some are measured on here
    if "leakage_penalty" not in overrides:
        common.pop("leakage_penalty", None)  # that of a preset would suit one of the methods only
    knobs = [Knob.read(text) for text in over or DEFAULT]
    plan_sweep(name, knobs, common, seeds, split)  # reports wrong settings before data are read
    dataset = load_dataset(load(overrides=common))
    check(dataset, MEASURES, split)  # before hours of training, not after
    planned = plan_sweep(name, knobs, common, seeds, split, fingerprint(dataset))
    if target.exists() and not extends(planned.plan("cpu"), files.read(target)):
        raise SettingsError(f"{target} contains another sweep: keep both with --name, or delete it")
    with Pool(workers) as pool:
        result = run_grid(
            planned,
            "cpu",
            pool,
            results_folder=results,
            runs_folder=runs,
            command=shlex.join(["cclk", *sys.argv[1:]]),
            seeds=seeds,
            quiet=quiet,
        )
    figures = draw(result, results)
    show(result, quiet)
    notify(f"written: {target}, {', '.join(map(str, figures))}", quiet)
