"""The report: one HTML page that holds everything it shows, and asks the network for nothing."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

from cclk.extras import needed_for
from cclk.files import replace_text
from cclk.report import plots as figures
from cclk.report.groups import differences
from cclk.report.headline import summarize
from cclk.report.html_tables import chip, comparison_table, settings_table
from cclk.report.sample_images import SHOWN, triples
from cclk.report.script import JS
from cclk.report.style import CSS
from cclk.report.view import RunView

# Nothing may be fetched, whatever the page contains.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    " blob:; base-uri 'none'; form-action 'none'"
)
_LEAK = (
    " The leak of a number is R²: 0 if a probe does no better than predicting the mean, 1 if it"
    " predicts the condition exactly. The leak of a category is the accuracy of predicting it."
)
_LONG = 240  # characters of a headline that is set in smaller type


def write_report(runs: Sequence[RunView], out: Path, *, command: str = "") -> Path:
    """Write the report of one or several runs as one self-contained HTML file.

    Args:
        runs: in the order in which to show them.
        out: the file to write; its folder is made if need be.
        command: what the user typed to get this report, for the footer.
    """
    if not runs:
        raise ValueError("a report needs at least one run")
    with needed_for("a report", "report"):
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    page = _Page()
    runs = _with_names_of_their_own(runs)
    conditional = any(run.condition for run in runs)
    body = "".join(
        [
            _header(runs),
            _section("What was trained", _data(runs), settings_table(runs)),
            _section(
                "What the features tell",
                "On the test split, with 95 % bootstrap intervals over its samples, which do not"
                " cover the choice of the seed. The headline calls a change higher, lower, more or"
                " less only if its 95 % interval, over samples and over seeds where there are"
                " several, excludes 0." + (_LEAK if conditional else ""),
                comparison_table(runs),
            ),
            (
                _section(
                    "Accuracy against leakage",
                    "What one would use the features for, against what they should not tell.",
                    page.plane(runs),
                )
                if conditional
                else ""
            ),
            _section("Training", "", page.curves(runs)),
            _section(
                "The embedding",
                "Test samples on the two directions in which the encoder's features vary most."
                + (" If the condition has been removed, its colors mix." if conditional else ""),
                page.embeddings(runs),
            ),
            (
                _section(
                    "The condition's weights",
                    "For one batch: the kernel K says how alike the conditions of two samples are,"
                    " the weights the loss makes of it how much one counts as the other's neighbor."
                    " Both are scaled to 0..1; samples are ordered by condition.",
                    page.kernels(runs),
                )
                if conditional
                else ""
            ),
            _section(
                "Images and their two views",
                "The loss compares two random views of the same image.",
                _images(runs),
            ),
            _footer(runs, command),
        ]
    )
    text = _document(body, page.figures, get_plotlyjs())
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_text(out, text)
    return out


class _Page:
    """Collects the figures on the way, each under the id of the element that it is drawn into."""

    def __init__(self) -> None:
        self.figures: dict[str, figures.Figure] = {}

    def add(self, caption: str, figure: figures.Figure, describe: str) -> str:
        place = f"figure-{len(self.figures)}"
        self.figures[place] = figure
        height = int(figure["layout"]["height"])
        head = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        return (
            f'<figure class="chart">{head}<div class="plot" id="{place}" style="height:{height}px"'
            f' role="img" aria-label="{escape(describe)}"></div></figure>'
        )

    def plane(self, runs: Sequence[RunView]) -> str:
        found = figures.planes(runs)
        if not found:
            return _empty(
                "No run has been evaluated yet, nothing is labeled, or the condition does not vary."
            )
        drawn = [
            self.add(
                name if len(found) > 1 else "",
                figure,
                f"accuracy against leakage of the {name}, one point for each run",
            )
            for name, figure in found.items()
        ]
        return f'<div class="grid">{"".join(drawn)}</div>' if len(drawn) > 1 else drawn[0]

    def curves(self, runs: Sequence[RunView]) -> str:
        found = figures.curves(runs)
        if not found:
            return _empty("Nothing was logged.")
        return (
            _legend(runs, [""] * len(runs))
            + '<div class="grid">'
            + "".join(
                self.add(title, figure, f"{title} during training")
                for title, figure in found.items()
            )
            + "</div>"
        )

    def embeddings(self, runs: Sequence[RunView]) -> str:
        shown = sum(run.embedding is not None for run in runs)
        parts = []
        for place, run in enumerate(runs):
            parts.append(_run_title(place, run))
            if run.embedding is None:
                parts.append(_empty("No embedding of this run."))
                continue
            label = self.add(
                f"by {run.label}",
                figures.by_label(run.embedding, shown),
                f"embedding of {run.name} by {run.label}",
            )
            other = ""
            if run.condition:
                figure = figures.by_condition(run.embedding, shown)
                other = self.add(
                    f"by {run.condition}", figure, f"embedding of {run.name} by {run.condition}"
                )
            parts.append(f'<div class="grid">{label}{other}</div>')
        return "".join(parts)

    def kernels(self, runs: Sequence[RunView]) -> str:
        parts = []
        for place, run in enumerate(runs):
            if run.kernel is not None:
                left, right = figures.kernel(run.kernel)
                pair = self.add("K", left, f"kernel matrix of {run.name}") + self.add(
                    "W", right, f"weights of {run.name}"
                )
                parts.append(f'{_run_title(place, run)}<div class="grid">{pair}</div>')
        return "".join(parts) or _empty(
            "No weights to show: these methods use no condition, or no weights were given."
        )


def _header(runs: Sequence[RunView]) -> str:
    first, *others = (
        escape(sentence).replace(" %", "&nbsp;%").replace(" → ", "&nbsp;→&nbsp;")
        for sentence in summarize(runs)
    )
    kicker = "cclk report" if len(runs) == 1 else f"cclk report · {len(runs)} runs"
    more = "".join(f"<p>{sentence}</p>" for sentence in others)
    size = ' class="long"' if len(first) > _LONG else ""
    return (
        "<header><p"
        f' class="kicker">{kicker}</p><h1{size}>{first}</h1>{more}{_legend(runs, differences(runs))}</header>'
    )


def _legend(runs: Sequence[RunView], notes: Sequence[str]) -> str:
    """The color of each run, with a note on it if there is one."""
    entries = (
        f"<li>{chip(place)}{escape(run.name)}{f' <small>{escape(note)}</small>' if note else ''}</li>"
        for place, (run, note) in enumerate(zip(runs, notes, strict=True))
    )
    return f'<ul class="runs">{"".join(entries)}</ul>'


def _data(runs: Sequence[RunView]) -> str:
    """What the runs were trained on; every dataset once."""
    return " ".join(dict.fromkeys(run.data.removesuffix(".") + "." for run in runs if run.data))


def _section(title: str, words: str, content: str) -> str:
    said = f"<p>{escape(words)}</p>" if words else ""
    return f"<section><h2>{escape(title)}</h2>{said}{content}</section>"


def _run_title(place: int, run: RunView) -> str:
    return f"<h3>{chip(place)}{escape(run.name)}</h3>"


def _empty(words: str) -> str:
    return f'<p class="empty">{escape(words)}</p>'


def _images(runs: Sequence[RunView]) -> str:
    """Runs that show the same images show them once."""
    shown: dict[tuple[tuple[str, str, str], ...], list[tuple[int, RunView]]] = {}
    for place, run in enumerate(runs):
        if run.images is not None and (found := tuple(triples(run.images))):
            shown.setdefault(found, []).append((place, run))
    if not shown:
        return _empty("No images: the data are vectors, or none were given.")
    rows = '<div class="what"><span>image</span><span>view 1</span><span>view 2</span></div>'
    parts = []
    for found, owners in shown.items():
        first = owners[0][1].images
        captions = [*(first.captions if first else ()), *[""] * SHOWN]
        if len(shown) > 1:
            parts.append("".join(_run_title(place, run) for place, run in owners))
        cards = []
        for uris, caption in zip(found, captions, strict=False):
            images = "".join(
                f'<img src="{uri}" alt="{what}">'
                for uri, what in zip(uris, ("image", "view 1", "view 2"), strict=True)
            )
            cards.append(f"<figure>{images}<figcaption>{escape(caption)}</figcaption></figure>")
        parts.append(f'<div class="samples">{rows}{"".join(cards)}</div>')
    return "".join(parts)


def _footer(runs: Sequence[RunView], command: str) -> str:
    from cclk import __version__

    lines = [
        f"<p>cclk {escape(__version__)}"
        + (f" · <code>{escape(command)}</code>" if command else "")
        + "</p>"
    ]
    for run in runs:
        version, typed = (
            run.version and f"cclk {escape(run.version)}",
            run.command and f"<code>{escape(run.command)}</code>",
        )
        if version or typed:
            lines.append(f"<p>{escape(run.name)}: {' · '.join(filter(None, [version, typed]))}</p>")
    return f"<footer>{''.join(lines)}</footer>"


def _with_names_of_their_own(runs: Sequence[RunView]) -> list[RunView]:
    seen: Counter[str] = Counter()
    named = []
    for run in runs:
        seen[run.name] += 1
        named.append(
            run
            if seen[run.name] == 1
            else dataclasses.replace(run, name=f"{run.name} ({seen[run.name]})")
        )
    return named


def _document(body: str, drawn: dict[str, figures.Figure], plotly: str) -> str:
    data = json.dumps(drawn, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>cclk'
        " report</title>"
        f'<link rel="icon" href="data:,"><style>{CSS}</style></head>\n<body>{body}'
        "<noscript><p>The figures of this page are drawn by a script; everything else is readable"
        " without.</p></noscript>\n"
        '<script type="application/json"'
        f' id="figures">{data}</script>\n<script>{plotly}</script>\n<script>{JS}</script></body></html>\n'
    )
