"""Optional dependencies: a missing one is an error that names the module and what to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ModuleNotFoundError, ValueError):
    """An optional dependency is not installed.

    Also a `ValueError`, as every mistake that the command line reports in one line.
    """


def missing(purpose: str, module: str, extra: str = "train") -> str:
    """The message for a module that an extra of this package would install.

    >>> missing("reading tables", "pyarrow")  # doctest: +ELLIPSIS
    "reading tables needs the module pyarrow, which is not installed: run pip install '.[train]'..."
    """
    return (
        f"{purpose} needs the module {module}, which is not installed: run pip install '.[{extra}]'"
        " in the source folder of cclk"
    )


@contextmanager
def needed_for(purpose: str, extra: str = "train") -> Iterator[None]:
    """Imports of optional modules go in the body; the extra is the one in pyproject.toml that
    installs them.

    Raises:
        MissingExtraError: if a module is not installed.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        module = (error.name or str(error)).partition(".")[0]
        if module == "cclk":  # a defect of this package, which no extra repairs
            raise
        raise MissingExtraError(missing(purpose, module, extra), name=error.name) from error
