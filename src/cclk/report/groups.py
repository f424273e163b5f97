"""Which runs differ in nothing but the seed, which were evaluated on the same data, and what
sets a run apart from the others.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from cclk.report.view import RunView

_LISTED = 5


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed, and what to call them."""

    name: str
    runs: Sequence[RunView]


def flat_settings(run: RunView) -> dict[str, str]:
    """The settings of a run by their dotted names, and the fingerprint of its data, values as text.

    >>> from cclk.training.settings import load
    >>> flat_settings(RunView("a", load(overrides={"lr": 0.1})))["optim.lr"]
    '0.1'
    """
    flat = _flatten(run.settings.model_dump(mode="json")) if run.settings else {}
    return flat | ({"data_fingerprint": run.data_fingerprint} if run.data_fingerprint else {})


def _flatten(settings: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = (
                value if isinstance(value, str) else "none" if value is None else json.dumps(value)
            )
    return flat


def group_by_settings(runs: Sequence[RunView]) -> list[Group]:
    """Runs with the same settings and different seeds together, every other run by itself."""
    found: dict[Hashable, list[RunView]] = {}
    repeats: Counter[Hashable] = Counter()
    for place, run in enumerate(runs):
        flat = _without_location(run)
        seed = flat.pop("seed", None)
        # Runs whose settings are unknown may differ in anything.
        same: Hashable = frozenset(flat.items()) if run.settings else place
        # A second run with the same seed is no evidence about other seeds.
        found.setdefault((same, repeats[same, seed]), []).append(run)
        repeats[same, seed] += 1
    names = [_common_name(group) for group in found.values()]
    return [
        Group(name if names.count(name) == 1 else _names(group), tuple(group))
        for name, group in zip(names, found.values(), strict=True)
    ]


def data_of(run: RunView) -> Hashable:
    """Equal for runs whose accuracies can be compared: the same data and label. The condition
    may be another one.
    """
    flat = flat_settings(run)
    kept = {
        key: value
        for key, value in flat.items()
        if key.startswith("data.dataset") and key != "data.dataset_options.condition"
    }
    return run.label, frozenset(kept.items())


def differences(runs: Sequence[RunView]) -> list[str]:
    """For each run its method, its data if there are several, and the settings in which runs of
    that method on these data differ.

    >>> from cclk.training.settings import load
    >>> differences([RunView(name, load(overrides={"method": "infonce", "lr": lr})) for name, lr in (("a", 0.1), ("b", 0.2))])
    ['infonce, lr 0.1', 'infonce, lr 0.2']
    """
    flat = [_without_location(run) for run in runs]
    kinds = [(data_of(run), own.get("method", "")) for run, own in zip(runs, flat, strict=True)]
    several = len({data for data, _ in kinds}) > 1
    described = []
    for own, kind in zip(flat, kinds, strict=True):
        peers = [other for other, other_kind in zip(flat, kinds, strict=True) if other_kind == kind]
        differing = [
            key
            for key in own
            if key != "data_fingerprint" and len({other.get(key) for other in peers}) > 1
        ]
        words = [
            f"{key.rpartition('.')[2]} {own[key]}".replace('"', "") for key in differing[:_LISTED]
        ]
        data = own.get("data.dataset", "") if several else ""
        described.append(
            ", ".join(
                filter(None, [kind[1], data, *words, "..." if len(differing) > _LISTED else ""])
            )
        )
    return described


def _without_location(run: RunView) -> dict[str, str]:
    """The settings but for where the data are and how fast they were computed; the fingerprint
    identifies the data.
    """
    flat = flat_settings(run)
    for name in ("data.data_dir", "train.threads"):
        flat.pop(name, None)
    if "data.dataset" in flat:
        flat["data.dataset"] = PurePath(flat["data.dataset"]).name
    return flat


def _common_name(runs: Sequence[RunView]) -> str:
    """What the names of runs share once their seeds are taken away: "fair" of "fair-seed0" and
    "fair-seed1".
    """
    if len(runs) == 1:
        return runs[0].name
    stems = {
        re.sub(
            rf"[-_. ]*(seed)?[-_. ]*0*{run.settings.seed if run.settings else ''}$", "", run.name
        )
        for run in runs
    }
    stem = stems.pop()
    return _names(runs) if stems or not stem else stem


def _names(runs: Sequence[RunView]) -> str:
    return listed([run.name for run in runs])


def listed(words: Sequence[str], joined: str = "and") -> str:
    """As an enumeration in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return ", ".join(words[:-1]) + (f" {joined} " if len(words) > 1 else "") + words[-1]
