"""Evaluation: what a representation tells of the label, and what it leaks of the condition."""

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

__all__ = [
    "Accuracy",
    "Estimate",
    "Evaluation",
    "FeatureScores",
    "Kind",
    "Leakage",
    "Samples",
    "evaluate",
    "read_evaluation",
    "write_evaluation",
]
