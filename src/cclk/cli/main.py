"""The commands, and how they end: 0 if all went well, 2 with one clear line if something given
was wrong, 128 + n on signal n.
"""

from __future__ import annotations

import ast
import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError, UnusedCliTokensError
from rich.console import Console

import cclk
from cclk.cli.own_table import Table, table_settings
from cclk.cli.say import QUIET, say
from cclk.cli.setting_options import (
    MAIN,
    SettingOptions,
    everything,
    unknown_option,
    with_current_names,
)
from cclk.errors import Interrupted, RunError, Stopped
from cclk.training.settings import Settings, load, presets

app = App(
    name="cclk",
    version=cclk.__version__,
    help=(
        "Conditional contrastive learning with kernels: tell an encoder what to use, what to"
        " ignore, what to find hard."
    ),
)


@app.command
def train(
    config: Annotated[Path | None, Parameter(group=MAIN, help="TOML file with settings")] = None,
    *,
    table: Table | None = None,
    preset: Annotated[
        str | None,
        Parameter(
            group=MAIN, metavar="NAME", help=f"ready settings [choices: {', '.join(presets())}]"
        ),
    ] = None,
    settings: SettingOptions | None = None,
    out: Annotated[
        Path | None,
        Parameter(group=MAIN, help="folder of the run [default: runs/METHOD-DATASET-seedSEED]"),
    ] = None,
    resume: Annotated[
        bool, Parameter(group=MAIN, negative="", show_default=False, help="resume the run in --out")
    ] = False,
    quiet: Annotated[bool, Parameter(group=MAIN), QUIET] = False,
) -> None:
    """Train an encoder into a run folder, from a table of your own, a dataset or a preset.

    `cclk train --data people.csv --image path --condition age site --label smiling --method
    fair-cclk`

    `cclk train --preset digits-fair --seed 1 --out runs/fair-1`

    Ctrl-C saves the run, and `cclk train --resume --out RUN` resumes it. `cclk train --help-all`
    lists all settings.
    """
    from cclk.training import engine

    chosen = config is not None or preset is not None
    given = table_settings(table or Table(), (settings or SettingOptions()).given(), chosen=chosen)
    if resume:
        if out is None:
            raise RunError("--resume needs --out, the folder of the run to go on with")
        if given or chosen:
            raise RunError(
                f"--resume takes its settings from {out}: leave out"
                f" {', '.join(['the others', *given])}"
            )
        run = engine.resume(out, quiet=quiet)
    else:
        if not given and not chosen:
            raise RunError(
                "there is nothing to train: give --data FILE, --dataset NAME, --preset NAME or a"
                " settings file"
            )
        complete = load(config, preset, given)
        run = engine.train(
            complete,
            out or _folder(complete),
            command=shlex.join(["cclk", *sys.argv[1:]]),
            quiet=quiet,
        )
    say(f"trained: {run.folder}; measure it with: cclk evaluate {run.folder}", quiet)


