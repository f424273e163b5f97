"""Suggestions for misspelled names of options, settings and values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

SYNONYMS = {
    "backbone": "encoder",
    "bf16": "bfloat16",
    "bs": "batch-size",
    "csv": "data",
    "gaussian": "rbf",
    "gpus": "devices",
    "iterations": "steps",
    "learningrate": "lr",
    "loss": "method",
    "model": "encoder",
    "output": "out",
    "sensitive": "condition",
    "transforms": "augmentation",
    "simclr": "infonce",
    "target": "label",
    "tau": "temperature",
    "wd": "weight-decay",
}
"""Names of options and values in other tools, without dashes, to their names in this one."""


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that a wrong one may stand for: its synonym, else those that start or
    end with it, else the most similar one.

    Args:
        name: The wrong name.
        known: The known names.

    Example:
        >>> similar("fair", ["fair-infonce", "fair-cclk"]), similar("learning_rate", ["lr", "lars"])
        (['fair-cclk', 'fair-infonce'], ['lr'])
    """
    names = {each.lower().replace("_", "-"): each for each in known}
    plain = name.lower().replace("_", "-")
    bare = {each.replace("-", ""): each for each in names}
    synonym = SYNONYMS.get(plain.replace("-", ""), "")
    if exact := names.get(synonym) or names.get(bare.get(plain.replace("-", ""), "")):
        return [exact]
    parts = sorted(
        (
            each
            for each in names
            if len(plain) > 2 and (each.startswith(plain) or each.endswith(f"-{plain}"))
        ),
        key=len,
    )
    return [names[each] for each in parts[:3] or difflib.get_close_matches(plain, names, n=1)]


def suggestion(name: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """Return the end of an error message, " (did you mean 'lr'?)", or "".

    Args:
        name: The wrong name.
        known: The known names; of a mapping, keys are compared and values are shown.
    """
    shown = [
        repr(known[each] if isinstance(known, Mapping) else each) for each in similar(name, known)
    ]
    return f" (did you mean {' or '.join(shown)}?)" if shown else ""
