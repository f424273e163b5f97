"""Behavior under faults: `python -m benchmarks.faults [--scale smoke] [--json FILE]`.

Runs `cclk` commands in a temporary folder and disturbs them: SIGKILL at random instants and before
each file operation, signals, full and read-only disks, damaged and foreign files, second writers,
pickles and import paths that would run code, and a long run. Each try is counted by what happened;
none may lose data, and none may end with other results and no message. Full size: half an hour on
one core; the file is written after each fault.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.progress import Progress

from benchmarks.common import write_result
from benchmarks.faults import damage, disks, hostile, kills, other_commands, soak
from benchmarks.faults.bench import CONSOLE, SCALES, Bench, Scale
from benchmarks.faults.rows import Row

FAULTS: dict[str, Callable[[Bench], None]] = {
    "kill": kills.random_kills,
    "points": kills.crash_points,
    "signals": kills.signals,
    "ranks": kills.ranks,
    "disks": disks.disks,
    "checkpoints": damage.checkpoints,
    "files": damage.files,
    "data": hostile.data,
    "writers": hostile.writers,
    "pickles": hostile.pickles,
    "trust": hostile.trust,
    "modules": hostile.modules,
    "commands": other_commands.commands,
    "experiments": other_commands.experiments,
    "soak": soak.soak,
}


def run(
    scale: Scale,
    seed: int,
    names: Iterable[str] = FAULTS,
    *,
    quiet: bool = False,
    keep: Callable[[str, Sequence[Row], Sequence[str]], None] = lambda *_: None,
) -> list[Row]:
    """Try faults, and return what happened.

    Args:
        scale: How often each fault is tried.
        seed: Of the instants and places of faults.
        names: The faults.
        quiet: Whether to show no progress.
        keep: Receives the name of a fault, its rows and what could not be tried, after each fault.
    """
    with (
        tempfile.TemporaryDirectory(prefix="cclk-faults-", ignore_cleanup_errors=True) as path,
        Progress(console=CONSOLE, disable=quiet) as progress,
    ):
        bench = Bench(Path(path).resolve(), scale, progress)
        for name in names:
            rows, notes = len(bench.rows), len(bench.notes)
            bench.random.seed(f"{seed} {name}")
            FAULTS[name](bench)
            keep(name, bench.rows[rows:], bench.notes[notes:])
    return bench.rows


def _relative(text: str) -> str:
    """The text without the folders of this machine."""
    return re.sub(r"(/[\w.+-]+)+/(cclk-faults-\w+/|site-packages/|bin/|lib/)", "", text)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scale", choices=SCALES, default="full", help="how often (default: %(default)s)"
    )
    parser.add_argument(
        "--only", choices=FAULTS, nargs="+", help="try these faults; the others stay in the file"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all faults (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    before = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    parts: dict[str, object] = before.get("faults", {})

    def keep(name: str, rows: Sequence[Row], notes: Sequence[str]) -> None:
        for row in rows:
            ends = "; ".join(f"{count} x {outcome}" for outcome, count in row.outcomes.items())
            figures = "".join(f"; {what}: {value:g}" for what, value in row.measured.items())
            print(f"{row.group}: {row.fault}: {ends}{figures}", flush=True)
            for event in row.events:
                print(f"    !!! {event}", flush=True)
        parts[name] = {
            "scale": options.scale,
            "seed": options.seed,
            "rows": [asdict(row) | {"events": [*map(_relative, row.events)]} for row in rows],
            "notes": list(notes),
        }
        ordered = {name: parts[name] for name in FAULTS if name in parts}
        # All of them, whether at once or one by one.
        command = f"python -m benchmarks.faults --json {options.json}"
        scales = {name: asdict(scale) for name, scale in SCALES.items()}
        result = {"command": command, "scales": scales, "faults": ordered}
        write_result(options.json, "faults", result)

    rows = run(SCALES[options.scale], options.seed, options.only or FAULTS, keep=keep)
    return int(any(row.lost or row.undetected or row.unexpected for row in rows))


if __name__ == "__main__":
    sys.exit(main())
