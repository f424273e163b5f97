"""The interactive figures as plain plotly specifications: {"data": [...], "layout": {...}}. Colours of text and grid come from the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cclk.evaluation.table import leak, leaks_of, look
from cclk.report.view import Array, Embedding, KernelPicture, RunView, hex_colours, is_colour

Figure = dict[str, Any]

# Readable on white and on near-black.
RUN_COLOURS = ("#4c8dd6", "#e0803a", "#3fa37c", "#b765c4", "#c9a227", "#d9596b", "#5fb0c9", "#8d8d3f", "#9a7b66", "#7d7fd8")
LABEL_COLOURS = (
    *("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#d9a90f", "#b279a2", "#ff9da6", "#9d755d", "#8c8c8c"),
    *("#2e5c8a", "#b35c00", "#2f7d32", "#a83240", "#3f8f8a", "#9c7a00", "#7d4b86", "#d46a78", "#6b4a38", "#5c5c5c"),
)
_CURVES = {
    "loss": "loss",
    "effective_partners": "effective partners of the median anchor",
    "floored": "share of floored estimates",
    "lr": "learning rate",
    "images_per_second": "images per second",
}
_NOT_CURVES = {"step", "epoch", "time", "seconds"}
_MOST_CURVES = 8
_POINTS = 3000  # in all runs together
_CURVE_POINTS = 300
_COLUMNS = 8


def run_colour(place: int) -> str:
    """The colour that stands for a run throughout the page."""
    return RUN_COLOURS[place % len(RUN_COLOURS)]


def planes(runs: Sequence[RunView]) -> dict[str, Figure]:
    """Condition column -> accuracy against its leak; a condition that is one whole has one figure."""
    columns = dict.fromkeys(name for run in runs for name in leaks_of((run.evaluation or {}).get("encoder", {}), run.condition))
    found = {name: plane(runs, name) for name in columns}
    return {name: figure for name, figure in found.items() if figure is not None}


def plane(runs: Sequence[RunView], column: str) -> Figure | None:
    """Accuracy against the leak of one condition column, one point for each evaluated run; None if there is none."""
    points: list[tuple[int, str, Mapping[str, float], Mapping[str, float]]] = []
    nothing = 0.0
    for place, run in enumerate(runs):
        part = (run.evaluation or {}).get("encoder", {})
        leaks = leaks_of(part, run.condition).get(column, {})
        read, leaked = look(part, "accuracy.linear"), leak(leaks, "linear")
        if read and leaked:
            # Who knows nothing of a category still guesses the most frequent one.
            nothing = (look(leaks, "leakage.baseline_accuracy") or {"value": 0.0})["value"]
            points.append((place, leaked[0], leaked[1], read))
    if not points:
        return None
    unit = points[0][1]
    points = [point for point in points if point[1] == unit]
    bottom = max(0.0, min(100 * read["low"] for *_, read in points) - 4)
    left = min(-0.04, min(x["low"] for _, _, x, _ in points) - 0.04)
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": _plain(runs[place].name),
            "x": [x["value"]],
            "y": [100 * y["value"]],
            "error_x": _bars(x, 1),
            "error_y": _bars(y, 100),
            "marker": {"size": 13, "color": run_colour(place)},
            "hovertemplate": f"%{{fullData.name}}<br>leak %{{x:.2f}}<br>{_plain(runs[place].label)} accuracy %{{y:.1f}} %<extra></extra>",
        }
        for place, _, x, y in points
    ]
    ideal = {
        "type": "scatter",
        "mode": "markers+text",
        "name": "ideal",
        "x": [nothing],
        "y": [100],
        "text": ["  ideal"],
        "textposition": "middle right",
        "marker": {"size": 15, "symbol": "star", "color": "#c9a227"},
        "hovertemplate": "everything read, nothing leaked<extra></extra>",
        "showlegend": False,
    }
    labels = {runs[place].label for place, *_ in points}
    label = labels.pop() if len(labels) == 1 else "label"
    kind = "linear R²" if unit == "r2" else "linear accuracy"
    layout = {
        "xaxis": {"title": {"text": f"leak of the {_plain(column)} ({kind})"}, "range": [left, 1.05], "zeroline": True},
        "yaxis": {
            "title": {"text": f"{_plain(label)} accuracy (%)"},
            "range": [bottom, 100 + (100 - bottom) * 0.06],
            "zeroline": False,
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "showlegend": True,
        "height": 420,
    }
    return {"data": [*data, ideal], "layout": layout}


def curves(runs: Sequence[RunView]) -> dict[str, Figure]:
    """Title -> figure, one for each logged quantity."""
    logged = {key for run in runs for line in run.metrics for key, value in line.items() if _number(value) is not None}
    keys = [key for key in _CURVES if key in logged] + sorted(logged - _NOT_CURVES - set(_CURVES))
    found = {}
    for key in keys[:_MOST_CURVES]:
        data: list[dict[str, Any]] = []
        for place, run in enumerate(runs):
            steps, values = _thin(run.metrics, key, max(60, _CURVE_POINTS * 2 // (len(runs) + 1)))
            if steps:
                line = {"color": run_colour(place), "width": 1.8}
                data.append({"type": "scatter", "mode": "lines", "name": _plain(run.name), "x": steps, "y": values, "line": line})
        layout = {"height": 250, "showlegend": False, "hovermode": "x", "xaxis": {"title": {"text": "step"}}, "yaxis": {}}
        found[_CURVES.get(key, key)] = {"data": data, "layout": layout}
    return found


def by_label(embedding: Embedding, runs: int) -> Figure:
    """The embedding coloured by label; a click on the legend hides a label."""
    rows = _some(embedding, runs)
    return _grouped(embedding, embedding.points[rows], embedding.labels[rows], embedding.classes)


def by_condition(embedding: Embedding, runs: int) -> Figure:
    """The embedding coloured by condition: its own colour if it is one, else a scale, with a choice of column if there are several."""
    rows = _some(embedding, runs)
    points, condition = embedding.points[rows], embedding.condition[rows][:, :_COLUMNS]
    names = [_plain(name) for name in embedding.condition_names[:_COLUMNS]]
    hover = "<br>".join(f"{name} %{{customdata[{place}]:.4~g}}" for place, name in enumerate(names)) + "<extra></extra>"
    if embedding.kind == "categorical":
        return _grouped(embedding, points, condition[:, 0].astype(int), ())
    if is_colour(names):
        marker: dict[str, Any] = {"color": hex_colours(condition), "line": {"color": "rgba(128,128,128,0.6)", "width": 0.7}}
    else:
        bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": names[0], "side": "right"}}
        marker = {"color": _rounded(condition[:, 0]), "colorscale": "Viridis", "showscale": True, "colorbar": bar}
    trace = _dots(points, name="", marker={"size": 5, "opacity": 0.85, **marker}, hovertemplate=hover)
    trace["customdata"] = [_rounded(row) for row in condition]
    figure: Figure = {"data": [trace], "layout": _plane_layout(embedding) | {"showlegend": False}}
    if "colorscale" in marker and len(names) > 1:
        figure["columns"] = names
    return figure


def kernel(picture: KernelPicture) -> tuple[Figure, Figure]:
    """K and W as heat maps, with the samples' colours beneath if they have any."""
    return _heat(picture.kernel, picture.colours), _heat(picture.weights, picture.colours)


