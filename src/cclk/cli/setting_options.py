"""The settings of a run as options of a command, their help, and messages on unknown options."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from cyclopts import Group, Parameter, UnknownOptionError
from cyclopts.help import DefaultFormatter, HelpPanel

from cclk.suggestions import similar
from cclk.training.settings import RENAMED, choices, setting_fields

MAIN = Group("Most used", sort_key=2)
SUITED: dict[str, str] = {
    "remove": "none; medium for fair methods with --data",
    "temperature": "0.2 for fair methods with --data, else 0.1",
    "steps": "1,175; 400 for fair methods with --features",
    "encoder": "mlp for --features, else lenet5 or resnet18",
    "augmentation": "vectors for --features, simclr for --image in color, else digits",
}
"""Setting -> its default as text, if it depends on the data."""
COMMON = (
    "method",
    "remove",
    "seed",
    "dataset",
    "encoder",
    "kernel",
    "optimizer",
    "lr",
    "batch_size",
    "steps",
)
"""The settings on a help page; `--help-all` shows all of them."""
_METAVARS: dict[Any, str] = {
    bool: "BOOL",
    int: "INT",
    float: "FLOAT",
    dict: "TOML",
    Path: "PATH",
    str: "NAME",
}
_GPU = "a GPU is used if there is one, and --devices N starts N processes"
_READERS = "images are read by one thread per core, and that cannot be set"
_INSTEAD = {
    "accelerator": _GPU,
    "cuda": _GPU,
    "device": _GPU,
    "gpu": _GPU,
    "num-workers": _READERS,
    "workers": _READERS,
}
"""Remedies for options of other tools that are not needed here."""

T = TypeVar("T")


class Everything:
    """Within `with everything:`, help pages show all settings."""

    shown = False

    def __enter__(self) -> None:
        self.shown = True

    def __exit__(self, *_: object) -> None:
        self.shown = False


everything = Everything()


class _Section(DefaultFormatter):
    """A panel that only `--help-all` shows."""

    def __call__(self, console: Any, options: Any, panel: HelpPanel) -> None:
        if everything.shown:
            super().__call__(console, options, panel)


def _with_all_settings(cls: type[T]) -> type[T]:
    """Add a text field for each setting to a class; `cclk.training.settings` parses the text as
    TOML.
    """
    sections = dict.fromkeys(section for _, section, _ in setting_fields())
    groups = {
        section: Group(
            f"Settings \\[{section}]" if section else "Settings",
            sort_key=3 + number,
            help_formatter=_Section(),
        )
        for number, section in enumerate(sections)
    }
    fields = []
    for name, section, field in setting_fields():
        names, kinds = choices(field), [_METAVARS[kind] for kind in _kinds(field.annotation)]
        if names and str not in _kinds(field.annotation):
            kinds.append("CHOICE")
        parameter = Parameter(
            help=(field.description or "") + (f" [choices: {', '.join(names)}]" if names else ""),
            metavar="|".join(kinds),
            group=[MAIN, groups[section]] if name in COMMON else groups[section],
            show_default=SUITED.get(
                name, str(field.default) if field.default not in (None, {}) else False
            ),
        )
        fields.append((name, Annotated[str | None, parameter], dataclasses.field(default=None)))
    return dataclasses.make_dataclass(
        cls.__name__, fields, bases=(cls,), frozen=True, namespace={"__module__": cls.__module__}
    )


def _kinds(annotation: Any) -> Iterator[Any]:
    """The Python types that a setting may have."""
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and kind in _METAVARS:
        yield kind
    else:
        for part in get_args(annotation):
            yield from _kinds(part)


@Parameter(name="*")
@_with_all_settings
class SettingOptions:
    """Every setting by its name, such as --batch-size; None where it is not set."""

    def passed(self) -> dict[str, str]:
        return {
            name: value
            for name, _, _ in setting_fields()
            if (value := getattr(self, name)) is not None
        }


def with_current_names(arguments: list[str]) -> list[str]:
    """Replace `--loss.ridge` by `--ridge`, and old names of options by current ones.

    Args:
        arguments: The arguments of the command line.
    """
    known = {f"--{section}.{name}": f"--{name}" for name, section, _ in setting_fields() if section}
    known |= {f"--{old}": f"--{new}" for old, new in RENAMED.items()}

    def current(option: re.Match[str]) -> str:
        name = option[0].replace("-", "_").replace("__", "--", 1)
        return known[name].replace("_", "-") if name in known else option[0]

    return [re.sub(r"^--[\w.-]+", current, argument) for argument in arguments]


def unknown_option(error: UnknownOptionError) -> str:
    """Return a message on an option that a command does not have, with the most similar one.

    Args:
        error: The error of cyclopts.
    """
    option = (error.token.keyword or error.token.value).partition("=")[0]
    name = option.lstrip("-").rpartition(".")[2]
    known = [
        each.removeprefix("--")
        for argument in error.argument_collection
        for each in argument.names
        if each.startswith("--")
    ]
    command = " ".join(error.command_chain or ["cclk"])
    positive = name.removeprefix("no-")
    if name in _INSTEAD and "devices" in known:
        remedy = _INSTEAD[name]
    elif positive != name and positive in known:
        remedy = f"did you mean --{positive} false?"
    elif matches := similar(name, known):
        remedy = f"did you mean {' or '.join(f'--{match}' for match in matches)}?"
    else:
        remedy = f"{'--help-all' if 'devices' in known else '--help'} lists all of them"
    return f"{command} has no option {option}: {remedy}"
