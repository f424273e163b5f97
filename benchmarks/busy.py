"""Training beside other work: `python -m benchmarks.busy [--json FILE]`.

Images per second of the digits demo on a quiet machine and beside two busy loops, as torch starts
by default (threads spin while they wait) and as the command line starts it (threads that sleep
while they wait, and fewer threads where that is faster). The ways take turns; each figure is the
best of several rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from benchmarks.common import write_result

LOOPS = 2
_SPINNING = "import torch; from cclk.cli.main import main; import sys; sys.exit(main())"
WAYS: dict[str, list[str]] = {
    "torch's default": ["-c", _SPINNING, "train", "--threads", str(torch.get_num_threads())],
    "cclk": ["-m", "cclk", "train"],
    "cclk, one thread": ["-m", "cclk", "train", "--threads", "1"],
}


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Other processes that do nothing but compute."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def images_per_second(arguments: list[str], steps: int) -> float:
    """The speed over the second half of a short run."""
    unset = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        options = [
            "--preset",
            "digits-fair",
            "--steps",
            str(steps),
            "--log-every",
            "10",
            "--quiet",
            "--out",
            str(out),
        ]
        subprocess.run([sys.executable, *arguments, *options], check=True, env=environment)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    later = [line["samples_per_second"] for line in lines[len(lines) // 2 :]]
    return float(len(later) / sum(1 / speed for speed in later))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument(
        "--steps", type=int, default=100, help="steps of each run (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    rows = []
    for loops in (0, LOOPS):
        best = dict.fromkeys(WAYS, 0.0)
        with busy(loops):
            for _ in range(options.rounds):
                for name, arguments in WAYS.items():
                    best[name] = max(best[name], images_per_second(arguments, options.steps))
        rows.append(
            {
                "busy_loops": loops,
                "images_per_second": {name: round(speed) for name, speed in best.items()},
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    quiet, loaded = (row["images_per_second"]["cclk"] for row in rows)  # type: ignore[index]
    print(f"beside {LOOPS} busy loops: {loaded / quiet:.2f} of the quiet speed")
    result = {"busy_to_quiet": round(loaded / quiet, 3), "rows": rows}
    write_result(options.json, "busy", result)


if __name__ == "__main__":
    main()
