"""Write the tables of the documentation: `python -m benchmarks.tables [--check]`.

A table is the text between `<!-- table NAME -->` and `<!-- end -->` on any page, generated from
committed results. With --check, pages are compared and not written.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable

from cclk_paper.experiments import scoreboard
from cclk_paper.experiments.frontier_table import frontier_tables, summary
from cclk_paper.experiments.measure import TITLES, Measure, mean_and_deviation
from cclk_paper.experiments.registry.paper_claims import CLAIMS
from cclk_paper.experiments.registry.removal_recipe import BASE_ROW
from cclk_paper.experiments.results import CellResult, ExperimentResult, read
from cclk_paper.experiments.results_page import read_results

from benchmarks import adult, speed_tables
from benchmarks import panel as calibration
from benchmarks.common import RESULTS, ROOT, read_result
from benchmarks.faults import table
from cclk.evaluation import Evaluation
from cclk.training.resolve import REMOVAL

PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
]


def demo() -> str:
    """Digit accuracy and color leakage of the encoders of the demo, mean and standard deviation
    over seeds.
    """
    result = read_result("demo-digits")
    names = {
        "untrained": "untrained",
        "digits-infonce": "InfoNCE",
        "digits-fair": "Fair-CCLK + penalty",
    }
    columns = ("accuracy", "knn", "linear", "worst")
    lines = [
        (
            "| encoder, test split | digit, linear probe | digit, kNN | color R², linear probe |"
            f" color R², {_worst(result['evaluations']['digits-fair'])} |"
        ),
        "|---" * 5 + "|",
    ]
    for preset, evaluations in result["evaluations"].items():
        cells = [
            _mean(evaluations, column) + (" %" if column in ("accuracy", "knn") else "")
            for column in columns
        ]
        lines.append(f"| {names[preset]} | " + " | ".join(cells) + " |")
    seeds = len(result["evaluations"]["digits-fair"])
    lines += [
        "",
        (
            f"Mean ± standard deviation of {seeds} seeds; same network, data, budget and"
            " learning rates to select from."
            f" `{result['command']}`, cclk {result['version']}."
        ),
    ]
    return "\n".join(lines)


def encoder_score(evaluation: object, name: str) -> float:
    """Return the "accuracy", "knn", "linear" or "worst" R² of the encoder's evaluation."""
    scores = Evaluation.from_json(evaluation).encoder
    (leakage,) = scores.leakage.columns.values()
    score = {
        "accuracy": scores.accuracy.linear,
        "knn": scores.accuracy.knn,
        "linear": leakage.linear,
        "worst": leakage.worst,
    }[name]
    assert score is not None
    return score.value


def _worst(evaluations: list[object]) -> str:
    """The heading of the worst probe."""
    (leakage,) = Evaluation.from_json(evaluations[0]).leakage.columns.values()
    return f"worst of {len(leakage.by_probe)} probes"


def _mean(evaluations: list[object], name: str) -> str:
    """Mean ± standard deviation over seeds; accuracies in percent."""
    factor, digits = (100, 1) if name in ("accuracy", "knn") else (1, 2)
    values = [factor * encoder_score(evaluation, name) for evaluation in evaluations]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):,.{digits}f} ± {deviation:.{digits}f}"


def colormnist() -> str:
    """No training, InfoNCE, the best cluster baseline and Fair-CCLK on ColorMNIST at the paper's
    budget.
    """
    result = read(RESULTS / "fair.json")
    cells = [cell for cell in result.cells if cell.runs and cell.column == "our recipe"]
    clusters = [cell for cell in cells if cell.row.startswith("Fair-InfoNCE")]
    best = max(clusters, key=lambda cell: statistics.mean(cell.values("accuracy")))
    longer = read(RESULTS / "fair-long.json").cells[-1]
    measures: tuple[Measure, ...] = ("accuracy", "linear_r2", "nonlinear_r2")
    lines = [
        "| ColorMNIST, test split | digit, % | color R², linear | color R², nonlinear |",
        "|---" * 4 + "|",
    ]
    for cell in [*cells, longer]:
        if cell not in clusters or cell is best:
            name = f"Fair-CCLK, {cell.row}" if cell is longer else cell.row
            name += f" (best of {len(clusters)} cluster counts)" if cell is best else ""
            name = "untrained" if name == "no training" else name
            lines.append(
                f"| {name} | "
                + " | ".join(
                    mean_and_deviation(cell.values(measure), measure) for measure in measures
                )
                + " |"
            )
    first, *others = [cell.choices for cell in cells if cell.choices]
    if any(choices != first for choices in others):
        raise ValueError(
            "results/fair.json: methods were not tuned over the same settings, as the table states"
        )
    how = (
        f"LeNet-5, 1,175 steps of 256; mean ± standard deviation of {len(cells[0].runs)} seeds;"
        " each method was tuned over the same "
        f'{len(first)} settings on held-out digits; Fair-CCLK uses `weights="nw"` and batches of'
        " similar colors (`--sampler local`)"
    )
    return "\n".join([*lines, "", f"{how}. `{result.command}`, cclk {result.version}."])


