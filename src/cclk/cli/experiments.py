"""The commands about experiments: run them, show their results, and sweep a setting."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import torch
from cyclopts import Parameter
from rich.console import Console
from rich.markdown import Markdown

from cclk.cli.say import QUIET, say
from cclk.cli.setting_options import SettingOptions
from cclk.data.fingerprint import fingerprint
from cclk.errors import SettingsError, warn
from cclk.experiments import EXPERIMENTS, SIZES, ExperimentResult, Pool, Size, experiment, pending
from cclk.experiments import reproduce as run_grid
from cclk.experiments import results as files
from cclk.experiments.figures import draw
from cclk.experiments.job import Job
from cclk.experiments.markdown import markdown
from cclk.experiments.measure import check
from cclk.experiments.preflight import LIMIT_HOURS, check_data, hours_without_gpu
from cclk.experiments.registry.recipes import LEAKS
from cclk.experiments.sweep import DEFAULT, Knob, extends, flat
from cclk.experiments.sweep import sweep as plan_sweep
from cclk.files import replace_text
from cclk.training.run import load_dataset
from cclk.training.settings import load

_RESULTS = Parameter(help="folder of the results files")
_RUNS = Parameter(help="folder of the runs, from which an interrupted grid resumes")
_WORKERS = Parameter(
    help="runs at a time; default: one per core, each with one thread, or one where there is a GPU"
)
_PIPED_WIDTH = 160


def reproduce(
    names: Annotated[
        list[str], Parameter(help=f"all, or any of {', '.join(EXPERIMENTS)}", negative="")
    ],
    /,
    *,
    size: Annotated[
        Size,
        Parameter(help="paper: the paper's own, for GPUs; cpu: hours on two cores; smoke: seconds"),
    ] = "cpu",
    seeds: Annotated[int | None, Parameter(help="how many; default: the experiment's own")] = None,
    only: Annotated[
        str,
        Parameter(help='only the cells with this in "method, dataset or recipe", such as InfoNCE'),
    ] = "",
    workers: Annotated[int | None, _WORKERS] = None,
    results: Annotated[Path, _RESULTS] = Path("results"),
    runs: Annotated[Path, _RUNS] = Path("runs/reproduce"),
    data_dir: Annotated[str | None, Parameter(help="where dataset files are")] = None,
    yes: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="start also what takes more than a day without a GPU",
        ),
    ] = False,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Run experiments of the paper with all their methods, and print them beside the paper's
    figures.

    `cclk reproduce fair --size cpu`

    Before anything is started, all missing data are listed. A smoke run only shows that everything
    runs.

    A result is kept in RESULTS/NAME.json. What it holds already is not run again, so that an
    interrupted grid resumes, and more seeds can be added. `cclk results` renders all of them.
    """
    chosen = list(EXPERIMENTS) if names == ["all"] else names
    found = [experiment(name) for name in chosen]
    _positive(seeds=seeds, workers=workers)
    if (
        only and len(found) > 1
    ):  # what one has, another need not have; if none does, the first tells so
        found = [one for one in found if one.plan(size).having(only)] or found[:1]
    overrides = {"data_dir": data_dir} if data_dir else {}
    jobs = [
        job
        for one in found
        for job in pending(
            one, size, results_folder=results, seeds=seeds, overrides=overrides, only=only
        )
    ]
    _preflight(jobs, size, yes, quiet)
    with Pool(workers) as pool:
        for one in found:
            result = run_grid(
                one,
                size,
                pool,
                results_folder=results,
                runs_folder=runs,
                command=_command(one.name, size, seeds),
                seeds=seeds,
                overrides=overrides,
                only=only,
                quiet=quiet,
            )
            _show(result, quiet)


def _preflight(jobs: list[Job], size: Size, yes: bool, quiet: bool) -> None:
    """An error if data are missing, or if runs of the paper's size would take longer than a day
    on a CPU and nobody said yes.
    """
    with Console(stderr=True, quiet=quiet).status("checking data"):
        extents = check_data(jobs)
    if size != "paper" or not jobs or torch.cuda.is_available():
        return
    with Console(stderr=True, quiet=quiet).status("estimating the time"):
        hours = hours_without_gpu(jobs, extents)
    long = (
        f"{hours:.0f} hours"
        if hours < 48
        else f"{hours / 24:.0f} days"
        if hours < 24 * 730
        else f"{hours / 24 / 365:.0f} years"
    )
    told = (
        f"without a GPU, {len(jobs)} {'runs' if len(jobs) > 1 else 'run'} at --size paper take"
        f" about {long} on this machine"
    )
    if hours <= LIMIT_HOURS:
        say(told, quiet)
    elif yes:
        warn(told)
    else:
        raise SettingsError(
            f"{told}: use a machine with a GPU, choose --size cpu, or add --yes to start them"
            " anyway"
        )


