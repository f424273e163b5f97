"""A short form of the benchmark of faults: nothing is lost, and no damage goes unnoticed."""

from __future__ import annotations

import pytest

from benchmarks.faults.__main__ import FAULTS, run
from benchmarks.faults.bench import SCALES

SHORT = ("points", "disks", "checkpoints", "files", "commands")
"""Faults that have few tests elsewhere."""


@pytest.mark.filterwarnings("default")
def test_faults_lose_nothing() -> None:
    assert set(SHORT) <= set(FAULTS)
    for row in run(SCALES["smoke"], seed=0, names=SHORT, quiet=True):
        assert not row.lost, f"{row.group}, {row.fault}: {row.events}"
        assert not row.undetected, f"{row.group}, {row.fault}: {row.events}"
