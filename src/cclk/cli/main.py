"""The commands, and their exit codes: 0 for success, 2 with one line on stderr for wrong input,
128 + n for signal n.
"""

from __future__ import annotations

import importlib
import shlex
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from cyclopts import App, CycloptsError, UnknownOptionError, UnusedCliTokensError

import cclk
from cclk._terminal import Console, escape
from cclk.cli.output import with_options
from cclk.cli.setting_options import everything, unknown_option
from cclk.errors import CclkError, Interrupted, Stopped, shortened
from cclk.registry import IMPORT_PATH


@dataclass(frozen=True)
class Program:
    """A command line: its name, its help, and its commands.

    Command NAME is the function NAME of PACKAGE.NAME.
    """

    name: str
    help: str
    package: str
    commands: Mapping[str, str]
    """The first line of each command's help."""
    needs_arguments: tuple[str, ...] = ()
    """Commands without required arguments that would work for long: alone, they show their help."""

    def app(self, command: str = "") -> App:
        """The application; only the module of this command is imported, so that help is quick."""
        app = App(name=self.name, version=cclk.__version__, help=self.help)
        for name, summary in self.commands.items():
            module = f"{self.package}.{name}"
            if name == command:
                app.command(getattr(importlib.import_module(module), name))
            else:
                app.command(f"{module}:{name}", name=name, help=summary)
        return app


CCLK = Program(
    "cclk",
    "Conditional contrastive learning with kernels: choose what an encoder uses, ignores"
    " or finds hard.",
    "cclk.cli",
    {
        "train": "Train an encoder into a run folder, from a table of your own, a dataset or a"
        " preset.",
        "check": "Check data as `cclk train` would read them: their content, problems, and the"
        " training time.",
        "evaluate": "Evaluate runs on the test split: accuracy of the label, leakage of the"
        " condition.",
        "report": "Show runs side by side on one HTML page that needs no network.",
        "embed": "Embed data with the encoder of a run: one row of features for each sample, with"
        " its id.",
        "export": "Write the encoder of a run in the format of other tools, verified to give the"
        " same features.",
        "demo": "Train InfoNCE and Fair-CCLK on colored digits, and show how conditioning removes"
        " color.",
    },
    needs_arguments=("train", "check"),
)


def main(arguments: list[str] | None = None, program: Program = CCLK) -> int:
    """Run a command; an error of the user is one line on stderr, without a traceback.

    Args:
        arguments: The arguments of the command line; by default those of this process.
        program: The command line.
    """
    formatwarning = warnings.formatwarning
    warnings.formatwarning = _one_line
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        return _run(_with_named_trust(arguments), program)
    except (Interrupted, Stopped) as stopped:
        _error(str(stopped), cut=False)  # a command to copy
        return 128 + stopped.signum
    except KeyboardInterrupt:
        _error("stopped")
        return 130
    except UnknownOptionError as error:
        _error(unknown_option(error))
    except UnusedCliTokensError as error:
        tokens = error.unused_tokens or []
        _error(f"unexpected argument{'s' if len(tokens) > 1 else ''}: {shlex.join(tokens)}")
    except CycloptsError as error:
        _error(_message(error))
    except ExceptionGroup as group:
        for text in (group.message, *map(_message, group.exceptions)):
            _error(text)
    except CclkError as error:
        _error(_message(error), cut=False)  # shortened already, except names to trust
    except (ValueError, OSError, ModuleNotFoundError) as error:
        _error(_message(error))
    except MemoryError as error:
        _error(f"not enough memory {_message(error)}".rstrip())
    except RuntimeError as error:
        # Neither torch on a CPU nor pathlib have classes of their own for these.
        if "home directory" in str(error):
            _error("the home directory of a path with ~ is unknown: write the path in full")
        elif "allocate" in str(error):
            _error("not enough memory: use a smaller network, smaller images or smaller batches")
        else:
            raise
    finally:
        warnings.formatwarning = formatwarning
    return 2


def _run(arguments: list[str], program: Program) -> int:
    """Run a command and return its exit code."""
    if len(arguments) == 1 and arguments[0] in program.needs_arguments:
        arguments = [*arguments, "--help"]
    if "--help-all" in arguments:
        with everything:
            return _run(
                ["--help" if argument == "--help-all" else argument for argument in arguments],
                program,
            )
    app = program.app(arguments[0] if arguments else "")
    code: int | None = app(
        arguments, exit_on_error=False, print_error=False, result_action="return_value"
    )
    return code or 0


def _with_named_trust(arguments: list[str]) -> list[str]:
    """Remove `--trust-code` without an import path: the command then names the code that it would
    run, and what to type.
    """
    following = [*arguments[1:], ""]
    return [
        argument
        for argument, value in zip(arguments, following, strict=True)
        if argument != "--trust-code" or IMPORT_PATH.fullmatch(value)
    ]


def _one_line(message: Warning | str, *_: object, **__: object) -> str:
    """A warning without the line of code that raised it."""
    text = with_options(" ".join(str(message).split()))
    return shortened(escape(f"cclk: warning: {text}")) + "\n"


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())


def _error(text: str, *, cut: bool = True) -> None:
    text = f"cclk: {escape(with_options(text))}"
    Console(stderr=True).print(
        shortened(text) if cut else text, style="red", markup=False, highlight=False, soft_wrap=True
    )


if __name__ == "__main__":
    sys.exit(main())