def _heat(matrix: Array, colours: Sequence[str]) -> Figure:
    size = len(matrix)
    heat = {
        "type": "heatmap",
        "z": np.round(matrix, 2).tolist(),
        "zmin": 0,
        "zmax": 1,
        "colorscale": "Viridis",
        "showscale": False,
        "hovertemplate": "%{y}, %{x}: %{z}<extra></extra>",
    }
    data: list[dict[str, Any]] = [heat]
    if colours:
        marker = {"symbol": "square", "size": 6, "color": list(colours)}
        places = list(range(size))
        data.append({"type": "scatter", "mode": "markers", "x": places, "y": [size + 1] * size, "marker": marker, "hoverinfo": "skip"})
    hidden = {"showticklabels": False, "ticks": "", "showgrid": False, "zeroline": False, "automargin": False, "constrain": "domain"}
    down = {"range": [size + (2 if colours else -0.5), -0.5], "scaleanchor": "x"}
    axes = {"xaxis": hidden | {"range": [-0.5, size - 0.5]}, "yaxis": hidden | down}
    return {"data": data, "layout": axes | {"height": 340, "showlegend": False, "margin": {"l": 8, "r": 8, "t": 12, "b": 8}}}


def _grouped(embedding: Embedding, points: Array, groups: Array, names: Sequence[str]) -> Figure:
    """One colour and one entry of the legend for each group."""
    data = []
    for place, group in enumerate(np.unique(groups).tolist()):
        name = _plain(names[group]) if 0 <= group < len(names) else str(group)
        marker = {"size": 5, "opacity": 0.75, "color": LABEL_COLOURS[place % len(LABEL_COLOURS)]}
        data.append(_dots(points[groups == group], name=name, marker=marker, hovertemplate="%{fullData.name}<extra></extra>"))
    legend = {"orientation": "h", "y": -0.09, "yanchor": "top", "x": 0, "itemsizing": "constant"}
    return {"data": data, "layout": _plane_layout(embedding) | {"showlegend": True, "legend": legend}}


