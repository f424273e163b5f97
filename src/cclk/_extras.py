"""Optional dependencies: a missing one is an error that names the module and what to install."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cclk.errors import CclkError


class MissingExtraError(ModuleNotFoundError, CclkError):
    """An optional dependency is not installed."""


def missing(purpose: str, module: str, extra: str = "train") -> str:
    """Return the message for a missing module that an extra of this package installs.

    >>> missing("reading tables", "pyarrow")  # doctest: +ELLIPSIS
    "reading tables needs the module pyarrow, which is not installed: run pip install '.[train]'..."
    """
    return (
        f"{purpose} needs the module {module}, which is not installed: run pip install '.[{extra}]'"
        " in the source folder of cclk"
    )


@contextmanager
def needed_for(purpose: str, extra: str = "train") -> Iterator[None]:
    """Import optional modules in the body of this context.

    Some modules add warning filters or draw a random number when they are imported. Both are
    undone: this may be the process of someone who has set them.

    Args:
        purpose: What the modules are needed for.
        extra: The extra of pyproject.toml that installs them.

    Raises:
        MissingExtraError: If a module is not installed.
    """
    numbers = random.getstate()
    try:
        with warnings.catch_warnings():
            yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        module = (error.name or str(error)).partition(".")[0]
        if module == "cclk":  # a bug in this package, which no extra fixes
            raise
        raise MissingExtraError(missing(purpose, module, extra), name=error.name) from error
    finally:
        random.setstate(numbers)
