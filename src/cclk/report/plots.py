"""The interactive figures as plain plotly specifications: {"data": [...], "layout": {...}}.
Colors of text and grid come from the page.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cclk.evaluation import Estimate
from cclk.report.groups import data_of, listed
from cclk.report.view import Array, Embedding, KernelFigure, RunView, category, hex_colors, is_color

Spec = dict[str, Any]
"""A part of a plotly specification, which has no types of its own."""
Figure = Spec

# Readable on white and on near-black.
RUN_COLORS = (
    "#4c8dd6",
    "#e0803a",
    "#3fa37c",
    "#b765c4",
    "#c9a227",
    "#d9596b",
    "#5fb0c9",
    "#8d8d3f",
    "#9a7b66",
    "#7d7fd8",
)
LABEL_COLORS = (
    *(
        "#4c78a8",
        "#f58518",
        "#54a24b",
        "#e45756",
        "#72b7b2",
        "#d9a90f",
        "#b279a2",
        "#ff9da6",
        "#9d755d",
        "#8c8c8c",
    ),
    *(
        "#2e5c8a",
        "#b35c00",
        "#2f7d32",
        "#a83240",
        "#3f8f8a",
        "#9c7a00",
        "#7d4b86",
        "#d46a78",
        "#6b4a38",
        "#5c5c5c",
    ),
)
_GRAY = "#c4c4c4"
_LEGEND = {"orientation": "h", "y": -0.09, "yanchor": "top", "x": 0, "itemsizing": "constant"}
_CURVES = {
    "loss": "loss",
    "effective_neighbors": "effective neighbors of the median anchor",
    "floored": "share of floored estimates",
    "lr": "learning rate",
    "images_per_second": "images per second",
}
_NOT_CURVES = {"step", "epoch", "time", "seconds"}
_MOST_CURVES = 8
_POINTS = 3000  # in all runs together
_CURVE_POINTS = 300
_COLUMNS = 8


def run_color(place: int) -> str:
    """The color that stands for a run throughout the page."""
    return RUN_COLORS[place % len(RUN_COLORS)]


def planes(runs: Sequence[RunView]) -> dict[str, Figure]:
    """Title -> accuracy against the leak of one condition column, for each column and each dataset."""
    found: dict[tuple[Hashable, str, str], list[_Point]] = {}
    for place, run in enumerate(runs):
        accuracy = run.scores.accuracy.linear
        for column, leakage in run.scores.leakage.items():
            if accuracy and leakage.linear:
                # Without any knowledge of a category one can still guess the most frequent one.
                guess = leakage.guess.value if leakage.guess else 0.0
                found.setdefault((data_of(run), column, leakage.linear.unit), []).append(
                    _Point(place, leakage.linear, accuracy, guess)
                )
    drawn: dict[str, Figure] = {}
    for (_, column, unit), points in found.items():
        # Columns of the same name in different data are told apart by their runs.
        title = (
            column
            if column not in drawn
            else f"{column} ({listed([runs[point.place].name for point in points])})"
        )
        drawn[title] = _plane(runs, column, unit, points)
    return drawn


class _Point(NamedTuple):
    """A run on the plane of accuracy and leakage."""

    place: int
    leak: Estimate
    accuracy: Estimate
    guess: float
    """The leak of features that know nothing of the condition."""


def _plane(runs: Sequence[RunView], column: str, unit: str, points: Sequence[_Point]) -> Figure:
    bottom = max(0.0, min(100 * point.accuracy.low for point in points) - 4)
    left = min(-0.04, min(point.leak.low for point in points) - 0.04)
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": _plain(runs[place].name),
            "x": [x.value],
            "y": [100 * y.value],
            "error_x": _bars(x, 1),
            "error_y": _bars(y, 100),
            "marker": {"size": 13, "color": run_color(place)},
            "hovertemplate": (
                f"%{{fullData.name}}<br>leak %{{x:.2f}}<br>{_plain(runs[place].label)} accuracy"
                " %{y:.1f} %<extra></extra>"
            ),
        }
        for place, x, y, _ in points
    ]
    ideal = {
        "type": "scatter",
        "mode": "markers+text",
        "name": "ideal",
        "x": [points[0].guess],
        "y": [100],
        "text": ["  ideal"],
        "textposition": "middle right",
        "marker": {"size": 15, "symbol": "star", "color": "#8a8f98"},
        "hovertemplate": "everything read, nothing leaked<extra></extra>",
        "showlegend": False,
    }
    kind = "linear R²" if unit == "r2" else "linear accuracy"
    layout = {
        "xaxis": {
            "title": {"text": f"leak of the {_plain(column)} ({kind})"},
            "range": [left, 1.05],
            "zeroline": True,
        },
        "yaxis": {
            "title": {"text": f"{_plain(runs[points[0].place].label)} accuracy (%)"},
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
    logged = {
        key
        for run in runs
        for line in run.metrics
        for key, value in line.items()
        if _number(value) is not None
    }
    keys = [key for key in _CURVES if key in logged] + sorted(logged - _NOT_CURVES - set(_CURVES))
    found = {}
    for key in keys[:_MOST_CURVES]:
        data: list[Spec] = []
        for place, run in enumerate(runs):
            steps, values = _thin(run.metrics, key, max(60, _CURVE_POINTS * 2 // (len(runs) + 1)))
            if steps:
                color = {"color": run_color(place)}
                drawn = {"line": {**color, "width": 1.8}, "marker": color}
                mode = (
                    "lines" if len(steps) > 1 else "markers"
                )  # a line through one point is invisible
                data.append(
                    {
                        "type": "scatter",
                        "mode": mode,
                        "name": _plain(run.name),
                        "x": steps,
                        "y": values,
                        **drawn,
                    }
                )
        scale = {"type": "log", "exponentformat": "power"} if key == "lr" else {}
        across = {"title": {"text": "step"}, "zeroline": False}
        layout = {
            "height": 250,
            "showlegend": False,
            "hovermode": "x",
            "xaxis": across,
            "yaxis": scale,
        }
        found[_CURVES.get(key, key)] = {"data": data, "layout": layout}
    return found


def by_label(embedding: Embedding, runs: int) -> Figure:
    """The embedding colored by label; a click on the legend hides a label."""
    rows = _some(embedding, runs)
    return _grouped(embedding, embedding.points[rows], embedding.labels[rows], embedding.classes)


def by_condition(embedding: Embedding, runs: int) -> Figure:
    """The embedding colored by condition: by its own color if it is one, else by a column, with
    a choice if there are several.
    """
    rows = _some(embedding, runs)
    points, condition = embedding.points[rows], embedding.condition[rows][:, :_COLUMNS]
    names = embedding.condition_names[:_COLUMNS]
    if is_color(names):
        hover = (
            "<br>".join(f"{name} %{{customdata[{place}]:.4~g}}" for place, name in enumerate(names))
            + "<extra></extra>"
        )
        marker = {
            "size": 5,
            "opacity": 0.85,
            "color": hex_colors(condition),
            "line": {"color": "rgba(128,128,128,0.6)", "width": 0.7},
        }
        trace = _dots(points, name="", marker=marker, hovertemplate=hover) | {
            "customdata": [_rounded(row) for row in condition]
        }
        return {"data": [trace], "layout": _plane_layout(embedding) | {"showlegend": False}}
    first, *others = (
        _by_column(embedding, points, condition[:, place], name) for place, name in enumerate(names)
    )
    return first | ({"others": others} if others else {})


def _by_column(embedding: Embedding, points: Array, values: Array, name: str) -> Figure:
    """Categories in colors of their own with a legend, numbers on a scale."""
    title = _plain(name)
    if name in embedding.categories:
        return _grouped(embedding, points, values.astype(int), embedding.categories[name]) | {
            "name": title
        }
    bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": title, "side": "right"}}
    marker = {
        "size": 5,
        "opacity": 0.85,
        "color": _rounded(values),
        "colorscale": "Viridis",
        "showscale": True,
        "colorbar": bar,
    }
    trace = _dots(
        points,
        name="",
        marker=marker,
        hovertemplate=f"{title} %{{marker.color:.4~g}}<extra></extra>",
    )
    return {
        "data": [trace],
        "layout": _plane_layout(embedding) | {"showlegend": False},
        "name": title,
    }


def kernel(image: KernelFigure) -> tuple[Figure, Figure]:
    """K and W as heat maps, with the samples' colors beneath if they have any."""
    return _heat(image, image.kernel), _heat(image, image.weights)


