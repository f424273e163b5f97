"""`cclk-paper reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
from cyclopts import Parameter

from cclk._terminal import Console
from cclk.cli.output import QUIET, notify
from cclk.errors import SettingsError, warn
from cclk_paper.cli.options import RESULTS, RUNS, WORKERS, require_positive, show
from cclk_paper.experiments import EXPERIMENTS, Pool, Size, experiment, pending
from cclk_paper.experiments import reproduce as run_grid
from cclk_paper.experiments.job import Job
from cclk_paper.experiments.preflight import LIMIT_HOURS, check_data, hours_without_gpu

_NAMES = Parameter(help=f"all, or any of {', '.join(EXPERIMENTS)}", negative="")
_SIZE = Parameter(help="paper: the paper's own, for GPUs; cpu: hours on two cores; smoke: seconds")
_ONLY = Parameter(help='only cells with this text in "method, dataset or recipe", such as InfoNCE')
_YES = Parameter(
    negative="", show_default=False, help="also start what takes more than a day without a GPU"
)


def reproduce(
    names: Annotated[list[str], _NAMES],
    /,
    *,
    size: Annotated[Size, _SIZE] = "cpu",
    seeds: Annotated[int | None, Parameter(help="number; default: the experiment's own")] = None,
    only: Annotated[str, _ONLY] = "",
    workers: Annotated[int | None, WORKERS] = None,
    results: Annotated[Path, RESULTS] = Path("results"),
    runs: Annotated[Path, RUNS] = Path("runs/reproduce"),
    data_dir: Annotated[str | None, Parameter(help="folder of dataset files")] = None,
    yes: Annotated[bool, _YES] = False,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Run experiments of the paper and print their results beside the published figures.

    `cclk-paper reproduce fair --size cpu`

    Missing data are listed before a run starts. A smoke run only shows that everything runs.

    Results are kept in RESULTS/NAME.json. Finished runs are not repeated, so an interrupted grid
    resumes, and seeds can be added. `cclk-paper results` renders all results.
    """
    experiments = [experiment(name) for name in (EXPERIMENTS if names == ["all"] else names)]
    require_positive(seeds=seeds, workers=workers)
    if only and len(experiments) > 1:  # if no experiment has such cells, the first one reports it
        having = [one for one in experiments if one.plan(size).matching(only)]
        experiments = having or experiments[:1]
    overrides = {"data_dir": data_dir} if data_dir else {}
    jobs: list[Job] = []
    for one in experiments:
        jobs += pending(
            one, size, results_folder=results, seeds=seeds, overrides=overrides, only=only
        )
    _preflight(jobs, size, yes, quiet)
    with Pool(workers) as pool:
        for one in experiments:
            # Without options that concern only this machine.
            command = f"cclk-paper reproduce {one.name} --size {size}"
            result = run_grid(
                one,
                size,
                pool,
                results_folder=results,
                runs_folder=runs,
                command=command + (f" --seeds {seeds}" if seeds else ""),
                seeds=seeds,
                overrides=overrides,
                only=only,
                quiet=quiet,
            )
            show(result, quiet)


def _preflight(jobs: list[Job], size: Size, yes: bool, quiet: bool) -> None:
    """Raise an error if data are missing, or if the runs need more than a day on this CPU."""
    console = Console(stderr=True, quiet=quiet)
    with console.status("checking data"):
        extents = check_data(jobs)
    if size != "paper" or not jobs or torch.cuda.is_available():
        return
    with console.status("estimating the time"):
        hours = hours_without_gpu(jobs, extents)
    units = ((1, 48, "hours"), (24, 24 * 730, "days"), (24 * 365, float("inf"), "years"))
    duration = next(f"{hours / unit:.0f} {name}" for unit, most, name in units if hours < most)
    text = (
        f"without a GPU, {len(jobs)} {'runs' if len(jobs) > 1 else 'run'} at --size paper take"
        f" about {duration} on this machine"
    )
    if hours > LIMIT_HOURS and not yes:
        raise SettingsError(
            f"{text}: use a machine with a GPU, choose --size cpu, or add --yes to start them"
            " anyway"
        )
    if yes:
        warn(text)
    else:
        notify(text, quiet)
