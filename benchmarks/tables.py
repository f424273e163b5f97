"""Tables of the documentation, written from committed results: `python -m benchmarks.tables [--check]`.

A table stands between `<!-- table NAME -->` and `<!-- end -->`; this command replaces what is there, and with --check only tells
whether it is what the results say.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = ("README.md",)


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
    growth = {row["way"]: row["exponent"] for row in result["growth"] if row["width"] == 16}
    lines += [
        "",
        f"At b = {large['size']:,}, `FairCCLK` (features) took {large['milliseconds'] / 1000:.1f} s and {large['peak_mib']:.0f} MiB "
        f"above its inputs. From b = {sizes[-2]:,} to {sizes[-1]:,} its time grew as b^{growth['FairCCLK features, cosine']}. "
        f"`{result['command']}`, cclk {result['version']}, torch {result['torch']}, {result['cores']} cores, "
        f"d = {result['settings']['dimension']}.",
    ]
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None, first: bool) -> str:
    if row is None:
        return ""
    return f"{row['milliseconds']:.1f} ms" if first else f"{row['ratio_to_plain']:.2f}"


TABLES: dict[str, Callable[[], str]] = {"loss-speed": loss_speed}


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
