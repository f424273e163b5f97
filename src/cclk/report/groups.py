"""Groups of runs that differ in the seed only, and descriptions of how runs differ."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from cclk.report.view import RunView

_LISTED = 5  # settings in a description


@dataclass(frozen=True)
class Group:
    """Runs that differ in the seed only, and their common name."""

    name: str
    runs: Sequence[RunView]


def flat_settings(run: RunView) -> dict[str, str]:
    """Return the settings of a run by dotted name, and the fingerprint of its data, as text.

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
        elif isinstance(value, str):
            flat[f"{prefix}{key}"] = value
        else:
            flat[f"{prefix}{key}"] = "none" if value is None else json.dumps(value)
    return flat


def group_by_settings(runs: Sequence[RunView]) -> list[Group]:
    """Group runs with the same settings and different seeds."""
    groups: dict[Hashable, list[RunView]] = {}
    repeats: Counter[Hashable] = Counter()
    for number, run in enumerate(runs):
        flat = _without_location(run)
        seed = flat.pop("seed", None)
        # Runs with unknown settings may differ in anything.
        same: Hashable = frozenset(flat.items()) if run.settings else number
        # A second run with the same seed is not evidence for other seeds.
        groups.setdefault((same, repeats[same, seed]), []).append(run)
        repeats[same, seed] += 1
    names = [_common_name(group) for group in groups.values()]
    return [
        Group(name if names.count(name) == 1 else _names(group), tuple(group))
        for name, group in zip(names, groups.values(), strict=True)
    ]


def data_of(run: RunView) -> Hashable:
    """Return a key that is equal for runs on the same data and label; conditions may differ."""
    kept = {
        key: value
        for key, value in flat_settings(run).items()
        if key.startswith("data.dataset") and key != "data.dataset_options.condition"
    }
    return run.label, frozenset(kept.items())


def differences(runs: Sequence[RunView]) -> list[str]:
    """Describe each run: its method, its data, and settings that vary among runs of this method.

    The data are included if the runs are on several datasets.

    >>> from cclk.training.settings import load
    >>> settings = [load(overrides={"method": "infonce", "lr": lr}) for lr in (0.1, 0.2)]
    >>> differences([RunView("a", settings[0]), RunView("b", settings[1])])
    ['infonce, lr 0.1', 'infonce, lr 0.2']
    """
    flat = [_without_location(run) for run in runs]
    kinds = [(data_of(run), own.get("method", "")) for run, own in zip(runs, flat, strict=True)]
    several = len({data for data, _ in kinds}) > 1
    described = []
    for own, kind in zip(flat, kinds, strict=True):
        peers = [other for other, other_kind in zip(flat, kinds, strict=True) if other_kind == kind]
        differing = [
            f"{key.rpartition('.')[2]} {value}".replace('"', "")
            for key, value in own.items()
            if key != "data_fingerprint" and len({other.get(key) for other in peers}) > 1
        ]
        data = own.get("data.dataset", "") if several else ""
        more = "..." if len(differing) > _LISTED else ""
        described.append(", ".join(filter(None, [kind[1], data, *differing[:_LISTED], more])))
    return described


def _without_location(run: RunView) -> dict[str, str]:
    """Return the settings without the path of the data, whose fingerprint identifies them."""
    flat = flat_settings(run)
    for name in ("data.data_dir", "train.threads"):
        flat.pop(name, None)
    if "data.dataset" in flat:
        flat["data.dataset"] = PurePath(flat["data.dataset"]).name
    return flat


def _common_name(runs: Sequence[RunView]) -> str:
    """Return the names of runs without their seeds: "fair" for "fair-seed0" and "fair-seed1"."""
    if len(runs) == 1:
        return runs[0].name
    stems = set()
    for run in runs:
        seed = run.settings.seed if run.settings else ""
        stems.add(re.sub(rf"[-_. ]*(seed)?[-_. ]*0*{seed}$", "", run.name))
    stem = stems.pop()
    return _names(runs) if stems or not stem else stem


def _names(runs: Sequence[RunView]) -> str:
    return enumerated([run.name for run in runs])


def enumerated(items: Sequence[str], conjunction: str = "and") -> str:
    """Join items as an enumeration in a sentence.

    >>> enumerated(["a", "b", "c"])
    'a, b and c'
    """
    return ", ".join(items[:-1]) + (f" {conjunction} " if len(items) > 1 else "") + items[-1]
