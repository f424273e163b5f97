"""The names that settings accept, open to other packages.

Methods, kernels, datasets, augmentations, optimizers, encoders and heads are selected by

    fair-cclk               a name of this package
    circular                a name that an installed package declares as an entry point, here in
                            the group `cclk.methods`
    package.module:thing    an import path

Each name is written once, in the tables below. Nothing is imported until it is used, so that names
can be listed and checked without torch.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from cclk._file_kinds import other_kind
from cclk.errors import LONGEST, CclkError, DataError, SettingsError, shortened
from cclk.suggestions import suggestion

T = TypeVar("T")
IMPORT_PATH = re.compile(r"\w+(\.\w+)*:\w+(\.\w+)*")


class Registry(Generic[T]):
    """Objects of one kind by name.

    Args:
        kind: What an entry is called in messages, such as "kernel". Entry points are those of the
            group with this name in the plural, `cclk.kernels`.
        entries: The object of each name, or its import path.
        suffixes: The object, or its import path, for names of files that end in a suffix.
        explain: Returns what a name that is not accepted is, and what to do, or "".
        error: The error to raise for unknown names and options.

    Example:
        >>> shapes: Registry[object] = Registry("shape", {"square": "cclk.shapes:SQUARE"})
        >>> shapes.register("circle", 3.14)
        >>> list(shapes), shapes["circle"], shapes["math:tau"]
        (['square', 'circle'], 3.14, 6.283185307179586)
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, T | str],
        *,
        suffixes: Mapping[str, T | str] | None = None,
        explain: Callable[[str], str] = lambda _: "",
        error: type[CclkError] = SettingsError,
    ) -> None:
        self.kind, self.error, self.suffixes = kind, error, dict(suffixes or {})
        self.explain = explain
        self._entries = dict(entries)

    def register(self, name: str, entry: T | str) -> None:
        """Add or replace an entry.

        Args:
            name: Its name in settings.
            entry: The object, or its import path, which is imported on first use.
        """
        self._entries[name] = entry

    def __iter__(self) -> Iterator[str]:
        yield from self._entries
        yield from sorted(self._entry_points().keys() - self._entries.keys())

    def __contains__(self, name: object) -> bool:
        return name in tuple(self)

    def accepts(self, name: str) -> bool:
        """Return whether a name is known, a file with a known suffix, or an import path. Nothing is
        imported.

        Args:
            name: The name to check.
        """
        return name in self or bool(self.suffix(name)) or self.is_import_path(name)

    def is_import_path(self, name: str) -> bool:
        """Return whether a name is an import path, and not a known name or a file.

        Args:
            name: The name to check.
        """
        known = name in self or bool(self.suffix(name))
        return not known and bool(IMPORT_PATH.fullmatch(name))

    def check(self, name: str) -> str:
        """Return a name that the registry accepts; any other raises an error.

        Args:
            name: The name to check.
        """
        if not self.accepts(name):
            if known := self.explain(name):
                raise self.error(known)
            files = ", ".join(self.suffixes)
            raise self.error(
                f"unknown {self.kind} {name!r}{suggestion(name, self)}: choose"
                f" {', '.join(self)}, {f'a file ({files}), ' if files else ''}or an import path"
                " package.module:thing"
            )
        return name

    def suffix(self, name: str) -> str:
        """Return the suffix by which a name is that of a file, or "".

        Args:
            name: The name, or the path of a file.
        """
        return next((suffix for suffix in self.suffixes if name.endswith(suffix)), "")

    def __getitem__(self, name: str) -> T:
        self.check(name)
        entry = self._entries.get(name, self.suffixes.get(self.suffix(name)))
        if entry is not None:
            return pkgutil.resolve_name(entry) if isinstance(entry, str) else entry
        point = self._entry_points().get(name)
        try:
            return import_object(name) if point is None else point.load()  # type: ignore[no-any-return]
        except (ImportError, AttributeError) as error:
            raise self.error(f"the {self.kind} {name!r} cannot be imported: {error}") from error

    def create(
        self,
        name: str,
        arguments: Mapping[str, object],
        options: Mapping[str, object] | None = None,
    ) -> Any:
        """Call the class or function of a name; see `call`.

        Args:
            name: A name, a file or an import path.
            arguments: Passed if the signature has a parameter of that name.
            options: Passed always.
        """
        what = f"the {self.kind} {name!r}"
        return call(self[name], arguments, options or {}, what=what, error=self.error)

    @property
    def group(self) -> str:
        """The group of entry points in which packages declare further names."""
        return f"cclk.{re.sub('y$', 'ie', self.kind)}s"

    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points().select(group=self.group)}


def require_trust(
    paths: Mapping[str, str],
    where: str,
    trust_code: bool | Collection[str],
    error: type[CclkError] = SettingsError,
) -> None:
    """Raise an error that names the code that a file would run, unless the user trusts it.

    Args:
        paths: The import paths in the file, by what they are for.
        where: What to call the file.
        trust_code: The import paths that the user trusts, or True for all.
        error: The error to raise.
    """
    if trust_code is True:
        return
    trusted = [trust_code] if isinstance(trust_code, str) else trust_code or ()
    if refused := {name: path for name, path in paths.items() if path not in trusted}:
        message = _refusal(refused, where)
        while len(message) > LONGEST and len(refused) > 1:
            refused.popitem()
            message = _refusal(refused, where, ", and more, which is listed once this is trusted")
        refusal = error("")
        refusal.args = (message,)  # not shortened: consent is by the exact name
        raise refusal


