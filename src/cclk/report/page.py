"""The report: one HTML page that contains everything it shows and fetches nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from cclk._extras import needed_for
from cclk._files import make_parent, replace_text
from cclk.errors import CclkError
from cclk.evaluation import ColumnLeakage, Estimate
from cclk.report import plots
from cclk.report.headline import differences, flat_settings, summarize
from cclk.report.view import RunView, Triple


def write_report(runs: Sequence[RunView], out: Path, *, command: str = "") -> Path:
    """Write the report of one or several runs as one self-contained HTML file.

    Args:
        runs: in the order in which to show them.
        out: the file to write; its folder is created if necessary.
        command: the command that writes this report, for the footer.
    """
    if not runs:
        raise CclkError("a report needs at least one run")
    page = render(runs, command)
    make_parent(out)
    replace_text(out, page)
    return out


def render(runs: Sequence[RunView], command: str = "") -> str:
    """Return the HTML of the report; see `write_report`."""
    with needed_for("a report", "report"):
        from jinja2 import Environment, StrictUndefined
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    import cclk

    runs, figures = _uniquely_named(runs), dict[str, plots.Figure]()

    def draw(figure: plots.Figure) -> str:
        figures[element := f"figure-{len(figures)}"] = figure
        return element

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"run_color": plots.run_color, "track": _track, "probes": _probes}
    assets = {name: _asset(f"report.{name}") for name in ("html", "css", "js")}
    flat = [flat_settings(run) for run in runs]
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    differ = [name for name in names if len({settings.get(name) for settings in flat}) > 1]
    labels = {run.label for run in runs}
    conditions = [run.condition for run in runs if run.condition]
    images: dict[tuple[Triple, ...], list[int]] = {}
    for number, run in enumerate(runs):
        if run.images:  # runs with the same images show them once
            images.setdefault(run.images, []).append(number)
    return environment.from_string(assets["html"]).render(
        runs=runs,
        numbered=list(enumerate(runs)),
        headline=[
            sentence.replace(" %", "\xa0%").replace(" → ", "\xa0→\xa0")
            for sentence in summarize(runs)
        ],
        differences=differences(runs),
        data=" ".join(dict.fromkeys(run.data.removesuffix(".") + "." for run in runs if run.data)),
        settings=flat,
        differ=differ,
        same=[name for name in names if name not in differ],
        label=runs[0].label if len(labels) == 1 else "label",
        condition=conditions[0] if conditions else "",
        conditional=bool(conditions),
        several=len(set(conditions)) > 1 or any(len(run.scores.leakage) > 1 for run in runs),
        tradeoffs=plots.tradeoffs(runs),
        curves=plots.curves(runs),
        shown=sum(run.embedding is not None for run in runs),
        images=images,
        footer=[
            ("", cclk.__version__, command),
            *((f"{run.name}: ", run.version, run.command) for run in runs),
        ],
        baselines=_baselines,
        plots=plots,
        draw=draw,
        figures=figures,
        css=assets["css"],
        script=assets["js"],
        plotly=get_plotlyjs(),
    )


def _asset(name: str) -> str:
    return (files("cclk.report") / "assets" / name).read_text(encoding="utf-8")


def _track(estimate: Estimate) -> list[float]:
    """Lower bound, value and upper bound in percent of the way from 0 to 1."""
    bounds = (estimate.low, estimate.value, estimate.high)
    return [round(100 * min(1.0, max(0.0, bound)), 1) for bound in bounds]


def _probes(run: RunView) -> list[tuple[str, str]]:
    """Columns of the condition, with each probe that was fitted to them."""
    leakages = run.evaluation.leakages.values() if run.evaluation else ()
    fitted = (
        (column, probe)
        for column in run.scores.leakage
        for leakage in leakages
        if column in leakage.columns
        for probe in leakage.columns[column].by_probe
    )
    return list(dict.fromkeys(fitted))


def _baselines(run: RunView, representation: str, column: str) -> list[str]:
    """The worst probe of the untrained encoder and the inputs; for a category, accuracies."""
    lines: list[str] = []
    if not run.evaluation:
        return lines
    if representation == "encoder":
        for name, scores in run.evaluation.baselines.items():
            worst = scores.leakage.columns.get(column, ColumnLeakage()).worst
            lines += [f"{name} {worst}"] if worst else []
    scores = run.evaluation.features[representation]
    leakage = scores.leakage.columns.get(column, ColumnLeakage())
    if leakage.majority:
        accuracy = leakage.accuracy.get(leakage.worst_probe, "-")
        lines += [f"accuracy {accuracy}", f"predicting the most common {leakage.majority}"]
    return lines


def _uniquely_named(runs: Sequence[RunView]) -> list[RunView]:
    seen: Counter[str] = Counter()
    named = []
    for run in runs:
        seen[run.name] += 1
        count = seen[run.name]
        named.append(run if count == 1 else replace(run, name=f"{run.name} ({count})"))
    return named
