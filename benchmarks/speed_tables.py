"""Tables of time and memory, for `benchmarks.tables`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import processes
from benchmarks.common import read_result


def loss_speed() -> str:
    """Time of each loss and solver as a ratio to InfoNCE by a dense `cross_entropy`, width 16."""
    result = read_result("benchmark-loss")
    rows: list[dict[str, Any]] = [row for row in result["times"] if row["width"] == 16]
    sizes = sorted({row["size"] for row in rows})
    lines = [
        "| forward + backward, condition width 16 | "
        + " | ".join(f"b = {size:,}" for size in sizes)
        + " |"
    ]
    lines.append("|---" * (len(sizes) + 1) + "|")
    for way in dict.fromkeys(row["way"] for row in rows):
        cells = {row["size"]: row for row in rows if row["way"] == way}
        shown = [_cell(cells.get(size), first=way == "plain InfoNCE") for size in sizes]
        name = "InfoNCE by `cross_entropy`, dense" if way == "plain InfoNCE" else way
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    large = next(row for row in result["largest"] if row["way"] == "FairCCLK features, cosine")
    growth = next(
        row
        for row in result["growth"]
        if (row["way"], row["width"]) == ("FairCCLK features, cosine", 16)
    )
    lines += [
        "",
        (
            f"At b = {large['size']:,}, `FairCCLK` (features) took"
            f" {large['milliseconds'] / 1000:.1f} s and {large['peak_mib']:.0f} MiB above its"
            f" inputs. From b = 1,024 to {sizes[-1]:,} its time grew as b^{growth['exponent']},"
            f" over the last doubling as b^{growth['last_exponent']}. `{result['command']}`, cclk"
            f" {result['version']}, torch {result['torch']}, {result['cores']} cores, d ="
            f" {result['settings']['dimension']}."
        ),
    ]
    return "\n".join(lines)


def loss_pairs() -> str:
    """Time of the default loss on narrow conditions as a ratio to InfoNCE by a dense
    `cross_entropy`.
    """
    result = read_result("benchmark-loss")
    ways = ("FairCCLK, RBF auto", "FairCCLK, Delta, b/16 groups")
    rows = {(row["way"], row["width"], row["size"]): row for row in result["times"]}
    sizes = sorted({size for _, _, size in rows})
    heads = " | ".join(f"b = {size:,}" for size in sizes)
    lines = [f"| forward + backward | condition width | {heads} |", "|---" * (len(sizes) + 2) + "|"]
    for way, width in ((ways[0], 1), (ways[0], 3), (ways[1], 1)):
        shown = [_cell(rows.get((way, width, size)), first=False) for size in sizes]
        lines.append(f"| {way} | {width} | " + " | ".join(shown) + " |")
    large = next(row for row in result["largest"] if row["way"] == ways[0])
    text = (
        f"At b = {large['size']:,} and width {large['width']}, `FairCCLK` took"
        f" {large['milliseconds'] / 1000:.1f} s and {large['peak_mib']:.0f} MiB above its inputs."
    )
    return "\n".join([*lines, "", f"{text} {_source(result)}"])


def _cell(row: dict[str, Any] | None, first: bool) -> str:
    if row is None:
        return ""
    return f"{row['milliseconds']:.1f} ms" if first else f"{row['ratio_to_plain']:.2f}"


def step() -> str:
    """The cost of a training step relative to the network alone."""
    result = read_result("benchmark-step")
    heads = (
        "| network, batch of 256 | forward + backward | InfoNCE step | Fair-CCLK step | Fair-CCLK /"
        " InfoNCE |"
    )
    lines = [heads, "|---" * 5 + "|"]
    for row in result["steps"]:
        lines.append(
            f"| {row['encoder']} | {row['bare_milliseconds']:,.0f} ms |"
            f" {row['infonce_step_to_bare']:.2f} | {row['fair_step_to_bare']:.2f} |"
            f" {row['fair_step_to_infonce_step']:.2f} |"
        )
    what = (
        "Time of a full step (load, augment, forward, loss, backward, update) relative to forward"
        " and backward passes of the network on tensors in memory. Differences of a few percent are"
        " noise."
    )
    first = result["steps"][0]
    parts = ", ".join(
        f"{name} {milliseconds:.1f} ms"
        for name, milliseconds in first["fair_parts_milliseconds"].items()
    )
    what += f" Parts of the Fair-CCLK step of {first['encoder']}, medians over steps: {parts}."
    return "\n".join(
        [
            *lines,
            "",
            f"{what} `{result['command']}`, cclk {result['version']}, {result['cores']} cores.",
        ]
    )


def manifest() -> str:
    """The cost of streaming the images of a large table, in a sentence."""
    result = read_result("benchmark-manifest")
    cached, decoding = result["streamed_to_in_memory"], result["decoding_to_in_memory"]
    return (
        f"Training from a table of {result['rows']:,} rows ({result['images']} distinct images)"
        f" takes {result['above_idle_mib']:,} MiB more than a process that has only imported torch."
        f" A LeNet-5 step takes {cached:.2f} times as long as with all images in memory, and"
        f" {decoding:.1f} times as long while images are still being decoded (first epoch)."
        f" `{result['command']}`, {result['cores']} cores, cclk {result['version']}."
    )


def cost_model() -> str:
    """The cost of a step of the loss on several processes, by the cost model."""
    heads = ("processes", "joined batch", "received", "computed", "stored")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for count, size in ((1, 256), (8, 2048), (64, 16384), (1024, 65536)):
        each = processes.cost(size, processes.DIMENSION, processes.COLUMNS, count)
        lines.append(
            f"| {count:,} | {size:,} | {each.received / 1e6:,.1f} MB |"
            f" {each.computed / 1e9:,.2f} GFLOP | {each.stored / 1e6:,.1f} MB |"
        )
    text = f"Computed for d = {processes.DIMENSION} and k = {processes.COLUMNS}."
    return "\n".join([*lines, "", text])


def several_processes() -> str:
    """Curves and traffic of training on several processes."""
    result = read_result("benchmark-processes")
    columns = list(dict.fromkeys(row["processes"] for row in result["curves"]))
    heads = [each if each == processes.CONTROL else f"{each} processes" for each in columns]
    lines = [f"| method | {' | '.join(heads)} |", "|---" * (len(columns) + 1) + "|"]
    curves = {(row["method"], row["processes"]): row for row in result["curves"]}
    measured = {row["method"] for row in result["curves"]}
    for method in (each for each in processes.VARIANTS if each in measured):
        shown = (f"{max(curves[method, each]['largest_differences']):.0e}" for each in columns)
        lines.append(f"| {method} | {' | '.join(shown)} |")
    text = (
        f"Largest relative difference of the loss of any of {processes.STEPS} steps from that of"
        f" one process with one thread, in float64 and batches of {processes.SMALL_BATCH}: of the"
        " seed where it is largest. The first column is what rounding alone does. In float32, as"
        " in the last row, rounding errors of any origin grow while the network learns."
        " Bytes received in a step of the loss, and by the cost model: "
        + "; ".join(
            f"{row['bytes']:,.0f} and {row['cost_model']:,.0f} on {row['processes']} processes"
            for row in result["traffic"]
        )
        + "."
    )
    return "\n".join([*lines, "", f"{text} {_source(result)}"])


def chunks() -> str:
    """The memory of a large batch in chunks, in a sentence."""
    result = read_result("benchmark-chunks")
    mib = result["mib"]
    return (
        f"A batch of {result['size']:,} in chunks of {result['chunk']} (ResNet-18, images of"
        f" {result['pixels']} pixels) takes {mib['chunks']:,.0f} MiB,"
        f" {result['memory_ratio']:.2f} of a plain step with a batch of {result['chunk']}, which"
        f" embeds both views at once; the full batch at once takes {mib['full']:,.0f} MiB. The"
        f" relative difference of the gradients is {result['relative_difference']:.0e}."
        f" {_source(result)}"
    )


def _source(result: dict[str, Any]) -> str:
    return f"`{result['command']}`, cclk {result['version']}, {result['cores']} cores."


TABLES: dict[str, Callable[[], str]] = {
    "chunks": chunks,
    "cost-model": cost_model,
    "loss-pairs": loss_pairs,
    "loss-speed": loss_speed,
    "manifest": manifest,
    "processes": several_processes,
    "step": step,
}
