"""Where `cclk` starts: `--version` and a missing extra are answered before anything that takes long is imported."""

from __future__ import annotations

import importlib.util
import os
import sys

from cclk import __version__, extras

NEEDED = ("cyclopts", "pydantic", "rich")


def main() -> int:
    """The command line, if what it needs is installed."""
    if sys.argv[1:] == ["--version"]:
        print(__version__)
        return 0
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"cclk: {extras.missing('the command line', ', '.join(missing), 'report')}", file=sys.stderr)
        return 2
    wait_passively()
    from cclk.cli.main import main as run

    return run()


def wait_passively() -> None:
    """Let the threads of OpenMP sleep while they wait for each other, instead of spinning.

    On a busy machine a thread that spins takes the core from the one it waits for. Read when torch is imported, so it has to be
    set before; what the user has set holds.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
