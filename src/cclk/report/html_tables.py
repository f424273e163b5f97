"""The report's two tables as HTML: the settings of the runs side by side, and the comparison
with its intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cclk.evaluation.scores import PROBES, Estimate, Leakage
from cclk.report.groups import flat_settings
from cclk.report.plots import run_color
from cclk.report.view import RunView


def chip(place: int) -> str:
    """A dot in the run's color."""
    return f'<span class="chip" style="background:{run_color(place)}"></span>'


def settings_table(runs: Sequence[RunView]) -> str:
    """One column for each run; settings in which the runs differ come first and are marked, the
    others fold away.
    """
    flat = [flat_settings(run) for run in runs]
    keys = list(dict.fromkeys(key for settings in flat for key in settings))
    if not keys:
        return '<p class="empty">These runs came without settings.</p>'
    differ = [key for key in keys if len({settings.get(key) for settings in flat}) > 1]
    same = [key for key in keys if key not in differ]
    head = "".join(
        f'<th scope="col">{chip(place)}{escape(run.name)}</th>' for place, run in enumerate(runs)
    )

    def table(chosen: list[str], mark: str) -> str:
        rows = []
        for key in chosen:
            cells = "".join(f"<td>{escape(settings.get(key, '-'))}</td>" for settings in flat)
            rows.append(f'<tr{mark}><th scope="row">{escape(key)}</th>{cells}</tr>')
        top, body = f"<thead><tr><th></th>{head}</tr></thead>", f"<tbody>{''.join(rows)}</tbody>"
        return f'<div class="scroll"><table class="settings">{top}{body}</table></div>'

    if len(runs) == 1:
        return f"<details><summary>{len(keys)} settings</summary>{table(keys, '')}</details>"
    told = (
        table(differ, ' class="differs"') if differ else "<p>The runs have the same settings.</p>"
    )
    folded = (
        f"<details><summary>{len(same)} settings are the same in all"
        f" runs</summary>{table(same, '')}</details>"
        if same
        else ""
    )
    return told + folded


def comparison_table(runs: Sequence[RunView]) -> str:
    """Accuracies and leaks of every run and representation, each with its interval, drawn on a
    track from 0 to 1.
    """
    labels, conditions = (
        {run.label for run in runs},
        {run.condition for run in runs if run.condition},
    )
    label, condition = (
        escape(runs[0].label) if len(labels) == 1 else "label",
        escape(next(iter(conditions), "")),
    )
    several = len(conditions) > 1 or any(len(run.scores.leakage) > 1 for run in runs)
    of = (
        '<th rowspan="2">condition</th><th colspan="2">leak</th>'
        if several
        else f'<th colspan="2">leak of the {condition}</th>'
    )
    of += '<th rowspan="2">beside the<br>baseline</th>'
    head = (
        f'<tr><th rowspan="2">run</th><th rowspan="2">features</th><th colspan="2">{label}'
        f" accuracy</th>{of if conditions else ''}</tr>"
        f"<tr><th>linear</th><th>kNN</th>{'<th>linear</th><th>non-linear</th>' if conditions else ''}</tr>"
    )
    rows = []
    for place, run in enumerate(runs):
        features = run.evaluation.features if run.evaluation else {}
        height = sum(len(scores.rows) for scores in features.values())
        name = (
            f'<th scope="rowgroup" rowspan="{max(1, height)}">{chip(place)}{escape(run.name)}</th>'
        )
        if not features:
            rows.append(
                f'<tbody><tr>{name}<td colspan="{7 if several else 6}" class="empty">not evaluated'
                " yet</td></tr></tbody>"
            )
            continue
        lines: list[str] = []
        for representation, scores in features.items():
            high = len(scores.rows)
            start = f'<td rowspan="{high}">{representation}</td>'
            start += _cell(f"{label}, linear", scores.accuracy.linear, high) + _cell(
                f"{label}, kNN", scores.accuracy.knn, high
            )
            for column, leakage in scores.rows:
                cells = [f"<td>{escape(column)}</td>"] if several else []
                cells += [
                    _cell(f"{escape(column)}, {title}", getattr(leakage, probe))
                    for probe, title in PROBES.items()
                ]
                cells.append(_baseline(leakage))
                lines.append(
                    f"<tr>{'' if lines else name}{start}{''.join(cells) if conditions else ''}</tr>"
                )
                start = ""
        rows.append(f"<tbody>{''.join(lines)}</tbody>")
    return (
        '<div class="scroll"><table'
        f' class="comparison"><thead>{head}</thead>{"".join(rows)}</table></div>'
    )


def _cell(heading: str, found: Estimate | None, rows: int = 1) -> str:
    """An estimate; its heading is shown in the cell where the page is too narrow for a table."""
    if found is None:
        return f'<td class="empty" rowspan="{rows}" data-heading="{heading}">-</td>'
    low, value, high = (
        100 * min(1.0, max(0.0, bound)) for bound in (found.low, found.value, found.high)
    )
    track = (
        f'<span class="track"><i style="left:{low:.1f}%;width:{high - low:.1f}%"></i><b'
        f' style="left:{value:.1f}%"></b></span>'
    )
    return (
        f'<td rowspan="{rows}"'
        f' data-heading="{heading}"><strong>{found.titled}</strong>{track}<small>{found.between}</small></td>'
    )


def _baseline(leakage: Leakage) -> str:
    if leakage.guess:
        shown = f"{leakage.guess}<br><small>guessing the most common</small>"
    elif leakage.linear_mse and leakage.baseline:
        shown = (
            f"{leakage.linear_mse.titled}<br><small>predicting the mean: {leakage.baseline}</small>"
        )
    else:
        shown = "-"
    return f'<td data-heading="beside the baseline">{shown}</td>'
