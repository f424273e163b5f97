"""Where `cclk` starts: says which extra is missing before anything that needs it is imported."""

from __future__ import annotations

import importlib.util
import sys

from cclk import extras

NEEDED = ("cyclopts", "pydantic", "rich")


def main() -> int:
    """The command line, if what it needs is installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"cclk: {extras.missing('the command line', ', '.join(missing), 'report')}", file=sys.stderr)
        return 2
    from cclk.cli.main import main as run

    return run()
