"""The commands, and how they end: 0 if all went well, 2 with one clear line if something given was wrong, 128 + n on signal n."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Group, Parameter
from rich.console import Console

import cclk
from cclk.cli.say import say
from cclk.cli.tables import Table, table_settings
from cclk.training.files import RunError
from cclk.training.settings import METHODS, Settings, load, places, presets

app = App(
    name="cclk",
    version=cclk.__version__,
    help="Conditional contrastive learning with kernels: tell an encoder what to use, what to ignore, what to find hard.",
)
_MAIN = Group("Often used", sort_key=0)


def _settings_help() -> str:
    """Every setting by name, for the help page of `cclk train`."""
    lines, before = [], None
    for name, section, field in places():
        if section != before:
            lines.append(f"\n\\[{section or 'top level'}]\n")
            before = section
        default = field.default if not isinstance(field.default, dict) else "none"
        lines.append(f"* --{name.replace('_', '-')}: {field.description} (default: {default})")
    return "\n".join(lines)


def _train_help() -> str:
    words = f"""Train an encoder into a run folder.

    From a TOML file or a preset ({", ".join(presets())}), with any setting replaced by its name:

    `cclk train --preset digits-fair --seed 1 --out runs/fair-1`

    From a table of your own, CSV or Parquet, with pictures (paths relative to the file) or numbers:

    `cclk train --data people.csv --image path --condition age --condition site --label smiling --method fair-cclk`

    Ctrl-C saves the run; `cclk train --resume --out RUN` goes on where it stopped. Methods: {", ".join(METHODS)}.

    Settings, as they stand in a TOML file and as options here:
    """
    # Without its indent, which would make it a block of code; the settings have none.
    return f"{inspect.cleandoc(words)}\n{_settings_help()}"


@app.command(help=_train_help())
def train(
    config: Annotated[Path | None, Parameter(help="TOML file with settings")] = None,
    *,
    preset: Annotated[str | None, Parameter(group=_MAIN, help="settings that come with cclk")] = None,
    out: Annotated[Path | None, Parameter(group=_MAIN, help="folder of the run; default: runs/METHOD-DATASET-seedSEED")] = None,
    resume: Annotated[bool, Parameter(group=_MAIN, negative="", help="go on with the run in --out")] = False,
    method: Annotated[str | None, Parameter(group=_MAIN, help="what to train")] = None,
    dataset: Annotated[str | None, Parameter(group=_MAIN, help="what to train on: a name, or an .npz file")] = None,
    data_dir: Annotated[str | None, Parameter(group=_MAIN, help="where dataset files are")] = None,
    batch_size: Annotated[str | None, Parameter(group=_MAIN, help="samples per step")] = None,
    lr: Annotated[str | None, Parameter(group=_MAIN, help="base learning rate")] = None,
    epochs: Annotated[str | None, Parameter(group=_MAIN, help="passes over the training split")] = None,
    steps: Annotated[str | None, Parameter(group=_MAIN, help="steps, instead of epochs")] = None,
    temperature: Annotated[str | None, Parameter(group=_MAIN, help="of the loss")] = None,
    seed: Annotated[str | None, Parameter(group=_MAIN, help="of all randomness")] = None,
    quiet: Annotated[bool, Parameter(group=_MAIN, negative="", help="show nothing but errors")] = False,
    table: Table | None = None,
    **others: Annotated[str, Parameter(help="any other setting by its name, such as --ridge 0.1", show=False)],
) -> None:
    from cclk.training import engine

    named = {
        "method": method, "dataset": dataset, "data_dir": data_dir, "batch_size": batch_size, "lr": lr, "epochs": epochs,
        "steps": steps, "temperature": temperature, "seed": seed,
    }  # fmt: skip
    given: dict[str, Any] = {key: value for key, value in named.items() if value is not None} | others
    given = table_settings(table or Table(), given, chosen=config is not None or preset is not None)
    if resume:
        if out is None:
            raise RunError("--resume needs --out, the folder of the run to go on with")
        if given or config is not None or preset is not None:
            raise RunError(f"--resume takes its settings from {out}: leave out {', '.join(['the others', *given])}")
        run = engine.resume(out, quiet=quiet)
    else:
        settings = load(config, preset, given)
        run = engine.train(settings, out or _folder(settings), command=shlex.join(["cclk", *sys.argv[1:]]), quiet=quiet)
    say(f"trained: {run.folder}; measure it with: cclk evaluate {run.folder}", quiet)


@app.command
def evaluate(
    runs: Annotated[list[Path], Parameter(help="folders of finished runs", negative="")],
    *,
    bootstrap: Annotated[int, Parameter(help="resamples of the test split for the intervals")] = 1000,
    quiet: Annotated[bool, Parameter(negative="", help="show nothing but errors")] = False,
) -> None:
    """Measure runs on the test split: accuracy of the label (linear probe, kNN), leakage of the condition (linear, non-linear).

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
        called = {name: nouns(run) for name, run in named.items()}
        labels = {words["label"] for words in called.values()}
        conditions = {name: words["condition"] for name, words in called.items()}
        Console().print(evaluation_table(found, label=labels.pop() if len(labels) == 1 else "label", condition=conditions))


@app.command
def report(
    runs: Annotated[list[Path], Parameter(help="folders of runs", negative="")],
    *,
    out: Annotated[Path, Parameter(help="the page to write")] = Path("report.html"),
    quiet: Annotated[bool, Parameter(negative="", help="show nothing but errors")] = False,
) -> None:
    """Show runs side by side on one HTML page that needs no network: settings, curves, accuracy against leakage, embeddings, weights."""
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
    """Train InfoNCE and Fair-CCLK on coloured digits, measure both, and show that conditioning removes the colour."""
    from cclk.cli.work import run_demo

    if seeds < 1:
        raise RunError(f"--seeds is {seeds}: it must be at least 1")
    run_demo(out, seeds)


def _docstrings(module: str) -> dict[str, str]:
    """What the functions of a module beside this one say of themselves, read without importing it: `cclk --help` has to be quick."""
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))
    return {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}


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
    return Path("runs") / f"{settings.method}-{Path(settings.data.dataset).stem}-seed{settings.seed}"


def main(arguments: list[str] | None = None) -> int:
    """Run a command; what goes wrong by the user's doing is one line on stderr, never a traceback."""
    from cclk.training.engine import Interrupted
    from cclk.training.files import Stopped

    # A console script does not look where it is started; an encoder given by import path may be there.
    sys.path.insert(0, "")
    try:
        app(
            _without_dots(sys.argv[1:] if arguments is None else arguments),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
    except Interrupted as stopped:
        _error(str(stopped))
        return 128 + stopped.signum
    except Stopped as stopped:
        _error(str(stopped))
        return 130
    except KeyboardInterrupt:
        _error("stopped")
        return 130
    except CycloptsError as error:
        _error(" ".join(str(error).split()))
        return 2
    except (ValueError, OSError) as error:
        _error(_told(error))
        return 2
    return 0


def _without_dots(arguments: list[str]) -> list[str]:
    """`--loss:ridge` for `--loss.ridge`, which would ask cyclopts for a field of a parameter called loss."""
    sections = "|".join({section for _, section, _ in places() if section})
    return [re.sub(rf"^--({sections})\.", r"--\1:", argument) for argument in arguments]


def _told(error: ValueError | OSError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())


def _error(text: str) -> None:
    Console(stderr=True).print(f"cclk: {text}", style="red", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
