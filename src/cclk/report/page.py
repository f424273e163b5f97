"""The report: one HTML page that contains everything it shows and fetches nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path

from cclk._extras import needed_for
from cclk._files import make_parent, replace_text
from cclk.errors import CclkError
from cclk.report import plots
from cclk.report.groups import differences
from cclk.report.headline import summarize
from cclk.report.html_tables import chip, comparison_table, probe_tables, settings_table
from cclk.report.sample_images import SHOWN, triples
from cclk.report.view import RunView

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    " blob:; base-uri 'none'; form-action 'none'"
)
_INTERVALS = (
    "On the test split, with 95 % bootstrap intervals over its samples; they do not cover the seed."
    " The headline calls a change higher, lower, more or less only if its 95 % interval, over"
    " samples and over seeds if there are several, excludes 0, and if it is at least 1 point of"
    " accuracy or 0.05 of R²."
)
_LEAKAGE = (
    " Leakage is R², by the linear and by the worst of several probes: 0 if a probe is not better"
    " than predicting the mean, 1 if it predicts the condition exactly. Compare it with that of the"
    " untrained encoder and of the inputs."
)
_EMBEDDING = "Test samples on the two directions of largest variance of the encoder's features."
_WEIGHTS = (
    "For one batch: the kernel K is the similarity of the conditions of two samples; the weights W,"
    " computed from K, determine how much each sample counts as a neighbor of the other. Both are"
    " scaled to 0..1; samples are ordered by condition."
)
_LONG = 240  # characters of a headline that is set in smaller type


def write_report(runs: Sequence[RunView], out: Path, *, command: str = "") -> Path:
    """Write the report of one or several runs as one self-contained HTML file.

    Args:
        runs: in the order in which to show them.
        out: the file to write; its folder is created if necessary.
        command: the command that writes this report, for the footer.
    """
    if not runs:
        raise CclkError("a report needs at least one run")
    with needed_for("a report", "report"):
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    runs, page = _uniquely_named(runs), _Figures()
    conditional = any(run.condition for run in runs)
    data = dict.fromkeys(run.data.removesuffix(".") + "." for run in runs if run.data)
    mixes = " If the condition has been removed, its colors mix." if conditional else ""
    evaluated = comparison_table(runs) + _sentences(runs) + probe_tables(runs)
    sections = [
        _section("Settings", " ".join(data), settings_table(runs)),
        _section("Evaluation", _INTERVALS + _LEAKAGE * conditional, evaluated),
        _section("Accuracy against leakage", "", page.tradeoffs(runs)) if conditional else "",
        _section("Training", "", page.curves(runs)),
        _section("Embedding", _EMBEDDING + mixes, page.embeddings(runs)),
        _section("Kernel and weights", _WEIGHTS, page.kernels(runs)) if conditional else "",
        _section(
            "Images and their two views",
            "The loss compares two random views of the same image.",
            _images(runs),
        ),
    ]
    body = "".join([_header(runs), *sections, _footer(runs, command)])
    make_parent(out)
    replace_text(out, _document(body, page.figures, get_plotlyjs()))
    return out


class _Figures:
    """Collects figures, each under the id of the element that it is drawn into."""

    def __init__(self) -> None:
        self.figures: dict[str, plots.Figure] = {}

    def add(self, caption: str, figure: plots.Figure, description: str) -> str:
        element = f"figure-{len(self.figures)}"
        self.figures[element] = figure
        height = int(figure["layout"]["height"])
        head = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        return (
            f'<figure class="chart">{head}<div class="plot" id="{element}"'
            f' style="height:{height}px" role="img" aria-label="{escape(description)}"></div>'
            "</figure>"
        )

    def tradeoffs(self, runs: Sequence[RunView]) -> str:
        figures = plots.tradeoffs(runs)
        if not figures:
            return _empty(
                "No run has been evaluated, the data have no labels, or the condition is constant."
            )
        drawn = [
            self.add(
                name if len(figures) > 1 else "",
                figure,
                f"accuracy against leakage of the {name}, one point for each run",
            )
            for name, figure in figures.items()
        ]
        return _grid(*drawn) if len(drawn) > 1 else drawn[0]

    def curves(self, runs: Sequence[RunView]) -> str:
        drawn = [
            self.add(title, figure, f"{title} during training")
            for title, figure in plots.curves(runs).items()
        ]
        if not drawn:
            return _empty("Nothing was logged.")
        return _legend(runs, [""] * len(runs)) + _grid(*drawn)

    def embeddings(self, runs: Sequence[RunView]) -> str:
        shown = sum(run.embedding is not None for run in runs)

        def panel(run: RunView, by: str, plot: Callable[..., plots.Figure]) -> str:
            if not by:
                return ""
            figure = plot(run.embedding, shown)
            return self.add(f"by {by}", figure, f"embedding of {run.name} by {by}")

        parts = []
        for number, run in enumerate(runs):
            parts.append(_run_title(number, run))
            if run.embedding is None:
                parts.append(_empty("No embedding of this run."))
                continue
            label = panel(run, run.label, plots.by_label)
            parts.append(_grid(label, panel(run, run.condition, plots.by_condition)))
        return "".join(parts)

    def kernels(self, runs: Sequence[RunView]) -> str:
        parts = []
        for number, run in enumerate(runs):
            if run.kernel is not None:
                kernel, weights = plots.kernel(run.kernel)
                pair = (
                    self.add("K", kernel, f"kernel matrix of {run.name}"),
                    self.add("W", weights, f"weights of {run.name}"),
                )
                parts.append(_run_title(number, run) + _grid(*pair))
        return "".join(parts) or _empty("No weights: these methods do not use the condition.")


def _header(runs: Sequence[RunView]) -> str:
    first, *others = (
        escape(sentence).replace(" %", "&nbsp;%").replace(" → ", "&nbsp;→&nbsp;")
        for sentence in summarize(runs)
    )
    kicker = "cclk report" if len(runs) == 1 else f"cclk report · {len(runs)} runs"
    more = "".join(f"<p>{sentence}</p>" for sentence in others)
    size = ' class="long"' if len(first) > _LONG else ""
    return (
        f'<header><p class="kicker">{kicker}</p><h1{size}>{first}</h1>{more}'
        f"{_legend(runs, differences(runs))}</header>"
    )


def _sentences(runs: Sequence[RunView]) -> str:
    """What is read of the condition of each run, and what it cost, against the baselines."""
    lines = [
        f"<li>{chip(number)}{escape(f'{run.name}, {sentence}')}.</li>"
        for number, run in enumerate(runs)
        if run.evaluation and run.evaluation.baselines
        for sentence in run.evaluation.sentences(run.label)
    ]
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def _legend(runs: Sequence[RunView], notes: Sequence[str]) -> str:
    """The color of each run, with its note if there is one."""
    entries = []
    for number, (run, note) in enumerate(zip(runs, notes, strict=True)):
        small = f" <small>{escape(note)}</small>" if note else ""
        entries.append(f"<li>{chip(number)}{escape(run.name)}{small}</li>")
    return f'<ul class="runs">{"".join(entries)}</ul>'


def _section(title: str, text: str, content: str) -> str:
    paragraph = f"<p>{escape(text)}</p>" if text else ""
    return f"<section><h2>{escape(title)}</h2>{paragraph}{content}</section>"


def _run_title(number: int, run: RunView) -> str:
    return f"<h3>{chip(number)}{escape(run.name)}</h3>"


def _grid(*parts: str) -> str:
    return f'<div class="grid">{"".join(parts)}</div>'


def _empty(text: str) -> str:
    return f'<p class="empty">{escape(text)}</p>'


def _images(runs: Sequence[RunView]) -> str:
    """Runs with the same images show them once."""
    owners: dict[tuple[tuple[str, str, str], ...], list[tuple[int, RunView]]] = {}
    for number, run in enumerate(runs):
        if run.images is not None and (uris := tuple(triples(run.images))):
            owners.setdefault(uris, []).append((number, run))
    if not owners:
        return _empty("No images: the data are vectors.")
    kinds = ("image", "view 1", "view 2")
    names = "".join(f"<span>{kind}</span>" for kind in kinds)
    parts = []
    for rows, numbered in owners.items():
        first = numbered[0][1].images
        captions = [*(first.captions if first else ()), *[""] * SHOWN]
        if len(owners) > 1:
            parts += [_run_title(number, run) for number, run in numbered]
        cards = []
        for row, caption in zip(rows, captions, strict=False):
            images = "".join(
                f'<img src="{uri}" alt="{kind}">' for uri, kind in zip(row, kinds, strict=True)
            )
            cards.append(f"<figure>{images}<figcaption>{escape(caption)}</figcaption></figure>")
        parts.append(f'<div class="samples"><div class="what">{names}</div>{"".join(cards)}</div>')
    return "".join(parts)


def _footer(runs: Sequence[RunView], command: str) -> str:
    from cclk import __version__

    lines = []
    for name, version, typed in (
        ("", __version__, command),
        *((f"{escape(run.name)}: ", run.version, run.command) for run in runs),
    ):
        shown = [
            version and f"cclk {escape(version)}",
            typed and f"<code>{escape(typed)}</code>",
        ]
        if any(shown):
            lines.append(f"<p>{name}{' · '.join(filter(None, shown))}</p>")
    return f"<footer>{''.join(lines)}</footer>"


def _uniquely_named(runs: Sequence[RunView]) -> list[RunView]:
    seen: Counter[str] = Counter()
    named = []
    for run in runs:
        seen[run.name] += 1
        count = seen[run.name]
        named.append(run if count == 1 else replace(run, name=f"{run.name} ({count})"))
    return named


def _document(body: str, figures: dict[str, plots.Figure], plotly: str) -> str:
    data = json.dumps(figures, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    css, script = (
        (files("cclk.report") / "assets" / name).read_text(encoding="utf-8")
        for name in ("report.css", "report.js")
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>cclk report</title><link rel="icon" href="data:,"><style>{css}</style></head>\n'
        f"<body>{body}<noscript><p>The figures need JavaScript; everything else is readable without"
        " it.</p></noscript>\n"
        f'<script type="application/json" id="figures">{data}</script>\n'
        f"<script>{plotly}</script>\n<script>{script}</script></body></html>\n"
    )
