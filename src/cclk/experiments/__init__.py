"""Experiments of the paper and benchmarks: grids of runs, their results, published numbers."""

from cclk.errors import ResultError
from cclk.experiments.grid import pending, reproduce
from cclk.experiments.plan import SIZES, Cell, Claim, Experiment, Frontier, Plan, Size
from cclk.experiments.pool import Pool
from cclk.experiments.registry import BENCHES, EXPERIMENTS, experiment
from cclk.experiments.results import CellResult, ExperimentResult, RunResult

__all__ = [
    "BENCHES", "EXPERIMENTS", "SIZES", "Cell", "CellResult", "Claim", "Experiment",
    "ExperimentResult", "Frontier", "Plan", "Pool", "ResultError", "RunResult", "Size",
    "experiment", "pending", "reproduce",
]  # fmt: skip
