"""Images of results: curves over an axis, the plane of accuracy and leakage, kernels beside
weights. Each is an SVG file.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cclk.experiments.measure import WORDS
from cclk.experiments.results import CellResult, ExperimentResult
from cclk.extras import needed_for
from cclk.files import replace_file

_COLORS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#666666",
)  # told apart by the color-blind too (Okabe and Ito)
_MANY = 4
"""Columns that have a plane of their own; more of them share one."""


def draw(result: ExperimentResult, folder: Path) -> list[Path]:
    """The images of a result, as NAME.svg or NAME-N.svg; none for a plain table."""
    if result.figure:
        panels = result.figure.panels
        return [
            _save(
                folder / f"{result.experiment}.svg",
                (10.5, 3.0),
                len(panels),
                lambda axes: _weights(axes, panels),
            )
        ]
    if len(result.columns) > _MANY and "nonlinear_r2" in result.measures:
        studies = [replace(cell, row=cell.column) for cell in result.cells if cell.runs]
        return [
            _save(
                folder / f"{result.experiment}.svg",
                (7.0, 4.4),
                1,
                lambda axes: plane(axes[0], studies, result.title, line=""),
            )
        ]
    drawn: list[Callable[[Any], None]] = []
    for column, planned in result.columns.items():
        cells = [cell for cell in planned if cell.runs]
        if not cells:
            continue
        if result.axis:
            drawn.append(
                lambda axes, cells=cells, column=column: _curves(  # type: ignore[misc]
                    axes[0], cells, column, result
                )
            )
        elif any(run.curve for cell in cells for run in cell.runs):
            drawn.append(lambda axes, cells=cells, column=column: _progress(axes[0], cells, column))  # type: ignore[misc]
        elif "nonlinear_r2" in result.measures:
            drawn.append(lambda axes, cells=cells, column=column: plane(axes[0], cells, column))  # type: ignore[misc]
    names = [
        result.experiment if len(drawn) == 1 else f"{result.experiment}-{number + 1}"
        for number in range(len(drawn))
    ]
    return [
        _save(folder / f"{name}.svg", (5.6, 3.8), 1, plot)
        for name, plot in zip(names, drawn, strict=True)
    ]


def plane(axes: Any, cells: Sequence[CellResult], title: str, line: str = "-") -> None:
    """Accuracy against what is still readable of the condition; a method with several settings
    is a line, the frontier is ringed.
    """
    points: dict[tuple[str, int], tuple[float, float]] = {}
    for number, row in enumerate(dict.fromkeys(cell.row for cell in cells)):
        here = [cell for cell in cells if cell.row == row]
        leak = [statistics.mean(cell.values("nonlinear_r2")) for cell in here]
        right = [statistics.mean(cell.values("accuracy")) for cell in here]
        color = _COLORS[number % len(_COLORS)]
        mark = "osD"[number // len(_COLORS) % 3]
        axes.plot(
            leak, right, mark + line, color=color, label=row, markersize=5, linewidth=1, alpha=0.9
        )
        for place, cell in enumerate(here):
            if cell.x is not None:
                axes.annotate(
                    f"{cell.x:g}",
                    (leak[place], right[place]),
                    textcoords="offset points",
                    xytext=(4, 4),
                    fontsize=6,
                )
        points |= {(row, place): pair for place, pair in enumerate(zip(leak, right, strict=True))}
    best = [points[name] for name in frontier(points)]
    axes.plot(
        *zip(*best, strict=True),
        "o",
        markersize=10,
        fillstyle="none",
        color="black",
        label="not beaten on both",
    )
    axes.set(
        xlabel=f"{WORDS['nonlinear_r2']} (less is better)", ylabel=WORDS["accuracy"], title=title
    )
    axes.legend(fontsize=7)


def frontier(points: Mapping[Any, tuple[float, float]]) -> list[Any]:
    """The names of the (leak, accuracy) points that no other point beats on both.

    >>> frontier({"a": (0.9, 80.0), "b": (0.2, 95.0), "c": (0.1, 90.0)})
    ['c', 'b']
    """
    kept = [
        name
        for name, (leak, right) in points.items()
        if not any(
            other[0] <= leak and other[1] >= right and other != (leak, right)
            for other in points.values()
        )
    ]
    return sorted(kept, key=lambda name: points[name])


def _curves(axes: Any, cells: Sequence[CellResult], title: str, result: ExperimentResult) -> None:
    for number, row in enumerate(dict.fromkeys(cell.row for cell in cells)):
        here = sorted((cell for cell in cells if cell.row == row), key=lambda cell: cell.x or 0.0)
        found = [cell.values(result.measures[0]) for cell in here]
        spread = [statistics.stdev(some) if len(some) > 1 else 0.0 for some in found]
        means, x = [statistics.mean(some) for some in found], [cell.x for cell in here]
        axes.errorbar(
            x,
            means,
            yerr=spread,
            fmt="o-",
            color=_COLORS[number % len(_COLORS)],
            label=row,
            capsize=3,
            markersize=4,
        )
    axes.set(xscale="log", xlabel=result.axis, ylabel=WORDS[result.measures[0]], title=title)
    axes.legend(fontsize=8)


def _progress(axes: Any, cells: Sequence[CellResult], title: str) -> None:
    for number, cell in enumerate(cells):
        curves = [run.curve for run in cell.runs if run.curve]
        epochs = [point.epoch for point in curves[0]]
        for name, style in (("accuracy", "o-"), ("knn", "s:")):
            means = [
                100 * statistics.mean(getattr(curve[place], name) for curve in curves)
                for place in range(len(epochs))
            ]
            label = f"{cell.row}, {'linear' if name == 'accuracy' else 'kNN'}"
            axes.plot(
                epochs,
                means,
                style,
                color=_COLORS[number % len(_COLORS)],
                label=label,
                markersize=3,
                linewidth=1,
            )
    axes.set(xlabel="epoch", ylabel="validation accuracy, %", title=title)
    axes.legend(fontsize=7)


def _weights(axes: Sequence[Any], panels: Mapping[str, list[list[float]]]) -> None:
    for place, (name, panel) in zip(axes, panels.items(), strict=True):
        largest = max(abs(value) for row in panel for value in row)
        place.imshow(panel, cmap="RdBu_r", vmin=-largest, vmax=largest)
        place.set(title=name, xticks=[], yticks=[])


def _save(path: Path, size: tuple[float, float], panels: int, draw: Callable[[Any], None]) -> Path:
    with needed_for("drawing figures", "report"):
        import matplotlib
        from matplotlib.figure import Figure

    # The same result gives the same file: no date, no random names.
    with matplotlib.rc_context(
        {
            "svg.hashsalt": "cclk",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 9,
        }
    ):
        figure = Figure(size, layout="constrained")
        draw(figure.subplots(1, panels, squeeze=False)[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(
            path, lambda draft: figure.savefig(draft, format="svg", metadata={"Date": None})
        )
    return path