def results(
    folder: Annotated[Path, _RESULTS] = Path("results"),
    *,
    out: Annotated[Path | None, Parameter(help="Markdown file to write; default: print it")] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Render the results of all experiments as Markdown, with their images beside it.

    `cclk results --out docs/results.md`

    In a file that exists, only what stands between `<!-- NAME -->` and `<!-- end -->` is replaced,
    so that words around it are kept.
    """
    if not folder.is_dir():
        raise SettingsError(
            f"there is no folder {folder}: run an experiment first, such as cclk reproduce fair"
            " --size smoke"
        )
    found = {
        _block(result): result
        for result in map(files.read, files.experiments_in(folder))
        if result.size != "smoke"
    }
    if not found:
        raise SettingsError(
            f"{folder} holds no results of experiments at size cpu or paper: run cclk reproduce"
            " first"
        )
    places = {name: place for place, name in enumerate(EXPERIMENTS)}
    ordered = sorted(
        found, key=lambda name: (places.get(found[name].experiment, len(places)), name)
    )
    if out is None:
        print("\n".join(markdown(found[name]) for name in ordered))
        return
    images = {
        name: draw(replace(found[name], experiment=name), out.parent / "figures")
        for name in ordered
    }
    replace_text(
        out,
        render(
            {name: found[name] for name in ordered},
            images,
            out.read_text(encoding="utf-8") if out.exists() else None,
            out.parent,
        ),
    )
    say(f"written: {out}", quiet)


def _block(result: ExperimentResult) -> str:
    """The name of a result on the page."""
    return result.experiment + ("" if result.size == "cpu" else f"-{result.size}")


def render(
    found: Mapping[str, ExperimentResult],
    images: Mapping[str, list[Path]],
    before: str | None,
    folder: Path,
) -> str:
    """The page: a block for each result, in place of the one of the same name in the page as it
    was.
    """
    page = (
        "# Results\n\n" + "".join(f"<!-- {name} -->\n<!-- end -->\n\n" for name in found)
        if before is None
        else before
    )
    for name, result in found.items():
        shown = "\n".join(
            f"![{result.title}]({path.relative_to(folder).as_posix()})"
            for path in images.get(name, [])
        )
        block = (
            f"<!-- {name} -->\n{markdown(result).rstrip()}\n"
            + (f"\n{shown}\n" if shown else "")
            + "<!-- end -->"
        )
        pattern = re.compile(rf"<!-- {re.escape(name)} -->\n.*?<!-- end -->", re.DOTALL)
        before, after = [*pattern.split(page, maxsplit=1), ""][:2]
        page = before + block + after if pattern.search(page) else f"{page.rstrip()}\n\n{block}\n"
    return page


def sweep(
    *,
    over: Annotated[
        list[str] | None,
        Parameter(
            help="METHOD:SETTING=VALUE,VALUE,..., one or several", negative="", consume_multiple=1
        ),
    ] = None,
    preset: Annotated[str | None, Parameter(help="settings that all methods start from")] = None,
    config: Annotated[
        Path | None, Parameter(help="TOML file with such settings, instead of a preset")
    ] = None,
    name: Annotated[str, Parameter(help="of the result")] = "sweep",
    seeds: Annotated[int, Parameter(help="runs of each value")] = 1,
    test: Annotated[
        bool,
        Parameter(negative="", help="measure on the test split instead of the validation split"),
    ] = False,
    workers: Annotated[int | None, _WORKERS] = None,
    results: Annotated[Path, _RESULTS] = Path("results"),
    runs: Annotated[Path, _RUNS] = Path("runs/reproduce"),
    quiet: Annotated[bool, QUIET] = False,
    settings: SettingOptions | None = None,
) -> None:
    """Draw the frontier: accuracy against what leaks of the condition, for methods over values
    of one of their settings.

    `cclk sweep --preset colormnist-fair --over fair-cclk:neighbors=1.5,3,12 --over
    infonce:lr=3e-4,1e-3`

    The knob that trades accuracy for leakage is `neighbors`: how many like samples the median
    anchor of Fair-CCLK is compared with. Few: the condition goes, as far as batch and noise allow.
    Nearly all of the batch: plain InfoNCE. (It is told for random batches: in batches of like
    samples, --sampler local, there are more of them.) Beside it, unless you say otherwise with
    --over, Fair-InfoNCE and InfoNCE over their learning rates. Writes RESULTS/NAME.json and
    RESULTS/NAME.svg.
    """
    _positive(seeds=seeds, workers=workers)
    target = files.path_of(results, name, "cpu")
    if target in [files.path_of(results, taken, size) for taken in EXPERIMENTS for size in SIZES]:
        raise SettingsError(f"--name {name} is an experiment of the paper: choose another")
    split: Literal["test", "validation"] = "test" if test else "validation"
    given = (settings or SettingOptions()).given()
    common = flat(load(config, preset, given))
    if not test and "holdout" not in given and common.get("holdout") == 0:
        del common[
            "holdout"
        ]  # a preset may train on everything, but here something has to be left to measure on
    knobs = [Knob.read(text) for text in over or DEFAULT]
    plan_sweep(
        name, knobs, common, seeds, split
    )  # what is wrong with settings is told before data are read
    dataset = load_dataset(load(overrides=common))
    check(dataset, LEAKS, split)  # before hours of training, not after
    planned = plan_sweep(name, knobs, common, seeds, split, fingerprint(dataset))
    if target.exists() and not extends(planned.plan("cpu"), files.read(target)):
        raise SettingsError(f"{target} holds another sweep: keep both with --name, or delete it")
    command = shlex.join(["cclk", *sys.argv[1:]])
    with Pool(workers) as pool:
        result = run_grid(
            planned,
            "cpu",
            pool,
            results_folder=results,
            runs_folder=runs,
            command=command,
            seeds=seeds,
            quiet=quiet,
        )
    drawn = draw(result, results)
    _show(result, quiet)
    say(f"written: {files.path_of(results, name, 'cpu')}, {', '.join(map(str, drawn))}", quiet)


def _show(result: ExperimentResult, quiet: bool) -> None:
    if not quiet:
        # Into a file tables go as wide as they are; a terminal has its own width.
        Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(
            Markdown(markdown(result))
        )


def _command(name: str, size: str, seeds: int | None) -> str:
    """The command that gives this result, without what only concerns the machine it runs on."""
    return f"cclk reproduce {name} --size {size}" + (f" --seeds {seeds}" if seeds else "")


def _positive(**numbers: int | None) -> None:
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise SettingsError(f"--{name} is {value}: it must be at least 1")
