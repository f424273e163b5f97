"""Conditional contrastive learning with kernels: tell a representation what to use, what to ignore, what to find hard."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from cclk import functional, kernels
from cclk.extras import needed_for
from cclk.losses import (
    FairCCLK,
    FairInfoNCE,
    HardNegCCLK,
    HardNegInfoNCE,
    InfoNCE,
    WeaklySupCCLK,
    WeaklySupInfoNCE,
)
from cclk.notices import CclkWarning
from cclk.operator import Diagnosis, Nystrom, conditional_weights, diagnose

if TYPE_CHECKING:
    from cclk.training.trained import TrainedEncoder

__version__ = "0.1.0"

__all__ = [
    "CclkWarning",
    "Diagnosis",
    "FairCCLK",
    "FairInfoNCE",
    "HardNegCCLK",
    "HardNegInfoNCE",
    "InfoNCE",
    "Nystrom",
    "WeaklySupCCLK",
    "WeaklySupInfoNCE",
    "conditional_weights",
    "diagnose",
    "functional",
    "kernels",
    "load",
]


def __getattr__(name: str) -> Any:
    """The estimator needs scikit-learn, and is imported when it is asked for."""
    if name == "ConditionalEncoder":
        with needed_for("ConditionalEncoder"):
            return importlib.import_module("cclk.estimator").ConditionalEncoder
    raise AttributeError(f"module 'cclk' has no attribute {name!r}")


def load(run: str | os.PathLike[str]) -> TrainedEncoder:
    """The encoder of a finished run, in evaluation mode: uint8 images or vectors (n, ...) in, features (n, width) out.

    It has `width`, the `shape` of a sample, and needs neither the run's data nor its condition. Its method `embed` takes image paths,
    PIL images, arrays of any size and data frames, and returns a NumPy array (n, width).
    """
    # By name: the loss library does not know the training room, and is imported without what that needs.
    with needed_for("cclk.load"):
        trained = importlib.import_module("cclk.training.trained")
    encoder: TrainedEncoder = trained.load(run)
    return encoder
