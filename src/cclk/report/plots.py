"""The interactive figures as plotly specifications: {"data": [...], "layout": {...}}.

The page sets the colors of text and grid.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cclk.evaluation import Estimate
from cclk.report.headline import data_of, enumerated
from cclk.report.view import Array, Embedding, KernelFigure, RunView, category, hex_colors, is_color

Spec = dict[str, Any]
"""A part of a plotly specification, which is untyped."""
Figure = Spec

# Readable on white and on near-black.
RUN_COLORS = (
    "#4c8dd6", "#e0803a", "#3fa37c", "#b765c4", "#c9a227",
    "#d9596b", "#5fb0c9", "#8d8d3f", "#9a7b66", "#7d7fd8",
)  # fmt: skip
LABEL_COLORS = (
    "#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2",
    "#d9a90f", "#b279a2", "#ff9da6", "#9d755d", "#8c8c8c",
    "#2e5c8a", "#b35c00", "#2f7d32", "#a83240", "#3f8f8a",
    "#9c7a00", "#7d4b86", "#d46a78", "#6b4a38", "#5c5c5c",
)  # fmt: skip
_GRAY, _DARK_GRAY = "#c4c4c4", "#8a8f98"
_LEGEND = {"orientation": "h", "y": -0.09, "yanchor": "top", "x": 0, "itemsizing": "constant"}
_HIDDEN_AXIS = {
    "showticklabels": False, "ticks": "", "showgrid": False, "zeroline": False, "automargin": False,
}  # fmt: skip
_CURVES = {
    "loss": "loss",
    "effective_neighbors": "effective neighbors of the median anchor",
    "clamped": "share of clamped estimates",
    "lr": "learning rate",
    "samples_per_second": "samples per second",
}
_NOT_CURVES = {"step", "epoch", "time", "seconds"}
_MOST_CURVES = 8
_POINTS = 3000  # in all runs together
_CURVE_POINTS = 300
_COLUMNS = 8


def run_color(number: int) -> str:
    """Return the color of a run throughout the page."""
    return RUN_COLORS[number % len(RUN_COLORS)]


class _Point(NamedTuple):
    """A run on the plane of accuracy and leakage."""

    run: int
    leakage: Estimate
    accuracy: Estimate


def tradeoffs(runs: Sequence[RunView]) -> dict[str, Figure]:
    """Title -> accuracy against the leakage of one column, for each column and dataset."""
    planes: dict[tuple[Hashable, str, int], list[_Point]] = {}
    for number, run in enumerate(runs):
        accuracy = run.scores.accuracy.linear
        for column, leakage in run.scores.leakage.columns.items():
            if accuracy and (worst := leakage.worst):
                # The worst of a panel is not compared with the worst of fewer probes.
                key = data_of(run), column, len(leakage.by_probe)
                planes.setdefault(key, []).append(_Point(number, worst, accuracy))
    figures: dict[str, Figure] = {}
    for (_, column, _), points in planes.items():
        # Columns with the same name in different data are identified by their runs.
        names = enumerated([runs[point.run].name for point in points])
        title = column if column not in figures else f"{column} ({names})"
        figures[title] = _tradeoff(runs, column, points)
    return figures


def _tradeoff(runs: Sequence[RunView], column: str, points: Sequence[_Point]) -> Figure:
    bottom = max(0.0, min(100 * point.accuracy.low for point in points) - 4)
    left = min(-0.04, min(point.leakage.low for point in points) - 0.04)
    data = []
    for number, leakage, accuracy in points:
        label = _plain(runs[number].label)
        hover = f"%{{fullData.name}}<br>leakage %{{x:.2f}}<br>{label} accuracy %{{y:.1f}} %"
        data.append(
            _scatter([leakage.value], [100 * accuracy.value], name=_plain(runs[number].name))
            | {
                "error_x": _bars(leakage, 1),
                "error_y": _bars(accuracy, 100),
                "marker": {"size": 13, "color": run_color(number)},
                "hovertemplate": f"{hover}<extra></extra>",
            }
        )
    ideal = _scatter([0], [100], name="ideal", mode="markers+text") | {
        "text": ["  ideal"],
        "textposition": "middle right",
        "marker": {"size": 15, "symbol": "star", "color": _DARK_GRAY},
        "hovertemplate": "perfect accuracy, no leakage<extra></extra>",
        "showlegend": False,
    }
    x_title = f"leakage of the {_plain(column)} (R² of the worst probe)"
    y_title = f"{_plain(runs[points[0].run].label)} accuracy (%)"
    top = 100 + (100 - bottom) * 0.06
    layout = {
        "xaxis": {"title": {"text": x_title}, "range": [left, 1.05], "zeroline": True},
        "yaxis": {"title": {"text": y_title}, "range": [bottom, top], "zeroline": False},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "showlegend": True,
        "height": 420,
    }
    return {"data": [*data, ideal], "layout": layout}


def curves(runs: Sequence[RunView]) -> dict[str, Figure]:
    """Title -> figure, one for each logged quantity."""
    lines = [line for run in runs for line in run.metrics]
    logged = {key for line in lines for key, value in line.items() if _number(value) is not None}
    keys = [key for key in _CURVES if key in logged] + sorted(logged - _NOT_CURVES - set(_CURVES))
    figures = {}
    for key in keys[:_MOST_CURVES]:
        data: list[Spec] = []
        for number, run in enumerate(runs):
            steps, values = _thin(run.metrics, key, max(60, _CURVE_POINTS * 2 // (len(runs) + 1)))
            if steps:
                # A line through a single point is invisible.
                mode, color = "lines" if len(steps) > 1 else "markers", run_color(number)
                style = {"line": {"color": color, "width": 1.8}, "marker": {"color": color}}
                data.append(_scatter(steps, values, name=_plain(run.name), mode=mode) | style)
        layout = {
            "height": 250,
            "showlegend": False,
            "hovermode": "x",
            "xaxis": {"title": {"text": "step"}, "zeroline": False},
            "yaxis": {"type": "log", "exponentformat": "power"} if key == "lr" else {},
        }
        figures[_CURVES.get(key, key)] = {"data": data, "layout": layout}
    return figures


def by_label(embedding: Embedding, runs: int) -> Figure:
    """The embedding colored by label."""
    rows = _shown(embedding, runs)
    return _grouped(embedding, embedding.points[rows], embedding.labels[rows], embedding.classes)


def by_condition(embedding: Embedding, runs: int) -> Figure:
    """The embedding in the color that the condition is, or colored by a column of the condition.

    If there are several columns, "others" holds the figures of the second and later ones.
    """
    rows = _shown(embedding, runs)
    points, condition = embedding.points[rows], embedding.condition[rows][:, :_COLUMNS]
    names = embedding.condition_names[:_COLUMNS]
    if is_color(names):
        values = (f"{name} %{{customdata[{number}]:.4~g}}" for number, name in enumerate(names))
        line = {"color": "rgba(128,128,128,0.6)", "width": 0.7}
        marker = {"color": hex_colors(condition), "line": line}
        trace = _dots(points, "", marker, "<br>".join(values))
        trace["customdata"] = [_rounded(row) for row in condition]
        return {"data": [trace], "layout": _plane_layout(embedding) | {"showlegend": False}}
    first, *others = (
        _by_column(embedding, points, condition[:, number], name)
        for number, name in enumerate(names)
    )
    return first | ({"others": others} if others else {})


def _by_column(embedding: Embedding, points: Array, values: Array, name: str) -> Figure:
    """Categories have a legend, numbers a color scale."""
    title = _plain(name)
    if name in embedding.categories:
        figure = _grouped(embedding, points, values.astype(int), embedding.categories[name])
        return figure | {"name": title}
    bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": title, "side": "right"}}
    scale = {"colorscale": "Viridis", "showscale": True, "colorbar": bar}
    marker = {"color": _rounded(values), **scale}
    trace = _dots(points, "", marker, f"{title} %{{marker.color:.4~g}}")
    layout = _plane_layout(embedding) | {"showlegend": False}
    return {"data": [trace], "layout": layout, "name": title}


def kernel(matrices: KernelFigure) -> tuple[Figure, Figure]:
    """K and W as heat maps, with the colors or categories of the samples below."""
    return _heat(matrices, matrices.kernel), _heat(matrices, matrices.weights)


def _heat(matrices: KernelFigure, matrix: Array) -> Figure:
    size = len(matrix)
    positions = np.arange(size)
    data: list[Spec] = [
        {
            "type": "heatmap",
            "z": np.round(matrix, 2).tolist(),
            "zmin": 0,
            "zmax": 1,
            "colorscale": "Viridis",
            "showscale": False,
            "hovertemplate": "%{y}<br>%{x}<br>%{z}<extra></extra>",
        }
    ]
    strip: list[tuple[str, Any, Array]] = []
    if matrices.colors:
        strip = [("", list(matrices.colors), positions)]
    elif matrices.codes is not None:
        strip = [
            (name, color, positions[rows])
            for name, color, rows in _by_category(matrices.codes, matrices.categories)
        ]
    for name, color, x in strip:
        marker = {"symbol": "square", "size": 6, "color": color}
        squares = _scatter(x.tolist(), [size + 1] * len(x), name=name)
        data.append(squares | {"marker": marker, "hoverinfo": "skip"})
    # The ticks are hidden; their texts name the samples on hover.
    axis = _HIDDEN_AXIS | {
        "constrain": "domain",
        "tickmode": "array",
        "tickvals": positions.tolist(),
        "ticktext": [_plain(sample) for sample in matrices.samples],
    }
    down = {"range": [size + (2 if strip else -0.5), -0.5], "scaleanchor": "x"}
    below = 48 if matrices.codes is not None else 8
    layout = {
        "xaxis": axis | {"range": [-0.5, size - 0.5]},
        "yaxis": axis | down,
        "height": 332 + below,
        "margin": {"l": 8, "r": 8, "t": 12, "b": below},
        "showlegend": matrices.codes is not None,
        "legend": _LEGEND | {"y": -0.02, "title": {"text": _plain(matrices.column)}},
    }
    return {"data": data, "layout": layout}


def _by_category(codes: Array, names: Sequence[str]) -> list[tuple[str, str, Array]]:
    """Name, color and rows of each category that occurs; those beyond the colors are one, gray."""
    most = max(len(names), int(codes.max(initial=0)) + 1)
    colored = most if most <= len(LABEL_COLORS) else len(LABEL_COLORS) - 1
    categories = [
        (_plain(category(code, names)), LABEL_COLORS[code], codes == code)
        for code in range(colored)
        if (codes == code).any()
    ]
    if (codes >= colored).any():
        categories.append((f"{most - colored} others", _GRAY, codes >= colored))
    return categories


def _grouped(embedding: Embedding, points: Array, codes: Array, names: Sequence[str]) -> Figure:
    """One color and one entry of the legend for each category."""
    data = [
        _dots(points[rows], name, {"opacity": 0.75, "color": color}, "%{fullData.name}")
        for name, color, rows in _by_category(codes, names)
    ]
    layout = _plane_layout(embedding) | {"showlegend": True, "legend": _LEGEND}
    return {"data": data, "layout": layout}


def _plane_layout(embedding: Embedding) -> Spec:
    first, second = (f"{100 * share:.0f} % of the variance" for share in embedding.explained)
    return {
        "height": 440,
        # Space for the legend, so that adjacent panels have the same size.
        "margin": {"l": 36, "r": 12, "t": 12, "b": 92},
        "hovermode": "closest",
        "xaxis": _HIDDEN_AXIS | {"title": {"text": first}},
        "yaxis": _HIDDEN_AXIS | {"title": {"text": second}},
    }


def _dots(points: Array, name: str, marker: Spec, hover: str) -> Spec:
    return _scatter(_rounded(points[:, 0]), _rounded(points[:, 1]), name=name) | {
        "marker": {"size": 5, "opacity": 0.85, **marker},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def _scatter(x: Sequence[float], y: Sequence[float], *, name: str, mode: str = "markers") -> Spec:
    return {"type": "scatter", "mode": mode, "name": name, "x": x, "y": y}


def _shown(embedding: Embedding, runs: int) -> Array:
    """Return the rows to show: fewer if there are many runs, so that the page stays small."""
    size, most = len(embedding.points), max(200, _POINTS // max(1, runs))
    return np.linspace(0, size - 1, min(size, most)).round().astype(int)


def _bars(estimate: Estimate, factor: float) -> Spec:
    above = max(0.0, factor * (estimate.high - estimate.value))
    below = max(0.0, factor * (estimate.value - estimate.low))
    style = {"type": "data", "symmetric": False, "thickness": 1.2, "width": 4}
    return style | {"array": [above], "arrayminus": [below]}


def _thin(
    lines: Sequence[Mapping[str, object]], key: str, most: int
) -> tuple[list[float], list[float]]:
    """Return steps and values of a quantity, averaged over adjacent steps if there are many."""
    pairs = [
        (_number(line.get("step", number)), _number(line.get(key)))
        for number, line in enumerate(lines)
    ]
    kept = np.array([pair for pair in pairs if None not in pair], dtype=np.float64).reshape(-1, 2)
    if len(kept) > most:
        kept = np.array([part.mean(axis=0) for part in np.array_split(kept, most)])
    return np.rint(kept[:, 0]).tolist(), _rounded(kept[:, 1])


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _rounded(values: Array) -> list[float]:
    """Round to four significant digits, which keeps the page small."""
    return [float(f"{value:.4g}") for value in np.asarray(values, dtype=np.float64).tolist()]


def _plain(text: str) -> str:
    """Escape the HTML and %{...} that plotly interprets."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("%{", "% {")
