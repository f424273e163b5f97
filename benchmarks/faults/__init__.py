"""Behavior under faults: `python -m benchmarks.faults`; see `benchmarks.faults.__main__`."""
