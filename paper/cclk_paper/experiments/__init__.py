"""Experiments of the paper and benchmarks: grids of runs, their results, published numbers."""

from cclk.errors import ResultError
from cclk_paper.experiments.grid import pending, reproduce
from cclk_paper.experiments.plan import SIZES, Cell, Claim, Experiment, Frontier, Plan, Size
from cclk_paper.experiments.pool import Pool
from cclk_paper.experiments.registry import BENCHES, EXPERIMENTS, experiment
from cclk_paper.experiments.results import CellResult, ExperimentResult, RunResult

__all__ = [
    "BENCHES", "EXPERIMENTS", "SIZES", "Cell", "CellResult", "Claim", "Experiment",
    "ExperimentResult", "Frontier", "Plan", "Pool", "ResultError", "RunResult", "Size",
    "experiment", "pending", "reproduce",
]  # fmt: skip
