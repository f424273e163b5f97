"""The tables of the page on faults, from the committed results."""

from __future__ import annotations

from typing import Any

from benchmarks.common import read_result
from benchmarks.faults.__main__ import FAULTS


def _rows(result: Any) -> list[dict[str, Any]]:
    return [row for part in result["faults"].values() for row in part["rows"] if row["tried"]]


def faults() -> str:
    """Each fault: how often it was tried, what happened, data lost and damage not detected."""
    result = read_result("faults")
    lines = ["| what | fault | tried | what happened | data lost | undetected |", "|---" * 6 + "|"]
    rows = _rows(result)
    for row in rows:
        ends = "; ".join(
            text if count == row["tried"] else f"{text} ({count})"
            for text, count in row["outcomes"].items()
        )
        shown = [
            f"{name}: at most {value:g}"
            for name, value in row["measured"].items()
            if name.startswith("seconds")
        ]
        if row["unexpected"]:
            shown.append(f"**not as documented: {row['unexpected']}**")
        cells = [row["group"], row["fault"], row["tried"], "; ".join([ends, *shown])]
        cells += [row["lost"], row["undetected"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    total = {name: sum(row[name] for row in rows) for name in ("tried", "lost", "undetected")}
    missing = [name for name in FAULTS if name not in result["faults"]]
    short = [name for name, part in result["faults"].items() if part["scale"] != "full"]
    lines += [
        "",
        (
            f"{total['tried']:,} tries, {total['lost']} with data lost, {total['undetected']} with"
            f" undetected damage. `{result['command']}`, {result['cores']} cores, cclk"
            f" {result['version']}{'; ' + result['note'] if 'note' in result else ''}."
        ),
        *([f"\nIn the short form only (`--scale smoke`): {', '.join(short)}."] if short else []),
        *([f"\nNot tried yet: {', '.join(missing)}."] if missing else []),
        *(f"\nNot tried: {note}." for part in result["faults"].values() for note in part["notes"]),
    ]
    return "\n".join(lines)


def fuzz() -> str:
    """Each reader and each loss: mutated files and extreme inputs, and how they ended."""
    lines = ["| what | cases | accepted | refused in one line | findings |", "|---" * 5 + "|"]
    commands = []
    for name in ("fuzz-readers", "fuzz-losses"):
        result = read_result(name)
        note = f" ({result['note']})" if "note" in result else ""
        commands.append(f"`{result['command']}`{note}")
        for target, row in result["targets"].items():
            findings = sum(row[kind] for kind in ("foreign", "silent", "slow", "unclear", "crash"))
            cells = [row["cases"], row["accepted"], row["refused"], findings]
            lines.append(f"| {target} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    return "\n".join([*lines, "", f"{' and '.join(commands)}, cclk {result['version']}."])


def soak() -> str:
    """Memory, threads, file handles and step time, early and late in a long training."""
    result = read_result("faults")
    rows = result["faults"].get("soak", {"rows": []})["rows"]
    if not rows:
        return "Not measured."
    row = rows[0]
    early = {
        name.removesuffix(", early"): value
        for name, value in row["measured"].items()
        if name.endswith(", early")
    }
    lines = [f"| {row['fault']} | second tenth | last tenth |", "|---" * 3 + "|"]
    for name, value in early.items():
        lines.append(f"| {name} | {value:g} | {row['measured'][f'{name}, late']:g} |")
    return "\n".join(lines)
