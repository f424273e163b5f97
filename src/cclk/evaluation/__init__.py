"""Evaluation: accuracy on the label and leakage of the condition, by probes of a representation."""

from cclk.evaluation.estimate import Estimate
from cclk.evaluation.evaluate import evaluate, linear_auc
from cclk.evaluation.feature_splits import Samples
from cclk.evaluation.leakage_card import ColumnLeakage, Leakage, card, leakage
from cclk.evaluation.scores import (
    Accuracy,
    Evaluation,
    FeatureScores,
    read_evaluation,
    write_evaluation,
)
from cclk.evaluation.tradeoff import pareto_optimal
from cclk.evaluation.two_probes import two_probes

__all__ = [
    "Accuracy", "ColumnLeakage", "Estimate", "Evaluation", "FeatureScores",
    "Leakage", "Samples", "card", "evaluate", "leakage", "linear_auc",
    "pareto_optimal", "read_evaluation", "two_probes", "write_evaluation",
]  # fmt: skip
