"""Entry point of `cclk`: answers `--version` and reports missing extras before slow imports."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path

from cclk import __version__, _extras

NEEDED = ("cyclopts", "pydantic", "rich")


def main() -> int:
    """Run the command line, if what it needs is installed."""
    if sys.argv[1:] == ["--version"]:
        print(__version__)
        return 0
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"cclk: {_extras.missing('the command line', ', '.join(missing), 'report')}",
            file=sys.stderr,
        )
        return 2
    if is_busy():
        wait_passively()
    from cclk.cli.main import main as run

    return run()


def is_busy(samples: int = 5) -> bool:
    """Whether other processes compete for the cores, by the number that run at a few moments."""
    try:
        running = []
        for _ in range(samples):
            time.sleep(0.01)
            status = Path("/proc/stat").read_text()
            this_process = 1
            running.append(int(status.partition("procs_running ")[2].split()[0]) - this_process)
        others = sorted(running)[samples // 2]
    except (OSError, ValueError, IndexError):  # not Linux
        others = round(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0
    return 2 * others >= (os.cpu_count() or 1)


def wait_passively() -> None:
    """Let the threads of OpenMP sleep while they wait for each other, instead of spinning.

    On a busy machine a thread that spins takes the core from the one it waits for; on a quiet
    machine spinning is faster. OpenMP reads this when torch is imported, so it has to be set
    before. Values that the user has set are kept.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
