"""Evaluation: accuracy on the label and leakage of the condition, by probes of a representation."""

from cclk.evaluation.association import Association, association
from cclk.evaluation.evaluate import Kind, evaluate
from cclk.evaluation.feature_splits import Samples
from cclk.evaluation.leakage_card import ColumnLeakage, Leakage, card, leakage
from cclk.evaluation.scores import (
    Accuracy,
    Estimate,
    Evaluation,
    FeatureScores,
    TwoProbes,
    read_evaluation,
    write_evaluation,
)
from cclk.evaluation.tradeoff import pareto_optimal

__all__ = [
    "Accuracy", "Association", "ColumnLeakage", "Estimate", "Evaluation", "FeatureScores", "Kind",
    "Leakage", "Samples", "TwoProbes", "association", "card", "evaluate", "leakage",
    "pareto_optimal", "read_evaluation", "write_evaluation",
]  # fmt: skip
