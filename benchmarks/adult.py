"""The table and the figure of the example on Adult, from its committed results."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import matplotlib

from cclk.experiments.figures import frontier

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "results" / "example-adult.json"
NAMES = {
    "inputs": "raw inputs",
    "CorrelationRemover": "CorrelationRemover, alpha {}",
    "contrastive": "contrastive, width {}",
    "fair": "fair, width {}",
}
LOOKS = {
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
"""Of the table: what each is called, what it is multiplied by, its digits."""


def table(path: Path = RESULT) -> str:
    """Income accuracy, age leakage and fairness of every method on Adult, and the Pareto-optimal
    ones.
    """
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
            _spread([factor * run[key] for run in row["runs"]], digits)
            for key, (_, factor, digits) in COLUMNS.items()
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    unbeaten = {
        probe: "; ".join(
            frontier(
                {name: (found[f"{probe}_r2"], found["accuracy"]) for name, found in means.items()}
            )
        )
        for probe in ("nonlinear", "linear")
    }
    base, seeds = means[NAMES["inputs"]], len(result["rows"][0]["runs"])
    chosen = {row["method"]: row["choice"] for row in result["choices"] if row["chosen"]}
    choices = "; ".join(
        f"{method} " + ", ".join(f"{key} {value:g}" for key, value in choice.items())
        for method, choice in chosen.items()
    )
    return "\n".join(
        [
            *lines,
            "",
            (
                f"Mean ± standard deviation of {seeds} seed{'s' if seeds > 1 else ''}. Predicting"
                f" the mean age has an MSE of {base['baseline_mse']:.0f}; always predicting the"
                f" lower income is right for {100 * base['majority']:.1f} %. Selected on held-out"
                f" training rows, from the same {len(result['choices']) // len(chosen)} settings:"
                f" {choices}. `{result['command']}`, cclk {result['version']},"
                f" {result['seconds'] / 60:.0f} minutes."
            ),
            "",
            "Pareto-optimal in income accuracy and age R²:",
            "",
            f"- nonlinear probe: {unbeaten['nonlinear']};",
            f"- linear probe: {unbeaten['linear']}.",
        ]
    )


def _spread(found: list[float], digits: int) -> str:
    mean = f"{statistics.mean(found):.{digits}f}"
    return (f"{mean} ± {statistics.stdev(found):.{digits}f}" if len(found) > 1 else mean).replace(
        "-0.00", "0.00"
    )


def figure(source: Path = RESULT, folder: Path = ROOT / "docs" / "figures") -> Path:
    """Income accuracy against age R², by the nonlinear and the linear probe."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = json.loads(source.read_text())["rows"]
    knobs = {
        "inputs": "raw",
        "CorrelationRemover": "by alpha",
        "contrastive": "by width",
        "fair": "by width",
    }
    with matplotlib.rc_context(
        {
            "svg.hashsalt": "cclk",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 9,
        }
    ):
        drawn, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
        for axis, probe in zip(axes, ("nonlinear", "linear"), strict=True):
            points = {}
            for method, (color, marker) in LOOKS.items():
                here = [row for row in rows if row["method"] == method]
                found = [
                    [[run[key] for run in row["runs"]] for row in here]
                    for key in (f"{probe}_r2", "accuracy")
                ]
                leak, right = ([statistics.mean(values) for values in some] for some in found)
                wide, high = (
                    [statistics.stdev(values) if len(values) > 1 else 0.0 for values in some]
                    for some in found
                )
                right, high = [100 * value for value in right], [100 * value for value in high]
                label = f"{method}, {knobs[method]}"
                axis.errorbar(
                    leak,
                    right,
                    high,
                    wide,
                    marker=marker,
                    color=color,
                    label=label,
                    linewidth=1,
                    elinewidth=0.7,
                    markersize=5,
                )
                for row, *place in zip(here, leak, right, strict=True):
                    points[method, row["knob"]] = (place[0], place[1])
                    text = "" if row["knob"] is None else f"{row['knob']:g}"
                    axis.annotate(
                        text,
                        place,
                        textcoords="offset points",
                        xytext=(4, 4),
                        fontsize=7,
                        color=color,
                    )
            best = [points[name] for name in frontier(points)]
            axis.plot(
                *zip(*best, strict=True),
                "o",
                markersize=11,
                fillstyle="none",
                color="black",
                label="Pareto-optimal",
            )
            axis.set(xlabel=f"age R², {probe} probe (lower is better)")
        axes[0].set(ylabel="income accuracy, %")
        axes[1].legend(fontsize=8)
        path = folder / "example-adult.svg"
        drawn.savefig(path, metadata={"Date": None})
        plt.close(drawn)
    return path