def _heat(image: KernelFigure, matrix: Array) -> Figure:
    size = len(matrix)
    heat = {
        "type": "heatmap",
        "z": np.round(matrix, 2).tolist(),
        "zmin": 0,
        "zmax": 1,
        "colorscale": "Viridis",
        "showscale": False,
        "hovertemplate": "%{y}<br>%{x}<br>%{z}<extra></extra>",
    }
    places = np.arange(size)
    strip: list[tuple[str, Any, Array]] = []
    if image.colors:
        strip = [("", list(image.colors), places)]
    elif image.codes is not None:
        strip = [
            (name, color, places[chosen])
            for name, color, chosen in _by_category(image.codes, image.categories)
        ]
    data: list[Spec] = [heat]
    for name, color, here in strip:
        marker = {"symbol": "square", "size": 6, "color": color}
        x, y = here.tolist(), [size + 1] * len(here)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": x,
                "y": y,
                "marker": marker,
                "hoverinfo": "skip",
            }
        )
    # The ticks are hidden, but their texts name the samples when the pointer is over them.
    ticks = {
        "tickmode": "array",
        "tickvals": places.tolist(),
        "ticktext": [_plain(sample) for sample in image.samples],
    }
    hidden = {
        "showticklabels": False,
        "ticks": "",
        "showgrid": False,
        "zeroline": False,
        "automargin": False,
        "constrain": "domain",
    }
    down = {"range": [size + (2 if strip else -0.5), -0.5], "scaleanchor": "x"}
    axes = {"xaxis": hidden | ticks | {"range": [-0.5, size - 0.5]}, "yaxis": hidden | ticks | down}
    below = 48 if image.codes is not None else 8
    layout = {
        "height": 332 + below,
        "margin": {"l": 8, "r": 8, "t": 12, "b": below},
        "showlegend": image.codes is not None,
        "legend": _LEGEND | {"y": -0.02, "title": {"text": _plain(image.column)}},
    }
    return {"data": data, "layout": axes | layout}


