"""Training gives the numbers it gave when the committed results were made."""

from __future__ import annotations

from pathlib import Path

import pytest

import cclk

LOSSES = {
    "digits-fair": [5.311253, 5.151710],
    "digits-infonce": [4.007085, 3.119016],
}
"""The losses of the first two steps of each preset with seed 0, of version 0.1.0, which had no
penalty, and other settings of InfoNCE.
"""
OLD: dict[str, dict[str, object]] = {
    "digits-fair": {"leakage_penalty": 0},
    "digits-infonce": {"temperature": 0.1, "lr": 1e-3},
}


@pytest.mark.parametrize("preset", LOSSES)
def test_the_first_steps_of_a_preset(preset: str, tmp_path: Path) -> None:
    run = cclk.train(
        preset=preset,
        steps=2,
        overrides={"log_every": 1, **OLD[preset]},
        out=tmp_path / "run",
        quiet=True,
    )
    assert [line["loss"] for line in run.metrics()] == pytest.approx(LOSSES[preset], rel=1e-4)