def _plane_layout(embedding: Embedding) -> dict[str, Any]:
    bare = {"showticklabels": False, "ticks": "", "showgrid": False, "zeroline": False, "automargin": False}
    first, second = (f"{100 * share:.0f} % of the variance" for share in embedding.explained)
    return {
        "height": 440,
        "margin": {"l": 36, "r": 12, "t": 12, "b": 92},  # room for the legend, so that panels side by side have the same size
        "hovermode": "closest",
        "xaxis": bare | {"title": {"text": first}},
        "yaxis": bare | {"title": {"text": second}},
    }


def _dots(points: Array, **more: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": "markers", "x": _rounded(points[:, 0]), "y": _rounded(points[:, 1]), **more}


def _some(embedding: Embedding, runs: int) -> Array:
    """Which samples to show: fewer for each run if there are many runs, so that the page stays small."""
    size, most = len(embedding.points), max(200, _POINTS // max(1, runs))
    return np.linspace(0, size - 1, min(size, most)).round().astype(int)


def _bars(measure: Mapping[str, float], factor: float) -> dict[str, Any]:
    above, below = factor * (measure["high"] - measure["value"]), factor * (measure["value"] - measure["low"])
    return {"type": "data", "symmetric": False, "array": [max(0.0, above)], "arrayminus": [max(0.0, below)], "thickness": 1.2, "width": 4}


def _thin(lines: Sequence[Mapping[str, Any]], key: str, most: int) -> tuple[list[float], list[float]]:
    """Steps and values of one quantity; means over neighbouring steps if there are too many to draw."""
    pairs = [(_number(line.get("step", place)), _number(line.get(key))) for place, line in enumerate(lines)]
    kept = np.array([pair for pair in pairs if None not in pair], dtype=np.float64).reshape(-1, 2)
    if len(kept) > most:
        kept = np.array([part.mean(axis=0) for part in np.array_split(kept, most)])
    return np.rint(kept[:, 0]).tolist(), _rounded(kept[:, 1])


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _rounded(values: Array) -> list[float]:
    """Four figures: more cannot be seen, and every one of them is carried by the page."""
    return [float(f"{value:.4g}") for value in np.asarray(values, dtype=np.float64).tolist()]


def _plain(text: str) -> str:
    """Plotly reads a little HTML and %{...} in its texts: take their marks away."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("%{", "% {")
