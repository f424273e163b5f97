"""The tables of the report as HTML: settings, scores with intervals, and every probe."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cclk.evaluation import ColumnLeakage, Estimate, Evaluation
from cclk.report.groups import flat_settings
from cclk.report.plots import run_color
from cclk.report.view import RunView


def chip(number: int) -> str:
    """Return a dot in the run's color."""
    return f'<span class="chip" style="background:{run_color(number)}"></span>'


def settings_table(runs: Sequence[RunView]) -> str:
    """One column per run; settings that differ come first and are marked, the others are folded."""
    flat = [flat_settings(run) for run in runs]
    keys = list(dict.fromkeys(key for settings in flat for key in settings))
    if not keys:
        return '<p class="empty">These runs have no settings.</p>'
    differ = [key for key in keys if len({settings.get(key) for settings in flat}) > 1]
    head = "".join(
        f'<th scope="col">{chip(i)}{escape(run.name)}</th>' for i, run in enumerate(runs)
    )

    def table(keys: list[str], mark: str = "") -> str:
        rows = []
        for key in keys:
            cells = "".join(f"<td>{escape(settings.get(key, '-'))}</td>" for settings in flat)
            rows.append(f'<tr{mark}><th scope="row">{escape(key)}</th>{cells}</tr>')
        return (
            f'<div class="scroll"><table class="settings"><thead><tr><th></th>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )

    def folded(title: str, keys: list[str]) -> str:
        return f"<details><summary>{title}</summary>{table(keys)}</details>" if keys else ""

    if len(runs) == 1:
        return folded(f"{len(keys)} settings", keys)
    same = [key for key in keys if key not in differ]
    first = table(differ, ' class="differs"') if differ else "<p>All settings are the same.</p>"
    return first + folded(f"{len(same)} settings are the same in all runs", same)


def comparison_table(runs: Sequence[RunView]) -> str:
    """Accuracy and leakage of every run and representation, with intervals as bars from 0 to 1."""
    labels = {run.label for run in runs}
    conditions = {run.condition for run in runs if run.condition}
    label = escape(runs[0].label) if len(labels) == 1 else "label"
    several = len(conditions) > 1 or any(len(run.scores.leakage) > 1 for run in runs)
    top, bottom = "", ""
    if conditions:
        of = "" if several else f" of the {escape(next(iter(conditions)))}"
        top = '<th rowspan="2">condition</th>' if several else ""
        top += f'<th colspan="2">leakage{of}</th><th rowspan="2">versus<br>baseline</th>'
        bottom = "<th>linear</th><th>worst probe</th>"
    head = (
        '<tr><th rowspan="2">run</th><th rowspan="2">features</th>'
        f'<th colspan="2">{label} accuracy</th>{top}</tr>'
        f"<tr><th>linear</th><th>kNN</th>{bottom}</tr>"
    )
    bodies = []
    for number, run in enumerate(runs):
        features = run.evaluation.features if run.evaluation else {}
        height = max(1, sum(len(scores.rows) for scores in features.values()))
        start = f'<th scope="rowgroup" rowspan="{height}">{chip(number)}{escape(run.name)}</th>'
        lines: list[str] = []
        for representation, scores in features.items():
            high = len(scores.rows)
            start += f'<td rowspan="{high}">{representation}</td>'
            start += _cell(f"{label}, linear", scores.accuracy.linear, high)
            start += _cell(f"{label}, kNN", scores.accuracy.knn, high)
            for column, leakage in scores.rows:
                cells = [f"<td>{escape(column)}</td>"] if several else []
                name = escape(column)
                cells.append(_cell(f"{name}, linear", leakage.linear))
                notes = filter(None, (leakage.worst_probe, leakage.reading))
                probe = "".join(f", {escape(note)}" for note in notes)
                cells.append(_cell(f"{name}, worst", leakage.worst, note=probe))
                cells.append(_baselines(run.evaluation, representation, column))
                lines.append(f"<tr>{start}{''.join(cells) if conditions else ''}</tr>")
                start = ""
        empty = (
            f'<tr>{start}<td colspan="{7 if several else 6}" class="empty">not evaluated</td></tr>'
        )
        bodies.append(f"<tbody>{''.join(lines) or empty}</tbody>")
    table = f'<table class="comparison"><thead>{head}</thead>{"".join(bodies)}</table>'
    return f'<div class="scroll">{table}</div>'


def probe_tables(runs: Sequence[RunView]) -> str:
    """The leakage by every probe from every representation and baseline, a table for each run."""
    tables = []
    for number, run in enumerate(runs):
        leakages = run.evaluation.leakages if run.evaluation else {}
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in leakages)
        rows = []
        for column in run.scores.leakage:
            columns = [each.columns.get(column, ColumnLeakage()) for each in leakages.values()]
            for probe in dict.fromkeys(probe for each in columns for probe in each.scores):
                cells = "".join(_probe_cell(each, probe) for each in columns)
                title = f"{escape(column)}, {escape(probe)}"
                rows.append(f'<tr><th scope="row">{title}</th>{cells}</tr>')
        if rows:
            tables.append(
                f"<details><summary>{chip(number)}{escape(run.name)}: every probe</summary>"
                f'<div class="scroll"><table class="settings"><thead><tr><th></th>{head}</tr>'
                f"</thead><tbody>{''.join(rows)}</tbody></table></div></details>"
            )
    return "".join(tables)


def _probe_cell(leakage: ColumnLeakage, probe: str) -> str:
    estimate = leakage.scores.get(probe)
    if estimate is None:
        return '<td class="empty">-</td>'
    shown = f"<strong>{estimate}</strong>" if probe == leakage.worst_probe else str(estimate)
    return f"<td>{shown} <small>{estimate.between}</small></td>"


def _cell(heading: str, estimate: Estimate | None, rows: int = 1, note: str = "") -> str:
    """Return an estimate; narrow pages show its heading in the cell."""
    start = f'rowspan="{rows}" data-heading="{heading}">'
    if estimate is None:
        return f'<td class="empty" {start}-</td>'
    bounds = (estimate.low, estimate.value, estimate.high)
    low, value, high = (100 * min(1.0, max(0.0, bound)) for bound in bounds)
    return (
        f"<td {start}<strong>{estimate.titled}</strong>"
        f'<span class="track"><i style="left:{low:.1f}%;width:{high - low:.1f}%"></i>'
        f'<b style="left:{value:.1f}%"></b></span><small>{estimate.between}{note}</small></td>'
    )


def _baselines(evaluation: Evaluation | None, representation: str, column: str) -> str:
    """The worst probe of the untrained encoder and the inputs; for a category, accuracies."""
    lines = []
    if evaluation:
        leakage = evaluation.features[representation].leakage.columns.get(column, ColumnLeakage())
        if representation == "encoder":
            for name, each in evaluation.baselines.items():
                worst = each.leakage.columns.get(column, ColumnLeakage()).worst
                lines += [f"{escape(name)} {worst}"] if worst else []
        if leakage.majority:
            accuracy = leakage.accuracy.get(leakage.worst_probe, "-")
            lines += [f"accuracy {accuracy}", f"predicting the most common {leakage.majority}"]
    shown = "<br>".join(f"<small>{line}</small>" for line in lines) or "-"
    return f'<td data-heading="versus baseline">{shown}</td>'
