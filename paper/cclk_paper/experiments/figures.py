"""Figures of results as SVG files: curves, accuracy against leakage, kernels and weights."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cclk_paper._files import replace_file
from cclk_paper.experiments.frontier import LEAKAGE
from cclk_paper.experiments.measure import TITLES, Measure, leakage_of
from cclk_paper.experiments.plan import Frontier
from cclk_paper.experiments.results import CellResult, ExperimentResult

Key = TypeVar("Key", bound=Hashable)

# Distinguishable for the color-blind (Okabe and Ito).
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
_MANY = 4  # columns with one figure each; more of them share one
_STYLE: Any = {
    "svg.hashsalt": "cclk",  # the same result has the same file
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
}


def draw(result: ExperimentResult, folder: Path) -> list[Path]:
    """Write the figures of a result as NAME.svg, NAME-N.svg or NAME-COLUMN.svg; none for a table.

    Args:
        result: of an experiment.
        folder: of the figures; it is created if necessary.
    """
    path = folder / f"{result.experiment}.svg"
    if result.figure:
        panels = result.figure.panels
        return [_save(path, (10.5, 3.0), partial(_weights, panels=panels), len(panels))]
    if result.frontier:
        return _frontiers(result, result.frontier, path)
    leakage = leakage_of(result.measures)
    if leakage and len(result.columns) > _MANY:
        studies = [replace(cell, row=cell.column) for cell in result.cells if cell.runs]
        plot = partial(tradeoff, cells=studies, title=result.title, measure=leakage, line="")
        return [_save(path, (7.0, 4.4), plot)]
    plots: list[Callable[[Any], None]] = []
    for column, planned in result.columns.items():
        cells = [cell for cell in planned if cell.runs]
        if cells and result.axis:
            plots.append(partial(_curves, cells=cells, title=column, result=result))
        elif any(run.curve for cell in cells for run in cell.runs):
            plots.append(partial(_progress, cells=cells, title=column))
        elif cells and leakage:
            plots.append(partial(tradeoff, cells=cells, title=column, measure=leakage))
    if len(plots) == 1:
        return [_save(path, (5.6, 3.8), plots[0])]
    return [
        _save(path.with_stem(f"{path.stem}-{number}"), (5.6, 3.8), plot)
        for number, plot in enumerate(plots, 1)
    ]


def tradeoff(
    axes: Any,
    cells: Sequence[CellResult],
    title: str,
    measure: Measure = "nonlinear_r2",
    line: str = "-",
    utility: Measure = "accuracy",
) -> None:
    """Plot utility against leakage; each row is a line, Pareto-optimal points are ringed."""
    points: dict[tuple[str, int], tuple[float, float]] = {}
    for number, (row, row_cells) in enumerate(_by_row(cells)):
        leakage = [statistics.mean(cell.values(measure)) for cell in row_cells]
        accuracy = [statistics.mean(cell.values(utility)) for cell in row_cells]
        style = {"color": _color(number), "markersize": 5, "linewidth": 1, "alpha": 0.9}
        marker = "osD"[number // len(_COLORS) % 3]
        axes.plot(leakage, accuracy, marker + line, label=row, **style)
        for index, (cell, *point) in enumerate(zip(row_cells, leakage, accuracy, strict=True)):
            points[row, index] = (point[0], point[1])
            if cell.x is not None:
                offset = {"textcoords": "offset points", "xytext": (4, 4)}
                axes.annotate(f"{cell.x:g}", point, fontsize=6, **offset)
    best = zip(*(points[key] for key in pareto_optimal(points)), strict=True)
    ring = {"markersize": 10, "fillstyle": "none", "color": "black"}
    axes.plot(*best, "o", label="Pareto-optimal", **ring)
    x_title = f"{TITLES[measure]} (lower is better)"
    axes.set(xlabel=x_title, ylabel=TITLES[utility], title=title)
    axes.legend(fontsize=7)


def _frontiers(result: ExperimentResult, frontier: Frontier, path: Path) -> list[Path]:
    """A figure for each column of a frontier: all strengths of all rows, on validation."""
    paths = []
    for column, planned in result.columns.items():
        cells = [
            replace(cell, runs=cell.tuning)
            for cell in planned
            if cell.tuning and cell.row not in frontier.labeled
        ]
        if cells:
            plot = partial(
                tradeoff,
                cells=cells,
                title=f"{column}, validation split, one seed",
                measure=LEAKAGE,
                utility=frontier.utility[column],
            )
            paths.append(_save(path.with_stem(f"{path.stem}-{column}"), (7.0, 4.4), plot))
    return paths


def _curves(axes: Any, cells: Sequence[CellResult], title: str, result: ExperimentResult) -> None:
    for number, (row, row_cells) in enumerate(_by_row(cells)):
        row_cells.sort(key=lambda cell: cell.x or 0.0)
        values = [cell.values(result.measures[0]) for cell in row_cells]
        std = [statistics.stdev(some) if len(some) > 1 else 0.0 for some in values]
        means, x = [statistics.mean(some) for some in values], [cell.x for cell in row_cells]
        style = {"fmt": "o-", "color": _color(number), "capsize": 3, "markersize": 4}
        axes.errorbar(x, means, yerr=std, label=row, **style)
    axes.set(xscale="log", xlabel=result.axis, ylabel=TITLES[result.measures[0]], title=title)
    axes.legend(fontsize=8)


def _progress(axes: Any, cells: Sequence[CellResult], title: str) -> None:
    for number, cell in enumerate(cells):
        curves = [run.curve for run in cell.runs if run.curve]
        epochs = [point.epoch for point in curves[0]]
        for name, label, marker in (("accuracy", "linear", "o-"), ("knn", "kNN", "s:")):
            means = [
                100 * statistics.mean(getattr(curve[index], name) for curve in curves)
                for index in range(len(epochs))
            ]
            style = {"color": _color(number), "markersize": 3, "linewidth": 1}
            axes.plot(epochs, means, marker, label=f"{cell.row}, {label}", **style)
    axes.set(xlabel="epoch", ylabel="validation accuracy, %", title=title)
    axes.legend(fontsize=7)


def _weights(axes: Sequence[Any], panels: Mapping[str, list[list[float]]]) -> None:
    for axis, (name, panel) in zip(axes, panels.items(), strict=True):
        largest = max(abs(value) for row in panel for value in row)
        axis.imshow(panel, cmap="RdBu_r", vmin=-largest, vmax=largest)
        axis.set(title=name, xticks=[], yticks=[])


def _by_row(cells: Sequence[CellResult]) -> Iterator[tuple[str, list[CellResult]]]:
    for row in dict.fromkeys(cell.row for cell in cells):
        yield row, [cell for cell in cells if cell.row == row]


def _color(number: int) -> str:
    return _COLORS[number % len(_COLORS)]


def _save(
    path: Path, size: tuple[float, float], draw: Callable[[Any], None], panels: int = 1
) -> Path:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(size, layout="constrained")
        draw(figure.subplots(1, panels))
        replace_file(path, lambda file: figure.savefig(file, format="svg", metadata={"Date": None}))
    return path


def pareto_optimal(points: Mapping[Key, tuple[float, float]]) -> list[Key]:
    """Return the keys of the points that no other point beats in both, by increasing leakage.

    Args:
        points: key -> (leakage, accuracy).

    >>> pareto_optimal({"a": (0.9, 80.0), "b": (0.2, 95.0), "c": (0.1, 90.0)})
    ['c', 'b']
    """
    kept = [
        key
        for key, (leakage, accuracy) in points.items()
        if not any(
            other[0] <= leakage and other[1] >= accuracy and other != (leakage, accuracy)
            for other in points.values()
        )
    ]
    return sorted(kept, key=lambda key: points[key])
