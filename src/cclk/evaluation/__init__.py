"""Evaluation: accuracy on the label and leakage of the condition, by probes of a representation."""

from cclk.evaluation.estimate import Estimate
from cclk.evaluation.evaluate import evaluate
from cclk.evaluation.leakage import ColumnLeakage, Leakage, card, leakage
from cclk.evaluation.samples import Samples
from cclk.evaluation.scores import (
    Accuracy,
    Evaluation,
    FeatureScores,
    read_evaluation,
    score_table,
    write_evaluation,
)

__all__ = [
    "Accuracy", "ColumnLeakage", "Estimate", "Evaluation", "FeatureScores",
    "Leakage", "Samples", "card", "evaluate", "leakage",
    "read_evaluation", "score_table", "write_evaluation",
]  # fmt: skip
