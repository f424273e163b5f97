"""Removing a condition from features: a penalty for training, and a linear eraser after it."""

from cclk.removal.eraser import LinearEraser, append_eraser
from cclk.removal.penalty import LeakagePenalty

__all__ = ["LeakagePenalty", "LinearEraser", "append_eraser"]
