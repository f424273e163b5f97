"""Memory of a process in which an encoder is fitted: `python -m benchmarks.guest [--json FILE]`.

A process allocates and frees 800 MB of its own arrays, of 3 MB and of 100 kB, fits a
`ConditionalEncoder`, and does the same again. Its resident memory is measured in between. A first
fit also imports libraries, whose code stays resident; it is reported apart.
"""

from __future__ import annotations

import argparse
import gc
import json
from pathlib import Path

import numpy as np

from benchmarks.common import write_result

LARGE, SMALL = 3 << 20, 100_000
"""Bytes of an array."""


def resident() -> float:
    """Resident memory of this process in MB (Linux)."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def use_and_free(megabytes: int) -> float:
    """Allocate arrays, half of the bytes in large and half in small ones, and free them.

    Returns:
        The resident memory before they are freed, in MB.
    """
    half = megabytes * 10**6 // 2
    arrays = [np.ones(size, np.uint8) for size in (LARGE, SMALL) for _ in range(half // size)]
    peak = resident()
    del arrays
    return peak


def measure(megabytes: int, steps: int) -> dict[str, float]:
    """Resident memory in MB around a fit.

    Args:
        megabytes: Memory of the process's own arrays.
        steps: Steps of the fit.
    """
    from cclk import ConditionalEncoder

    x = np.random.default_rng(0).normal(size=(2000, 20)).astype(np.float32)
    start = resident()
    ConditionalEncoder(steps=1).fit(x, sensitive_features=x[:, 0])
    imported = resident()
    peak = use_and_free(megabytes)
    before = resident()
    ConditionalEncoder(steps=steps).fit(x, sensitive_features=x[:, 0])
    after = resident()
    use_and_free(megabytes)
    figures = {
        "imports_of_first_fit": imported - start,
        "own_arrays": peak - imported,
        "before_fit": before,
        "after_fit": after,
        "after_own_arrays_again": resident(),
    }
    return {name: round(value, 1) for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--megabytes", type=int, default=800, help="of own arrays (default: %(default)s)"
    )
    parser.add_argument(
        "--steps", type=int, default=200, help="steps of the fit (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    figures = measure(options.megabytes, options.steps)
    print(json.dumps(figures, indent=1))
    write_result(options.json, "guest", {"resident_mb": figures})


if __name__ == "__main__":
    main()
