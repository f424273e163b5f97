"""Tables of the documentation, written from committed results: `python -m benchmarks.tables [--check]`.

A table stands between `<!-- table NAME -->` and `<!-- end -->`; this command replaces what is there, and with --check only tells
whether it is what the results say.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import adult
from cclk.experiments.measure import Measure
from cclk.experiments.tables import told, values

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/adult.md", "docs/pictures.md")


def loss_speed() -> str:
    """Time of each loss and solver as a ratio to plain InfoNCE, width 16."""
    result = json.loads((ROOT / "results" / "benchmark-loss.json").read_text())
    rows: list[dict[str, Any]] = [row for row in result["times"] if row["width"] == 16]
    sizes = sorted({row["size"] for row in rows})
    lines = ["| forward + backward, condition width 16 | " + " | ".join(f"b = {size:,}" for size in sizes) + " |"]
    lines.append("|---" * (len(sizes) + 1) + "|")
    for way in dict.fromkeys(row["way"] for row in rows):
        cells = {row["size"]: row for row in rows if row["way"] == way}
        shown = [_cell(cells.get(size), first=way == "plain InfoNCE") for size in sizes]
        lines.append(f"| {way} | " + " | ".join(shown) + " |")
    large = next(row for row in result["largest"] if row["way"] == "FairCCLK features, cosine")
    growth = next(row for row in result["growth"] if (row["way"], row["width"]) == ("FairCCLK features, cosine", 16))
    lines += [
        "",
        f"At b = {large['size']:,}, `FairCCLK` (features) took {large['milliseconds'] / 1000:.1f} s and {large['peak_mib']:.0f} MiB "
        f"above its inputs. From b = 1,024 to {sizes[-1]:,} its time grew as b^{growth['exponent']}, "
        f"over the last doubling as b^{growth['last_exponent']}. "
        f"`{result['command']}`, cclk {result['version']}, torch {result['torch']}, {result['cores']} cores, "
        f"d = {result['settings']['dimension']}.",
    ]
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None, first: bool) -> str:
    if row is None:
        return ""
    return f"{row['milliseconds']:.1f} ms" if first else f"{row['ratio_to_plain']:.2f}"


def demo() -> str:
    """Digit accuracy and colour leakage of the encoders of the demo, mean and spread over seeds."""
    result = json.loads((ROOT / "results" / "demo-digits.json").read_text())
    names = {"untrained": "no training", "digits-infonce": "InfoNCE", "digits-fair": "Fair-CCLK, told to ignore the colour"}
    columns = ("accuracy.linear", "accuracy.knn", "leakage.linear.r2", "leakage.nonlinear.r2")
    lines = ["| encoder, test split | digit, linear probe | digit, kNN | colour R², linear | colour R², non-linear |", "|---" * 5 + "|"]
    for preset, evaluations in result["evaluations"].items():
        cells = []
        for column in columns:
            values = [_look(evaluation["encoder"], column) for evaluation in evaluations]
            percent, digits = (100, 1) if column.startswith("accuracy") else (1, 2)
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            cells.append(f"{percent * statistics.mean(values):.{digits}f} ± {percent * spread:.{digits}f}{' %' if percent == 100 else ''}")
        lines.append(f"| {names[preset]} | " + " | ".join(cells) + " |")
    seeds = len(result["evaluations"]["digits-fair"])
    lines += [
        "",
        f"Mean ± standard deviation of {seeds} seeds; same network, data and budget. `{result['command']}`, cclk {result['version']}.",
    ]
    return "\n".join(lines)


def _look(tree: dict[str, Any], path: str) -> float:
    for key in path.split("."):
        tree = tree[key]
    return float(tree["value"])


def step() -> str:
    """What a training step costs beside the network."""
    result = json.loads((ROOT / "results" / "benchmark-step.json").read_text())
    heads = "| network, batch of 256 | bare forward + backward | InfoNCE step | Fair-CCLK step | Fair / InfoNCE |"
    lines = [heads, "|---" * 5 + "|"]
    for row in result["steps"]:
        lines.append(
            f"| {row['encoder']} | {row['bare_milliseconds']:,.0f} ms | {row['infonce_step_to_bare']:.2f} "
            f"| {row['fair_step_to_bare']:.2f} | {row['fair_step_to_infonce_step']:.2f} |"
        )
    what = (
        "A whole step (load, augment, forward, loss, backward, update) as a ratio to the bare network on ready tensors. "
        "Differences of a few per cent are noise."
    )
    return "\n".join([*lines, "", f"{what} `{result['command']}`, cclk {result['version']}, {result['cores']} cores."])


def colormnist() -> str:
    """No training, InfoNCE, the best cluster baseline and Fair-CCLK on ColorMNIST at the paper's budget."""
    result = json.loads((ROOT / "results" / "fair.json").read_text())
    cells = [cell for cell in result["cells"] if cell["runs"] and cell["column"] == "our recipe"]
    clusters = [cell for cell in cells if cell["row"].startswith("Fair-InfoNCE")]
    best = max(clusters, key=lambda cell: statistics.mean(values(cell, "accuracy")))
    longer = json.loads((ROOT / "results" / "fair-long.json").read_text())["cells"][-1]
    measures: tuple[Measure, ...] = ("accuracy", "linear_r2", "nonlinear_r2")
    lines = ["| ColorMNIST, test split | digit, % | colour R², linear | colour R², non-linear |", "|---" * 4 + "|"]
    for cell in [*cells, longer]:
        if cell not in clusters or cell is best:
            name = f"Fair-CCLK, {cell['row']}" if cell is longer else cell["row"]
            name += f" (the best of {len(clusters)})" if cell is best else ""
            lines.append(f"| {name} | " + " | ".join(told(values(cell, measure), measure) for measure in measures) + " |")
    first, *others = [cell["choices"] for cell in cells if cell["choices"]]
    if any(choices != first for choices in others):
        raise ValueError("results/fair.json: methods did not choose among the same settings, but the table says that they did")
    how = (
        f"LeNet-5, 1,175 steps of 256; {len(cells[0]['runs'])} seeds; each method chose among the same {len(first)} settings on held-out "
        'digits; Fair-CCLK with `weights="nw"` and batches of like colours (`--sampler local`)'
    )
    return "\n".join([*lines, "", f"{how}. `{result['command']}`, cclk {result['version']}; [all results](docs/results.md)."])


