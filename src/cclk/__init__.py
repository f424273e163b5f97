"""Conditional contrastive learning with kernels: tell a representation what to use, what to ignore, what to find hard."""

from cclk import functional, kernels
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
]