def rotated_fashion() -> str:
    """Garment accuracy and angle leakage of the two encoders of the tutorial on images."""
    result = read_result("example-rotated-fashion")
    names = {"infonce": "InfoNCE", "fair-cclk": "Fair-CCLK, conditioned on the angle"}
    columns = ("accuracy", "linear", "worst")
    worst = _worst(result["methods"]["infonce"]["evaluations"])
    heads = f"| encoder, test split | garment, % | angle R², linear probe | angle R², {worst} |"
    lines = [heads, "|---" * 4 + "|"]
    for method, detail in result["methods"].items():
        lines.append(
            f"| {names[method]} | "
            + " | ".join(_mean(detail["evaluations"], column) for column in columns)
            + " |"
        )
    settings = result["settings"]
    how = f"Mean ± standard deviation of {len(result['seeds'])} seeds; "
    how += (
        f"{settings['rows']:,} images, LeNet-5, {settings['steps']} steps of"
        f" {settings['batch-size']}"
    )
    return "\n".join([*lines, "", f"{how}. `{result['command']}`, cclk {result['version']}."])


def panel() -> str:
    """What ridge and the worst of the panel read of planted leaks, and of penalized encoders."""
    result = read_result("panel")
    titles = {**calibration.CASES, **calibration.LIMITS, "none": "independent of the features"}
    rows = {(row["case"], row["nominal"]): row for row in result["planted"]}
    lines = [
        "| planted leak | attainable R² | linear | boosting | networks | worst | share |",
        "|---" * 7 + "|",
    ]
    for case, nominal in rows:
        row = rows[case, nominal]
        probes = row["probes"]
        name = titles[case] + (" (limit)" if case in calibration.LIMITS else "")
        networks = max(probes["network"], probes["components"])
        cells = (row["attainable"], probes["linear"], probes["boosting"], networks, row["worst"])
        share = f"{max(0.0, row['worst'] / row['attainable']):.0%}" if nominal else ""
        shown = (f"{round(cell, 2) + 0.0:.2f}" for cell in cells)
        lines.append(f"| {name} | " + " | ".join(shown) + f" | {share} |")
    lines += [
        "",
        "| encoder of rotated images | linear | `MLPRegressor` | `HistGradientBoosting` | worst |",
        "|---" * 5 + "|",
    ]
    for row in result["encoders"]:
        stock = row["scikit-learn"]
        cells = (row["probes"]["linear"], *stock.values(), row["worst"])
        lines.append(f"| {row['encoder']} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    train, validation, test = result["sizes"]
    seconds = max(row["seconds"] for row in (*result["planted"], *result["encoders"]))
    lines += [
        "",
        (
            f"{result['width']} features; {train:,} training, {validation:,} validation and"
            f" {test:,} test samples; one seed. The panel took at most {seconds:.0f} s of one"
            f" core. `{result['command']}`, cclk {result['version']}{result.get('note', '')}."
        ),
    ]
    return "\n".join(lines)


def removal() -> str:
    """The benchmark of removal: a table for each dataset."""
    result = read(RESULTS / "removal.json")
    assert result.frontier is not None
    how = f"`{result.command}`, cclk {result.version}, {result.process_seconds / 3600:.1f} hours"
    return "\n".join([*frontier_tables(result, result.frontier), f"{how} of one-thread processes."])


def removal_summary() -> str:
    """On how many datasets of the benchmark of removal this package is ahead, and on which not,
    and what that does not show.
    """
    result = read(RESULTS / "removal.json")
    assert result.frontier is not None
    cells = result.cells
    (shared,) = (cell for cell in cells if (cell.row, cell.column) == ("InfoNCE", "colormnist"))
    tuned = scoreboard.cell_of(read_results(RESULTS), "fair", "our recipe", "InfoNCE")
    assert tuned is not None
    noisy = {
        (cell.row, cell.column)
        for cell in cells
        if "feature_noise" in cell.settings and "penalty" in cell.settings
    }
    ((rival, dataset),) = noisy
    further = [cell for cell in cells if "penalty_rows" in cell.settings]
    assert {cell.row for cell in further} <= set(result.frontier.ours)
    sets = " and ".join(dict.fromkeys(cell.column for cell in further))
    return (
        f"{summary(result, result.frontier)} The comparison favors our methods: the best of our"
        " rows is selected on test; on colormnist all methods share a recipe that was made for"
        " Fair-CCLK, with which InfoNCE, which most"
        f" rivals build on, is left at {100 * shared.tuning[0].measures['accuracy']:.0f} %"
        " (validation; with [settings of its own](../results.md) it has"
        f" {statistics.mean(tuned.values('accuracy')):.0f} % on test); only our penalty has"
        f" further rows to read from (`penalty_rows`, on {sets}); and the penalties of rivals were"
        " run without the noise that one of our rows on tables has, but for"
        f" {rival.removesuffix(' + noise')} on {dataset}."
    )


def levels() -> str:
    """What the levels of the setting `remove` stand for."""
    names = ("leakage_penalty", "feature_width", "mask", "penalty_rows", "feature_noise")
    lines = ["| level | data | " + " | ".join(f"`{name}`" for name in names) + " |"]
    lines.append("|---" * (len(names) + 2) + "|")
    for level, kinds in REMOVAL.items():
        for data, values in zip(("images", "tables"), kinds, strict=True):
            cells = (f"{values[name]:g}" if name in values else "" for name in names)
            lines.append(f"| `{level}` | {data} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def removal_recipe() -> str:
    """Utility and leakage of every variant on every dataset, and what it gains on average."""
    result = read(RESULTS / "removal-recipe.json")
    points = {
        (cell.row, column): _point(cell)
        for column, cells in result.columns.items()
        for cell in cells
        if cell.runs
    }
    columns = [name for name in result.columns if (BASE_ROW, name) in points]
    heads = [f"{name}, {TITLES[_utility(result, name)]}" for name in columns]
    lines = ["| change | " + " | ".join(heads) + " | gain |", "|---" * (len(heads) + 2) + "|"]
    for row in dict.fromkeys(cell.row for cell in result.cells):
        measured = [name for name in columns if (row, name) in points]
        shown = ["{:.1f} / {:.2f}".format(*points[row, name]) for name in measured]
        by_column = dict(zip(measured, shown, strict=True))
        gains = [_worth(points[row, name]) - _worth(points[BASE_ROW, name]) for name in measured]
        gain = f"{statistics.mean(gains):+.1f}" if gains and row != BASE_ROW else ""
        cells = " | ".join(by_column.get(name, "") for name in columns)
        lines.append(f"| {row} | {cells} | {gain} |")
    note = f"{result.note[0].upper()}{result.note[1:]}. `{result.command}`, cclk {result.version}."
    return "\n".join([*lines, "", note])


def _utility(result: ExperimentResult, column: str) -> Measure:
    measured = [run.measures for cell in result.columns[column] for run in cell.runs]
    return "auc" if any("auc" in measures for measures in measured) else "accuracy"


def _point(cell: CellResult) -> tuple[float, float]:
    """Utility in percent, and leakage."""
    utility = cell.values("auc") or cell.values("accuracy")
    return statistics.mean(utility), max(0.0, statistics.mean(cell.values("worst_r2")))


def _worth(point: tuple[float, float]) -> float:
    """Utility minus leakage, both in percent: what experiments are selected by."""
    return point[0] - 100 * point[1]


def claims() -> str:
    """The claims of the paper, and what committed results say of them."""
    return scoreboard.table(CLAIMS, read_results(RESULTS))


TABLES: dict[str, Callable[[], str]] = {
    "claims": claims,
    "levels": levels,
    "demo": demo,
    "colormnist": colormnist,
    "rotated-fashion": rotated_fashion,
    "adult": adult.table,
    "panel": panel,
    "removal": removal,
    "removal-recipe": removal_recipe,
    "removal-summary": removal_summary,
    "faults": table.faults,
    "soak": table.soak,
    "fuzz": table.fuzz,
    **speed_tables.TABLES,
}


def render(text: str) -> str:
    """The page with every table replaced."""

    def replace(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", replace, text, flags=re.DOTALL)


def main() -> None:
    stale = []
    for name in PAGES:
        page = ROOT / name
        before = page.read_text()
        after = render(before)
        if after != before:
            stale.append(name)
            if "--check" not in sys.argv:
                page.write_text(after)
    if "--check" in sys.argv and stale:
        sys.exit(
            f"tables do not match the results in {', '.join(stale)}: run python -m"
            " benchmarks.tables"
        )


if __name__ == "__main__":
    main()