def rotated_fashion() -> str:
    """Garment accuracy and what is left of the angle, of the two encoders of the example on pictures."""
    result = json.loads((ROOT / "results" / "example-rotated-fashion.json").read_text())
    names = {"infonce": "InfoNCE", "fair-cclk": "Fair-CCLK, told to ignore the angle"}
    columns = ("accuracy.linear", "leakage.linear.r2", "leakage.nonlinear.r2", "leakage.linear.mse", "leakage.nonlinear.mse")
    heads = "| encoder, test split | garment, % | angle R², linear | angle R², non-linear | angle MSE, linear | angle MSE, non-linear |"
    lines = [heads, "|---" * 6 + "|"]
    for method, told_of in result["methods"].items():
        cells = []
        for column in columns:
            found = [_look(evaluation["encoder"], column) for evaluation in told_of["evaluations"]]
            factor, digits = (100, 1) if column.startswith("accuracy") else (1, 2 if column.endswith("r2") else 0)
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            cells.append(f"{factor * statistics.mean(found):,.{digits}f} ± {factor * spread:.{digits}f}")
        lines.append(f"| {names[method]} | " + " | ".join(cells) + " |")
    plain = _look(result["methods"]["infonce"]["evaluations"][0]["encoder"], "leakage.baseline_mse")
    settings = result["settings"]
    how = f"Predicting the mean angle has an MSE of {plain:,.0f}. Mean ± standard deviation of {len(result['seeds'])} seeds; "
    how += f"{settings['rows']:,} pictures, LeNet-5, {settings['steps']} steps of {settings['batch-size']}"
    return "\n".join([*lines, "", f"{how}. `{result['command']}`, cclk {result['version']}."])


def manifest() -> str:
    """What streaming a large table of pictures costs, in a sentence."""
    result = json.loads((ROOT / "results" / "benchmark-manifest.json").read_text())
    held, looked = result["streamed_to_in_memory"], result["decoding_to_in_memory"]
    return (
        f"Training from a table of {result['rows']:,} rows ({result['pictures']} distinct pictures) takes {result['above_idle_mib']:,} MiB "
        "more than a process that has only imported torch. "
        f"A LeNet-5 step takes {held:.2f} times as long as with all pictures in memory, and {looked:.1f} times while every picture still "
        "has to be decoded (first epoch, every file met once). "
        f"`{result['command']}`, {result['cores']} cores, cclk {result['version']}."
    )


TABLES: dict[str, Callable[[], str]] = {
    "loss-speed": loss_speed,
    "demo": demo,
    "step": step,
    "colormnist": colormnist,
    "rotated-fashion": rotated_fashion,
    "adult": adult.table,
    "manifest": manifest,
}


def render(text: str) -> str:
    """The page with every table made anew."""

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
        sys.exit(f"tables are not what the results say in {', '.join(stale)}: run python -m benchmarks.tables")


if __name__ == "__main__":
    main()
