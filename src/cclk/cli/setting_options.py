"""The settings of a run as options of a command, their help, and messages on unknown options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from cyclopts import Group, Parameter, UnknownOptionError
from cyclopts.help import DefaultFormatter, HelpPanel
from pydantic.fields import FieldInfo

from cclk.suggestions import similar
from cclk.training.settings import AUTO, OPTIONS, choices, setting_fields

MAIN = Group("Most used", sort_key=2)
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
_COLUMNS = ("image", "label", "split", "split_by", "row_id")
_METAVARS: dict[Any, str] = {
    bool: "BOOL",
    int: "INT",
    float: "FLOAT",
    dict: "TOML",
    list: "COLUMN...",
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

Command = TypeVar("Command", bound=Callable[..., object])


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


_GROUPS = {
    section: Group("Your own table", sort_key=1)
    if section == "table"
    else Group(
        f"Settings \\[{section}]" if section else "Settings",
        sort_key=3 + number,
        help_formatter=_Section(),
    )
    for number, section in enumerate(dict.fromkeys(section for _, section, _ in setting_fields()))
}
"""The panel of each section of the settings."""


def takes_settings(command: Command) -> Command:
    """Give a command an option for each setting; it gets those that were passed as `**overrides`.

    The text of an option is read, and its errors are worded, by the model of the settings.
    """
    signature = inspect.signature(command)
    own = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            setting[0], inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(*setting)
        )
        for setting in setting_fields()
    ]
    vars(command)["__signature__"] = signature.replace(parameters=[*own, *options])
    return command


def _option(name: str, section: str, field: FieldInfo) -> Any:
    """The type of an option, with its help."""
    names, kinds, default = choices(field), list(_kinds(field.annotation)), field.default
    flag = section == "table" and bool in kinds
    metavars = [_METAVARS[kind] for kind in kinds]
    if names and str not in kinds:
        metavars.append("CHOICE")
    parameter = Parameter(
        help=(field.description or "") + (f" [choices: {', '.join(names)}]" if names else ""),
        metavar="COLUMN" if name in _COLUMNS else "|".join(metavars),
        group=[MAIN, _GROUPS[section]] if name in COMMON else _GROUPS[section],
        show_default=False if default in (None, AUTO, {}, [], "") or flag else str(default),
        consume_multiple=1 if list in kinds else None,
        negative="",
    )
    return Annotated[(list[str] if list in kinds else bool if flag else str) | None, parameter]


def _kinds(annotation: Any) -> Iterator[Any]:
    """The Python types that a setting may have."""
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and kind in _METAVARS:
        yield kind
    else:
        for part in get_args(annotation):
            yield from _kinds(part)


def unknown_option(error: UnknownOptionError) -> str:
    """Return a message on an option that a command does not have, with the most similar one.

    Args:
        error: The error of cyclopts.
    """
    option = (error.token.keyword or error.token.value).partition("=")[0]
    name = option.lstrip("-").rpartition(".")[2]
    known = [
        option.removeprefix("--")
        for argument in error.argument_collection
        for option in argument.names
        if option.startswith("--")
    ]
    command = " ".join(error.command_chain or ["cclk"])
    positive, plain = name.removeprefix("no-"), name.replace("-", "_")
    setting = next((setting for setting, names in OPTIONS.items() if plain in names), None)
    if name in _INSTEAD and "devices" in known:
        remedy = _INSTEAD[name]
    elif setting and "devices" in known:
        remedy = f"use --{setting.replace('_', '-')} '{{ {plain} = VALUE }}'"
    elif positive != name and positive in known:
        remedy = f"did you mean --{positive} false?"
    elif matches := similar(name, known):
        remedy = f"did you mean {' or '.join(f'--{match}' for match in matches)}?"
    else:
        remedy = f"{'--help-all' if 'devices' in known else '--help'} lists all of them"
    return f"{command} has no option {option}: {remedy}"
