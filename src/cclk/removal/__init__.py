"""Removing a condition from features: a penalty for training, and a linear eraser after it."""

from cclk.removal.eraser import LinearEraser, append_eraser
from cclk.removal.penalty import LeakagePenalty, leakage_penalty

__all__ = ["LeakagePenalty", "LinearEraser", "append_eraser", "leakage_penalty"]
