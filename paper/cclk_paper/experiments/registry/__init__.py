"""The experiments of the paper and the benchmarks, one module each."""

from __future__ import annotations

import importlib

from cclk.errors import SettingsError
from cclk_paper.experiments.plan import Experiment

EXPERIMENTS = (
    "weaksup", "weaksup-recipe", "weaksup-kernels", "weaksup-bandwidth", "insufficient",
    "fair", "fair-panel", "fair-kernels", "fair-clusters", "fair-recipe", "fair-long",
    "removal-recipe",
    "hardneg", "hardneg-recipe", "hardneg-kernels", "weights",
)  # fmt: skip
"""The names of the experiments of the paper."""
BENCHES = ("removal",)
"""The names of the benchmarks, which compare methods of this package with others."""


def experiment(name: str) -> Experiment:
    """Return an experiment or a benchmark by its name."""
    if name not in EXPERIMENTS + BENCHES:
        raise SettingsError(f"unknown experiment {name!r}: choose all, {', '.join(EXPERIMENTS)}")
    module = "weights_figure" if name == "weights" else name.replace("-", "_")
    named: Experiment = importlib.import_module(f"{__name__}.{module}").EXPERIMENT
    return named