def _by_category(codes: Array, names: Sequence[str]) -> list[tuple[str, str, Array]]:
    """Name, color and samples of each category that occurs. What is beyond the colors that can
    be told apart is one category, in gray.
    """
    most = max(len(names), int(codes.max(initial=0)) + 1)
    own = most if most <= len(LABEL_COLORS) else len(LABEL_COLORS) - 1
    found = [
        (_plain(category(code, names)), LABEL_COLORS[code], codes == code)
        for code in range(own)
        if (codes == code).any()
    ]
    if (codes >= own).any():
        found.append((f"{most - own} others", _GRAY, codes >= own))
    return found


def _grouped(embedding: Embedding, points: Array, codes: Array, names: Sequence[str]) -> Figure:
    """One color and one entry of the legend for each category."""
    data = [
        _dots(
            points[chosen],
            name=name,
            marker={"size": 5, "opacity": 0.75, "color": color},
            hovertemplate="%{fullData.name}<extra></extra>",
        )
        for name, color, chosen in _by_category(codes, names)
    ]
    return {
        "data": data,
        "layout": _plane_layout(embedding) | {"showlegend": True, "legend": _LEGEND},
    }


def _plane_layout(embedding: Embedding) -> Spec:
    bare = {
        "showticklabels": False,
        "ticks": "",
        "showgrid": False,
        "zeroline": False,
        "automargin": False,
    }
    first, second = (f"{100 * share:.0f} % of the variance" for share in embedding.explained)
    return {
        "height": 440,
        "margin": {
            "l": 36,
            "r": 12,
            "t": 12,
            "b": 92,
        },  # room for the legend, so that panels side by side have the same size
        "hovermode": "closest",
        "xaxis": bare | {"title": {"text": first}},
        "yaxis": bare | {"title": {"text": second}},
    }


def _dots(points: Array, **more: object) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": _rounded(points[:, 0]),
        "y": _rounded(points[:, 1]),
        **more,
    }


def _some(embedding: Embedding, runs: int) -> Array:
    """Which samples to show: fewer for each run if there are many runs, so that the page stays
    small.
    """
    size, most = len(embedding.points), max(200, _POINTS // max(1, runs))
    return np.linspace(0, size - 1, min(size, most)).round().astype(int)


def _bars(found: Estimate, factor: float) -> Spec:
    above, below = factor * (found.high - found.value), factor * (found.value - found.low)
    return {
        "type": "data",
        "symmetric": False,
        "array": [max(0.0, above)],
        "arrayminus": [max(0.0, below)],
        "thickness": 1.2,
        "width": 4,
    }


def _thin(
    lines: Sequence[Mapping[str, object]], key: str, most: int
) -> tuple[list[float], list[float]]:
    """Steps and values of one quantity; means over neighboring steps if there are too many to draw."""
    pairs = [
        (_number(line.get("step", place)), _number(line.get(key)))
        for place, line in enumerate(lines)
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
    """Four figures: more cannot be seen, and every one of them is carried by the page."""
    return [float(f"{value:.4g}") for value in np.asarray(values, dtype=np.float64).tolist()]


def _plain(text: str) -> str:
    """Plotly reads a little HTML and %{...} in its texts: take their marks away."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("%{", "% {")
