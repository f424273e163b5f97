"""Evaluation: what a representation tells of the label, and what it leaks of the condition."""

from cclk.evaluation.evaluate import Evaluation, Kind, evaluate
from cclk.evaluation.samples import Samples

__all__ = ["Evaluation", "Kind", "Samples", "evaluate"]
