"""The headline: what was measured on the encoders' features, in sentences that claim no more
than the intervals allow.

A change is called higher or lower only if its 95 % interval excludes 0, and "the same" only if the
whole interval lies within 0.01 of 0. Everything else is no clear change. The interval of a change
adds those of both values in quadrature, as if they were independent; values measured on the same
test samples are correlated, so this is on the cautious side.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from cclk.evaluation.scores import PROBES, Estimate
from cclk.report.groups import Group, data_of, group_by_settings, listed
from cclk.report.view import RunView

BASELINE = "infonce"
_MARGIN = 0.01  # one percentage point of accuracy, or 0.01 of R²
Verdict = Literal["higher", "lower", "same", "unclear"]


@dataclass(frozen=True)
class _Change:
    """From the value of one group to that of another."""

    old: Estimate
    new: Estimate

    @property
    def interval(self) -> tuple[float, float]:
        difference = self.new.value - self.old.value
        below = math.hypot(self.new.value - self.new.low, self.old.high - self.old.value)
        above = math.hypot(self.new.high - self.new.value, self.old.value - self.old.low)
        return difference - below, difference + above

    @property
    def verdict(self) -> Verdict:
        low, high = self.interval
        if low >= -_MARGIN and high <= _MARGIN:
            return "same"
        return "higher" if low > 0 else "lower" if high < 0 else "unclear"

    def __str__(self) -> str:
        if self.verdict != "unclear":
            return f"{self.old} → {self.new}"
        low, high = (
            f"{bound:+.2f}" if self.old.unit == "r2" else f"{100 * bound:+.1f}"
            for bound in self.interval
        )
        return f"{self.old} → {self.new}, change between {low} and {high}" + (
            "" if self.old.unit == "r2" else " points"
        )


def summarize(runs: Sequence[RunView]) -> list[str]:
    """One sentence for each run, or for each set of runs that differ in nothing but the seed, on
    the encoder's features.

    Runs on the same data are compared with the InfoNCE run among them that was trained for most
    steps, or else with the first of them.
    """
    cohorts: dict[Hashable, list[Group]] = {}
    for group in group_by_settings([run for run in runs if _evaluated(run)]):
        cohorts.setdefault(data_of(group.runs[0]), []).append(group)
    sentences = []
    for groups in cohorts.values():
        plain = [
            group
            for group in groups
            if (settings := group.runs[0].settings) and settings.method == BASELINE
        ]
        baseline = max(plain, key=_steps) if plain else groups[0]
        others = sorted(
            (group for group in groups if group is not baseline), key=_rank, reverse=True
        )
        sentences += [_compared(baseline, group) for group in others] or [_alone(baseline)]
    if missing := [run.name for run in runs if not _evaluated(run)]:
        has, it = ("has", "it") if len(missing) == 1 else ("have", "them")
        sentences.append(
            f"{listed(missing)} {has} not been evaluated: evaluate {it}, then make this report"
            " again."
        )
    return sentences


def _evaluated(run: RunView) -> bool:
    return bool(
        run.scores.accuracy.linear or any(leakage.linear for leakage in run.scores.leakage.values())
    )


def _alone(group: Group) -> str:
    words = []
    if accuracy := _accuracy(group):
        words.append(
            f"predict the {group.runs[0].label} with {accuracy} accuracy (95 % interval"
            f" {accuracy.between})"
        )
    guesses = _leaks(group, "guess")
    for column, found in _leaks(group, "linear").items():
        if column in guesses:
            words.append(
                f"predict the {column} with {found} accuracy (always guessing the most common one:"
                f" {guesses[column]})"
            )
        elif found.low > 0:
            words.append(f"explain {100 * found.value:.0f} % of the variance of the {column}")
        else:
            words.append(
                f"do not clearly explain any of the variance of the {column} (R² {found}, 95 %"
                f" interval {found.between})"
            )
    if not words:
        return f"The evaluations of {_called(group)} have no measure in common."
    return f"With a linear probe, the features of {_called(group)} {listed(words)}."


def _compared(before: Group, after: Group) -> str:
    clear, unclear = [], []
    old, new = _accuracy(before), _accuracy(after)
    if old and new:
        change, noun = _Change(old, new), f"{after.runs[0].label} accuracy"
        match change.verdict:
            case "same":
                clear.append(f"has the same {noun} to within 1 point ({change})")
            case "unclear":
                unclear.append(f"in {noun} ({change})")
            case direction:
                clear.append(f"has {direction} {noun} ({change})")
    columns = list(_leaks(after, "linear"))
    # Of several columns the non-linear probe alone, which reads the most; the table has the rest.
    probes = {
        probe: title for probe, title in PROBES.items() if probe == "nonlinear" or len(columns) == 1
    }
    changes = {probe: _changes(_leaks(before, probe), _leaks(after, probe)) for probe in probes}
    for column in columns:
        shown: dict[Verdict, list[str]] = {}
        for probe, title in probes.items():
            if found := changes[probe].get(column):
                shown.setdefault(found.verdict, []).append(f"{title} {found.old.name} {found}")
        for verdict, measured in shown.items():
            numbers = f"({'; '.join(measured)})"
            match verdict:
                case "same":
                    clear.append(
                        f"leaks the same amount of the {column} to within {_MARGIN} {numbers}"
                    )
                case "unclear":
                    unclear.append(f"in the leak of the {column} {numbers}")
                case direction:
                    clear.append(
                        f"leaks {'more' if direction == 'higher' else 'less'} of the {column}"
                        f" {numbers}"
                    )
    if unclear:
        clear.append(f"shows no clear change {listed(unclear, 'or')}")
    if not clear:
        return f"{_called(after)} and {_called(before)} have no measure in common."
    return f"Compared with {_called(before)}, {_called(after)} {listed(clear)}."


def _changes(old: dict[str, Estimate], new: dict[str, Estimate]) -> dict[str, _Change]:
    return {
        column: _Change(old[column], new[column])
        for column in new
        if column in old and old[column].unit == new[column].unit
    }


def _called(group: Group) -> str:
    return f"{group.name} (mean of {len(group.runs)} seeds)" if len(group.runs) > 1 else group.name


def _steps(group: Group) -> float:
    """For how many steps the runs were trained."""
    run = group.runs[0]
    logged = [step for line in run.metrics if isinstance(step := line.get("step"), int)]
    return max(logged) if logged else (run.settings and run.settings.train.steps) or 0


def _rank(group: Group) -> float:
    accuracy = _accuracy(group)
    return accuracy.value if accuracy else -math.inf


def _accuracy(group: Group) -> Estimate | None:
    return _mean([run.scores.accuracy.linear for run in group.runs])


def _leaks(group: Group, probe: Literal["linear", "nonlinear", "guess"]) -> dict[str, Estimate]:
    """What a probe, or guessing the most common category, reads of each condition column, where
    all of the runs have it.
    """
    means = {
        column: _mean([getattr(run.scores.leakage.get(column), probe, None) for run in group.runs])
        for column in group.runs[0].scores.leakage
    }
    return {column: mean for column, mean in means.items() if mean}


def _mean(found: Sequence[Estimate | None]) -> Estimate | None:
    """The mean over seeds; None unless all of the runs have the score.

    The interval covers both the test samples, which the seeds share, and the seeds, by Student's t.
    """
    values, runs = [value for value in found if value], len(found)
    if len(values) != runs or len({value.unit for value in values}) != 1:
        return None
    mean, seeds = statistics.fmean(value.value for value in values), 0.0
    if runs > 1:
        from scipy.special import stdtrit  # type: ignore[import-untyped]

        seeds = (
            float(stdtrit(runs - 1, 0.975))
            * statistics.stdev(value.value for value in values)
            / math.sqrt(runs)
        )
    below = math.hypot(statistics.fmean(value.value - value.low for value in values), seeds)
    above = math.hypot(statistics.fmean(value.high - value.value for value in values), seeds)
    return Estimate(mean, mean - below, mean + above, values[0].unit)
