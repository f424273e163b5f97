"""The headline of a report: scores of the encoders' features in sentences.

`cclk.evaluation.estimate` defines what is called a change. Runs that differ in the seed only are
one group, whose scores are averaged.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from cclk.evaluation import Estimate
from cclk.evaluation.estimate import SMALLEST, Change, Direction
from cclk.report.view import RunView

_LISTED = 5  # settings in a description
_BASELINE = "infonce"
Score = Literal["linear", "worst"]


def summarize(runs: Sequence[RunView]) -> list[str]:
    """Return one sentence on the encoder's features for each run, or each group of seeds.

    Runs on the same data are compared with the InfoNCE run among them that was trained for most
    steps, or else with the first of them.

    Args:
        runs: the runs of a report. Runs that differ in the seed only are averaged.
    """
    cohorts: dict[Hashable, list[Group]] = {}
    for group in group_by_settings([run for run in runs if _evaluated(run)]):
        cohorts.setdefault(data_of(group.runs[0]), []).append(group)
    sentences = []
    for groups in cohorts.values():
        plain = [
            group
            for group in groups
            if (settings := group.runs[0].settings) and settings.method == _BASELINE
        ]
        baseline = max(plain, key=_steps) if plain else groups[0]
        others = [group for group in groups if group is not baseline]
        others.sort(key=_rank, reverse=True)
        sentences += [_compared(baseline, group) for group in others] or [_alone(baseline)]
    if missing := [run.name for run in runs if not _evaluated(run)]:
        has, it = ("has", "it") if len(missing) == 1 else ("have", "them")
        sentences.append(
            f"{enumerated(missing)} {has} not been evaluated: evaluate {it}, then write this report"
            " again."
        )
    return sentences


def _evaluated(run: RunView) -> bool:
    leakages = run.scores.leakage.columns.values()
    return bool(run.scores.accuracy.linear or any(leakage.worst for leakage in leakages))


def _alone(group: Group) -> str:
    clauses = []
    if accuracy := _accuracy(group):
        clauses.append(
            f"predict the {group.runs[0].label} with {accuracy} accuracy (linear probe; 95 %"
            f" interval {accuracy.between})"
        )
    for column, leakage in _leakages(group, "worst").items():
        measured = group.runs[0].scores.leakage[column]
        worst = f"worst of {len(measured.by_probe)} probes"
        worst += f", read as {measured.reading}" if measured.reading else ""
        verdicts = {run.evaluation.verdict(column) for run in group.runs if run.evaluation}
        note = f": {verdicts.pop()}" if len(verdicts) == 1 and "" not in verdicts else ""
        if leakage.low > 0:
            share = f"{100 * leakage.value:.0f} %"
            if leakage.value < SMALLEST["r2"]:
                share = f"less than {100 * SMALLEST['r2']:.0f} %"
            clauses.append(f"explain {share} of the variance of the {column} ({worst}{note})")
        else:
            clauses.append(
                f"do not clearly explain any of the variance of the {column} ({worst}: R²"
                f" {leakage}, 95 % interval {leakage.between}{note})"
            )
    if not clauses:
        return f"The evaluations of {_title(group)} have no measure in common."
    return f"The features of {_title(group)} {enumerated(clauses)}."


def _compared(before: Group, after: Group) -> str:
    clear, unclear = [], []
    old, new = _accuracy(before), _accuracy(after)
    if old and new:
        change, noun = Change(old, new), f"{after.runs[0].label} accuracy"
        match change.direction:
            case "same":
                clear.append(f"has the same {noun} to within {change.tolerance} ({change})")
            case "unclear":
                unclear.append(f"in {noun} ({change})")
            case direction:
                clear.append(f"has {direction} {noun} ({change})")
    columns = list(_leakages(after, "worst"))
    # For several columns only the worst probe; the table has all of them.
    probes: tuple[Score, ...] = ("linear", "worst") if len(columns) == 1 else ("worst",)
    changes = {probe: _changes(before, after, probe) for probe in probes}
    for column in columns:
        by_direction: dict[Direction, list[str]] = {}
        tolerance = ""
        for probe in probes:
            if leak := changes[probe].get(column):
                value = f"{probe} {leak.old.name} {leak}"
                by_direction.setdefault(leak.direction, []).append(value)
                tolerance = leak.tolerance
        for verdict, values in by_direction.items():
            numbers = f"({'; '.join(values)})"
            match verdict:
                case "same":
                    clear.append(
                        f"leaks the same amount of the {column} to within {tolerance} {numbers}"
                    )
                case "unclear":
                    unclear.append(f"in leakage of the {column} {numbers}")
                case direction:
                    amount = "more" if direction == "higher" else "less"
                    clear.append(f"leaks {amount} of the {column} {numbers}")
    if unclear:
        clear.append(f"shows no clear change {enumerated(unclear, 'or')}")
    if not clear:
        return f"{_title(after)} and {_title(before)} have no measure in common."
    return f"Compared with {_title(before)}, {_title(after)} {enumerated(clear)}."


def _changes(before: Group, after: Group, score: Score) -> dict[str, Change]:
    """The worst of a panel is not compared with the worst of other probes."""
    old, new = _leakages(before, score), _leakages(after, score)
    return {
        column: Change(old[column], new[column])
        for column in new
        if column in old
        and (score == "linear" or _probes(before, column) == _probes(after, column))
    }


def _probes(group: Group, column: str) -> set[frozenset[str]]:
    return {frozenset(run.scores.leakage[column].by_probe) for run in group.runs}


def _title(group: Group) -> str:
    return f"{group.name} (mean of {len(group.runs)} seeds)" if len(group.runs) > 1 else group.name


def _steps(group: Group) -> float:
    """Return the number of training steps."""
    run = group.runs[0]
    logged = [step for line in run.metrics if isinstance(step := line.get("step"), int)]
    return max(logged) if logged else (run.settings and run.settings.train.steps) or 0


def _rank(group: Group) -> float:
    accuracy = _accuracy(group)
    return accuracy.value if accuracy else -math.inf


def _accuracy(group: Group) -> Estimate | None:
    return _mean([run.scores.accuracy.linear for run in group.runs])


def _leakages(group: Group, score: Score) -> dict[str, Estimate]:
    """Return the mean of a score of each column, if all of the runs have it."""
    columns = [run.scores.leakage.columns for run in group.runs]
    means = {
        column: _mean([getattr(each.get(column), score, None) for each in columns])
        for column in columns[0]
    }
    return {column: mean for column, mean in means.items() if mean}


def _mean(scores: Sequence[Estimate | None]) -> Estimate | None:
    """Return the mean over seeds; None unless all of the runs have the score.

    The interval covers the test samples, which the seeds share, and the seeds, by Student's t.
    """
    estimates, runs = [score for score in scores if score], len(scores)
    if len(estimates) != runs or len({score.unit for score in estimates}) != 1:
        return None
    values, seeds = [score.value for score in estimates], 0.0
    if runs > 1:
        from scipy.special import stdtrit  # type: ignore[import-untyped]

        seeds = float(stdtrit(runs - 1, 0.975)) * statistics.stdev(values) / math.sqrt(runs)
    mean = statistics.fmean(values)
    below = math.hypot(statistics.fmean(score.value - score.low for score in estimates), seeds)
    above = math.hypot(statistics.fmean(score.high - score.value for score in estimates), seeds)
    return Estimate(mean, mean - below, mean + above, estimates[0].unit)


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
