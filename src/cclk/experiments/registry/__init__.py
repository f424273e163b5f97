"""The registry: one small file per experiment."""

from __future__ import annotations

import importlib

from cclk.experiments.plan import Experiment

EXPERIMENTS = (
    "weaksup", "weaksup-kernels", "weaksup-bandwidth", "insufficient",
    "fair", "fair-kernels", "fair-clusters", "fair-recipe", "fair-long",
    "hardneg", "hardneg-kernels", "weights",
)  # fmt: skip
"""The names of the experiments."""


def experiment(name: str) -> Experiment:
    """An experiment by its name."""
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}: choose all, {', '.join(EXPERIMENTS)}")
    found: Experiment = importlib.import_module(
        f"cclk.experiments.registry.{name.replace('-', '_')}"
    ).EXPERIMENT
    return found
