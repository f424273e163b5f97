"""Table and figure of the Adult example, from its committed results."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import matplotlib
from cclk_paper.experiments.figures import pareto_optimal

from benchmarks.common import ROOT

RESULT = ROOT / "results" / "example-adult.json"
NAMES = {
    "inputs": "raw inputs",
    "CorrelationRemover": "CorrelationRemover, alpha {}",
    "contrastive": "contrastive, width {}",
    "fair": "fair, width {}",
}
STYLES = {
    "inputs": ("#666666", "s"),
    "CorrelationRemover": ("#d55e00", "^"),
    "contrastive": ("#e69f00", "o"),
    "fair": ("#0072b2", "o"),
}
COLUMNS = {
    "accuracy": ("income, %", 100, 1),
    "auc": ("income AUC", 1, 3),
    "linear_r2": ("age R², linear", 1, 2),
    "nonlinear_r2": ("age R², nonlinear", 1, 2),
    "linear_mse": ("age MSE, linear", 1, 0),
    "nonlinear_mse": ("age MSE, nonlinear", 1, 0),
    "demographic_parity": ("parity difference", 1, 2),
    "equalized_odds": ("odds difference", 1, 2),
}
"""Key of a measure -> its title, factor and digits in the table."""


def table(path: Path = RESULT) -> str:
    """Income accuracy, age leakage and fairness of every method, and the Pareto-optimal ones."""
    result = json.loads(path.read_text())
    lines = [
        "| Adult, test split | " + " | ".join(name for name, _, _ in COLUMNS.values()) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    means: dict[str, dict[str, float]] = {}
    for row in result["rows"]:
        name = NAMES[row["method"]].format(row["knob"])
        means[name] = {
            key: statistics.mean(run[key] for run in row["runs"]) for key in row["runs"][0]
        }
        cells = [
            _mean([factor * run[key] for run in row["runs"]], digits)
            for key, (_, factor, digits) in COLUMNS.items()
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    optimal = {}
    for probe in ("nonlinear", "linear"):
        points = {name: (mean[f"{probe}_r2"], mean["accuracy"]) for name, mean in means.items()}
        optimal[probe] = "; ".join(pareto_optimal(points))
    base, seeds = means[NAMES["inputs"]], len(result["rows"][0]["runs"])
    selected = {row["method"]: row["choice"] for row in result["choices"] if row["selected"]}
    choices = "; ".join(
        f"{method} " + ", ".join(f"{key} {value:g}" for key, value in choice.items())
        for method, choice in selected.items()
    )
    return "\n".join(
        [
            *lines,
            "",
            (
                f"Mean ± standard deviation of {seeds} seed{'s' if seeds > 1 else ''}. Predicting"
                f" the mean age has an MSE of {base['baseline_mse']:.0f}; always predicting the"
                f" lower income is right for {100 * base['majority']:.1f} %. Selected on held-out"
                f" training rows, from the same {len(result['choices']) // len(selected)} settings:"
                f" {choices}. `{result['command']}`, cclk {result['version']},"
                f" {result['seconds'] / 60:.0f} minutes."
            ),
            "",
            "Pareto-optimal in income accuracy and age R²:",
            "",
            f"- nonlinear probe: {optimal['nonlinear']};",
            f"- linear probe: {optimal['linear']}.",
        ]
    )


def _mean(values: list[float], digits: int) -> str:
    text = f"{statistics.mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.{digits}f}"
    return text.replace("-0.00", "0.00")


def figure(source: Path = RESULT, folder: Path = ROOT / "docs" / "figures") -> Path:
    """Income accuracy against age R², by the nonlinear and the linear probe."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = json.loads(source.read_text())["rows"]
    labels = {
        "inputs": "inputs, raw",
        "CorrelationRemover": "CorrelationRemover, by alpha",
        "contrastive": "contrastive, by width",
        "fair": "fair, by width",
    }
    style: Any = {
        "svg.hashsalt": "cclk",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 9,
    }
    with matplotlib.rc_context(style):
        drawn, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
        for axis, probe in zip(axes, ("nonlinear", "linear"), strict=True):
            points = {}
            for method, (color, marker) in STYLES.items():
                method_rows = [row for row in rows if row["method"] == method]
                leakage, leakage_std = _statistics(method_rows, f"{probe}_r2", 1)
                accuracy, accuracy_std = _statistics(method_rows, "accuracy", 100)
                line: Any = {"marker": marker, "color": color, "linewidth": 1, "markersize": 5}
                line |= {"label": labels[method], "elinewidth": 0.7}
                axis.errorbar(leakage, accuracy, accuracy_std, leakage_std, **line)
                for row, x, y in zip(method_rows, leakage, accuracy, strict=True):
                    points[method, row["knob"]] = (x, y)
                    text = "" if row["knob"] is None else f"{row['knob']:g}"
                    offset: Any = {"textcoords": "offset points", "xytext": (4, 4)}
                    axis.annotate(text, (x, y), fontsize=7, color=color, **offset)
            best = zip(*(points[name] for name in pareto_optimal(points)), strict=True)
            ring: Any = {"markersize": 11, "fillstyle": "none", "color": "black"}
            axis.plot(*best, "o", label="Pareto-optimal", **ring)
            axis.set(xlabel=f"age R², {probe} probe (lower is better)")
        axes[0].set(ylabel="income accuracy, %")
        axes[1].legend(fontsize=8)
        path = folder / "example-adult.svg"
        drawn.savefig(path, metadata={"Date": None})
        plt.close(drawn)
    return path


def _statistics(
    rows: list[dict[str, Any]], key: str, factor: float
) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation over the runs of each row."""
    values = [[run[key] for run in row["runs"]] for row in rows]
    std = [factor * statistics.stdev(some) if len(some) > 1 else 0.0 for some in values]
    return [factor * statistics.mean(some) for some in values], std