@app.command
def evaluate(
    runs: Annotated[list[Path], Parameter(help="folders of finished runs", negative="")],
    *,
    bootstrap: Annotated[
        int, Parameter(help="resamples of the test split for the intervals")
    ] = 1000,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Measure runs on the test split: accuracy of the label (linear probe, kNN), leakage of the
    condition (linear, non-linear).

    Writes RUN/evaluation.json and shows it as a table.
    """
    from cclk.cli.work import evaluate_run, nouns
    from cclk.evaluation.table import evaluation_table
    from cclk.training.run import Run

    if bootstrap < 1:
        raise RunError(f"--bootstrap is {bootstrap}: it must be at least 1")
    opened = [Run(folder) for folder in runs]
    # Folders of the same name are told apart by their paths.
    alike = len({run.name for run in opened}) < len(opened)
    named = {str(run.folder) if alike else run.name: run for run in opened}
    found = {name: evaluate_run(run, bootstrap, quiet) for name, run in named.items()}
    if not quiet:
        labels = {nouns(run)["label"] for run in named.values()}
        Console().print(
            evaluation_table(found, label=labels.pop() if len(labels) == 1 else "label")
        )


@app.command
def report(
    runs: Annotated[list[Path], Parameter(help="folders of runs", negative="")],
    *,
    out: Annotated[Path, Parameter(help="the page to write")] = Path("report.html"),
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Show runs side by side on one HTML page that needs no network: settings, curves, accuracy
    against leakage, embeddings, weights.
    """
    from cclk.cli.work import report_runs
    from cclk.training.run import Run

    path = report_runs([Run(folder) for folder in runs], out)
    say(f"written: {path.resolve()}", quiet)


@app.command
def demo(
    *,
    out: Annotated[Path, Parameter(help="folder of the demo's runs")] = Path("runs/demo"),
    seeds: Annotated[int, Parameter(help="how many seeds of each method")] = 1,
) -> None:
    """Train InfoNCE and Fair-CCLK on colored digits, measure both, and show that conditioning
    removes the color.
    """
    from cclk.cli.work import run_demo

    if seeds < 1:
        raise RunError(f"--seeds is {seeds}: it must be at least 1")
    run_demo(out, seeds)


def _docstrings(module: str) -> dict[str, str]:
    """What the functions of a module beside this one say of themselves, read without importing
    it: `cclk --help` has to be quick.
    """
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))
    return {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


for _module, _commands in {
    "check": ["check"],
    "use": ["embed", "export"],
    "features": ["features"],
    "experiments": ["reproduce", "results", "sweep"],
}.items():
    _told_of = _docstrings(_module)
    for _command in _commands:
        app.command(f"cclk.cli.{_module}:{_command}", help=_told_of[_command])


def _folder(settings: Settings) -> Path:
    return (
        Path("runs") / f"{settings.method}-{Path(settings.data.dataset).stem}-seed{settings.seed}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run a command; what goes wrong by the user's doing is one line on stderr, never a traceback."""
    # A console script does not look where it is started; an encoder given by import path may be
    # there.
    sys.path.insert(0, "")
    formatted = warnings.formatwarning
    warnings.formatwarning = _warning
    try:
        return _run(with_current_names(sys.argv[1:] if arguments is None else arguments))
    except Interrupted as stopped:
        _error(str(stopped))
        return 128 + stopped.signum
    except Stopped as stopped:
        _error(str(stopped))
        return 130
    except KeyboardInterrupt:
        _error("stopped")
        return 130
    except UnknownOptionError as error:
        _error(unknown_option(error))
        return 2
    except UnusedCliTokensError as error:
        _error(
            f"unexpected argument{'s' if len(error.unused_tokens or []) > 1 else ''}:"
            f" {shlex.join(error.unused_tokens or [])}"
        )
        return 2
    except CycloptsError as error:
        _error(" ".join(str(error).split()))
        return 2
    except ExceptionGroup as several:
        for text in (several.message, *map(_told, several.exceptions)):
            _error(text)
        return 2
    except (ValueError, OSError) as error:
        _error(_told(error))
        return 2
    finally:
        warnings.formatwarning = formatted


_NEEDS_ARGUMENTS = ("train", "check", "sweep")
"""Commands without required arguments that would do long work by themselves: alone, they show
their help, as `cclk` does.
"""


def _run(arguments: list[str]) -> int:
    """Run a command; gives its exit code."""
    if len(arguments) == 1 and arguments[0] in _NEEDS_ARGUMENTS:
        arguments = [*arguments, "--help"]
    if "--help-all" in arguments:
        with everything:
            return _run(
                ["--help" if argument == "--help-all" else argument for argument in arguments]
            )
    code: int | None = app(
        arguments, exit_on_error=False, print_error=False, result_action="return_value"
    )
    return code or 0


def _warning(message: Warning | str, *_: object, **__: object) -> str:
    """A warning in one line, without the line of code it comes from, which means nothing to who
    runs a command.
    """
    return f"cclk: warning: {' '.join(str(message).split())}\n"


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())


def _error(text: str) -> None:
    Console(stderr=True).print(
        f"cclk: {text}", style="red", markup=False, highlight=False, soft_wrap=True
    )


if __name__ == "__main__":
    sys.exit(main())
