"""The experiments of the paper: grids of runs, their results, and the published numbers."""

from cclk.errors import ResultError
from cclk.experiments.grid import pending, reproduce
from cclk.experiments.plan import SIZES, Cell, Claim, Experiment, Plan, Size
from cclk.experiments.pool import Pool
from cclk.experiments.registry import EXPERIMENTS, experiment
from cclk.experiments.results import CellResult, ExperimentResult, RunResult

__all__ = [
    "EXPERIMENTS", "SIZES", "Cell", "CellResult", "Claim", "Experiment", "ExperimentResult",
    "Plan", "Pool", "ResultError", "RunResult", "Size", "experiment", "pending", "reproduce",
]  # fmt: skip
