"""A decorator for functions that `torch.compile` must not trace.

The losses branch on values (shapes of groups, ranks, warnings) and write into views; fitting a
length scale is a search. A compiled caller breaks its graph at such a function, runs it eagerly,
and compiles the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def eager(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function eagerly even if its caller is compiled."""
    # torch.compiler.disable would import the compiler (1.7 s) on `import cclk`; this imports it
    # only when a function is compiled.
    untraced: Callable[P, R] = torch._compile._disable_dynamo(function)

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            return untraced(*args, **kwargs)
        return function(*args, **kwargs)

    return wrapper