def _refusal(refused: Mapping[str, str], where: str, more: str = "") -> str:
    names = list(dict.fromkeys(refused.values()))
    return (
        f"{shortened(where, LONGEST // 3)} names code that would be imported and run:"
        f" {', '.join(f'{name} is {path!r}' for name, path in refused.items())}{more}; if you trust"
        f" it, pass trust_code={names}, on the command line"
        f" {' '.join(f'--trust-code {name}' for name in names)}"
    )


def import_object(path: str) -> Any:
    """Return the object of an import path in settings. No other function resolves them.

    The current folder is searched last, and only here: a file in it cannot replace an installed
    package.

    Args:
        path: `package.module:thing`.
    """
    sys.path.append("")
    try:
        return pkgutil.resolve_name(path)
    finally:
        # The last one: in an interactive session "" is also the first.
        del sys.path[len(sys.path) - 1 - sys.path[::-1].index("")]


@functools.cache
def entry_points() -> importlib.metadata.EntryPoints:
    """Return the entry points of all installed packages, read once per process."""
    return importlib.metadata.entry_points()  # type: ignore[return-value,unused-ignore]


def call(
    factory: object,
    arguments: Mapping[str, object],
    options: Mapping[str, object],
    *,
    what: str,
    error: type[CclkError] = SettingsError,
) -> Any:
    """Call a class or function with those arguments that it takes, and with all options.

    Args:
        factory: The class or function.
        arguments: Passed if the signature has a parameter of that name.
        options: Passed always; an option that the signature does not have is an error.
        what: What the factory is called in errors.
        error: The error to raise.

    Example:
        >>> call(round, {"number": 2.567, "color": "red"}, {"ndigits": 1}, what="round")
        2.6
    """
    if not callable(factory):
        raise error(f"{what} is a {type(factory).__name__}: it must be a class or function")
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError as reason:
        raise error(f"{what} cannot be called: {reason}") from None
    named = [
        each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    known = [each.name for each in named if each.name not in arguments]
    if all(each.kind != each.VAR_KEYWORD for each in parameters):
        for option in options:
            if option not in known:
                raise error(
                    f"{what} has no option {option!r}: it takes {', '.join(known) or 'none'}"
                )
    passed = {each.name: arguments[each.name] for each in named if each.name in arguments}
    passed |= options
    lacking = [
        each.name for each in named if each.default is each.empty and each.name not in passed
    ]
    if lacking:
        raise error(f"{what} needs {', '.join(lacking)}: set them as its options")
    return factory(**passed)


METHODS: Registry[object] = Registry(
    "method",
    {
        "infonce": "cclk.training.methods:INFONCE",
        "weaksup-infonce": "cclk.training.methods:WEAKSUP_INFONCE",
        "weaksup-cclk": "cclk.training.methods:WEAKSUP_CCLK",
        "fair-infonce": "cclk.training.methods:FAIR_INFONCE",
        "fair-cclk": "cclk.training.methods:FAIR_CCLK",
        "hardneg-infonce": "cclk.training.methods:HARDNEG_INFONCE",
        "hardneg-cclk": "cclk.training.methods:HARDNEG_CCLK",
    },
)
KERNELS: Registry[Callable[..., Any]] = Registry(
    "kernel",
    {
        "auto": "cclk.kernels:for_column",
        "rbf": "cclk.kernels:RBF",
        "laplacian": "cclk.kernels:Laplacian",
        "linear": "cclk.kernels:Linear",
        "cosine": "cclk.kernels:Cosine",
        "polynomial": "cclk.kernels:Polynomial",
        "delta": "cclk.kernels:Delta",
    },
)
DATASETS: Registry[Callable[..., Any]] = Registry(
    "dataset",
    {
        "colordigits": "cclk.datasets.colordigits:load",
    },
    suffixes={
        ".csv": "cclk.data.manifest:load",
        ".parquet": "cclk.data.manifest:load",
        ".npz": "cclk.data.arrays:load",
    },
    explain=other_kind,
    error=DataError,
)
AUGMENTATIONS: Registry[Callable[..., Any]] = Registry(
    "augmentation",
    {
        "simclr": "cclk.augment.presets:simclr",
        "digits": "cclk.augment.presets:digits",
        "none": "cclk.augment:Plain",
        "vectors": "cclk.augment:Vectors",
    },
)
OPTIMIZERS: Registry[Callable[..., Any]] = Registry(
    "optimizer",
    {
        "adam": "torch.optim:Adam",
        "adamw": "torch.optim:AdamW",
        "sgd": "torch.optim:SGD",
        "lars": "cclk.training.optim:LARS",
    },
)
ENCODERS: Registry[Callable[..., Any]] = Registry(
    "encoder",
    {
        "lenet5": "cclk.models.factory:lenet5",
        "resnet18": "cclk.models.resnet:ResNet18",
        "resnet34": "cclk.models.resnet:ResNet34",
        "resnet50": "cclk.models.resnet:ResNet50",
        "mobilenetv2": "cclk.models.mobilenet:MobileNetFeatures",
        "mlp": "cclk.models.mlp:MLP",
    },
)
HEADS: Registry[Callable[..., Any]] = Registry(
    "head",
    {
        "linear-bn": "cclk.models.heads:linear_bn",
        "mlp": "cclk.models.heads:mlp",
        "linear": "cclk.models.heads:linear",
        "none": "torch.nn:Identity",
    },
)
PENALTIES: Registry[Callable[..., Any]] = Registry(
    "penalty",
    {
        "reader": "cclk.removal:LeakagePenalty",
    },
)
