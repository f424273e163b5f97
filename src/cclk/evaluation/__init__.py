"""Evaluation: accuracy on the label and leakage of the condition, by probes of a representation."""

from cclk.evaluation.evaluate import Kind, evaluate
from cclk.evaluation.feature_splits import Samples
from cclk.evaluation.scores import (
    Accuracy,
    Estimate,
    Evaluation,
    FeatureScores,
    Leakage,
    read_evaluation,
    write_evaluation,
)
from cclk.evaluation.tradeoff import pareto_optimal

__all__ = [
    "Accuracy", "Estimate", "Evaluation", "FeatureScores", "Kind", "Leakage", "Samples",
    "evaluate", "pareto_optimal", "read_evaluation", "write_evaluation",
]  # fmt: skip
