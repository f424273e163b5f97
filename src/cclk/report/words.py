"""The report's headline: what was found, in one sentence that claims no more than the intervals allow."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cclk.evaluation.table import PROBES, leak, leaks_of, look, number, percent
from cclk.report.view import RunView

BASELINE = "infonce"


@dataclass(frozen=True)
class _Measure:
    value: float
    low: float
    high: float
    unit: str

    def __str__(self) -> str:
        return number(self.value) if self.unit == "r2" else percent(self.value)

    def against(self, other: _Measure) -> int:
        """1 if clearly above the other, -1 if clearly below, 0 if the difference is within the uncertainty of both."""
        above = self.value > other.value
        mine, others = (self.value - self.low, other.high - other.value) if above else (self.high - self.value, other.value - other.low)
        clear = abs(self.value - other.value) > math.hypot(mine, others)
        return (1 if above else -1) if clear else 0


def method(run: RunView) -> str:
    """The run's method; its name if the settings do not tell."""
    return str(run.settings.get("method") or run.name)


def headline(runs: Sequence[RunView]) -> str:
    """One or two sentences on the encoder's features. Runs of one method count together, by their mean."""
    groups: dict[str, list[RunView]] = {}
    for run in runs:
        if run.evaluation and look(run.evaluation, "encoder.accuracy.linear"):
            groups.setdefault(method(run), []).append(run)
    if not groups:
        some = "This run is" if len(runs) == 1 else "These runs are"
        return f"{some} not evaluated yet: evaluate, then make this report again."
    if len(groups) == 1:
        return _alone(*next(iter(groups.items())))
    baseline = BASELINE if BASELINE in groups else next(iter(groups))
    others = [name for name in groups if name != baseline]
    best = max(others, key=lambda name: _accuracy(groups[name]).value)
    sentence = _compared(baseline, groups[baseline], best, groups[best])
    more = len(others) - 1
    return sentence + (f" {more} other method{'s are' if more > 1 else ' is'} compared below." if more else "")


def _alone(name: str, runs: list[RunView]) -> str:
    sentence = f"{name}{_mean_of(runs)} reads the {runs[0].label} with {_accuracy(runs)} accuracy."
    told = []
    for column, found in _leaks(runs, "linear").items():
        if found.unit == "r2":
            share = f"{100 * found.value:.0f} %" if found.low > 0 and found.value >= 0.005 else "nothing"
            told.append(f"explains {share} of the variance of the {column}")
        else:
            told.append(f"guesses the {column} right in {found} of cases")
    return f"{sentence} A linear probe {_listed(told)}." if told else sentence


def _compared(before: str, old: list[RunView], after: str, new: list[RunView]) -> str:
    was, now = _accuracy(old), _accuracy(new)
    verdict = {1: "better", 0: "about as well", -1: "worse"}[now.against(was)]
    sentence = f"Compared with {before}{_mean_of(old)}, {after}{_mean_of(new)} reads the {new[0].label} {verdict} ({was} → {now})"
    leaks = {probe: (_leaks(old, probe), _leaks(new, probe)) for probe in PROBES}
    told = []
    for column in _leaks(new, "linear"):
        pairs = {probe: (a[column], b[column]) for probe, (a, b) in leaks.items() if column in a and column in b}
        shown = {probe: (a, b) for probe, (a, b) in pairs.items() if a.unit == b.unit}
        if shown:
            told.append(_change(column, shown))
    return f"{sentence} and lets through {_listed(told)}." if told else f"{sentence}."


def _change(column: str, shown: Mapping[str, tuple[_Measure, _Measure]]) -> str:
    directions = {b.against(a) for a, b in shown.values()}
    verdict = {1: "more", 0: "about as much", -1: "less"}[directions.pop()] if len(directions) == 1 else "a different amount"
    unit = "R²" if next(iter(shown.values()))[0].unit == "r2" else "accuracy"
    changes = ", ".join(f"{a} → {b} for a {PROBES[probe]} probe" for probe, (a, b) in shown.items())
    return f"{verdict} of the {column} ({unit} {changes})"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]


def _mean_of(runs: list[RunView]) -> str:
    return f" (mean of {len(runs)} runs)" if len(runs) > 1 else ""


def _accuracy(runs: list[RunView]) -> _Measure:
    measures = [look(run.evaluation or {}, "encoder.accuracy.linear") or {} for run in runs]
    return _together([_Measure(m["value"], m["low"], m["high"], "accuracy") for m in measures])


def _leaks(runs: list[RunView], probe: str) -> dict[str, _Measure]:
    """What a probe reads of each condition column, where all of the runs tell."""
    parts = [leaks_of((run.evaluation or {}).get("encoder", {}), run.condition) for run in runs]
    together = {}
    for column in parts[0]:
        found = [leak(part.get(column, {}), probe) for part in parts]
        measures = [_Measure(m["value"], m["low"], m["high"], unit) for unit, m in filter(None, found)]
        if len(measures) == len(runs) and len({m.unit for m in measures}) == 1:
            together[column] = _together(measures)
    return together


def _together(measures: list[_Measure]) -> _Measure:
    """The mean, with an interval for both the test samples and the differences between runs."""
    mean = statistics.fmean(m.value for m in measures)
    between = 2 * statistics.stdev(m.value for m in measures) / math.sqrt(len(measures)) if len(measures) > 1 else 0.0
    below = math.hypot(statistics.fmean(m.value - m.low for m in measures), between)
    above = math.hypot(statistics.fmean(m.high - m.value for m in measures), between)
    return _Measure(mean, mean - below, mean + above, measures[0].unit)
