"""Removing a condition from features: a penalty for training; `cclk.LinearEraser` after it."""

from cclk.removal.penalty import LeakagePenalty

__all__ = ["LeakagePenalty"]
