"""Conditional contrastive learning with kernels: representations that use or ignore a condition.

Names are imported on first use, so that `cclk --version` and `cclk train --help` do not import
torch.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from cclk._extras import needed_for

if TYPE_CHECKING:
    from cclk import condition as condition
    from cclk import kernels
    from cclk import losses as losses
    from cclk import removal as removal
    from cclk import weights as weights
    from cclk.errors import CclkWarning
    from cclk.estimator import ConditionalEncoder as ConditionalEncoder
    from cclk.evaluation import Leakage as Leakage
    from cclk.evaluation import leakage as leakage
    from cclk.losses import (
        FairCCLK,
        FairInfoNCE,
        HardNegCCLK,
        HardNegInfoNCE,
        InfoNCE,
        WeaklySupCCLK,
        WeaklySupInfoNCE,
        backward_in_chunks,
    )
    from cclk.removal import LeakagePenalty
    from cclk.removal.eraser import LinearEraser as LinearEraser
    from cclk.run import Run as Run
    from cclk.run import check as check
    from cclk.run import train as train
    from cclk.training.encoder import TrainedEncoder
    from cclk.weights import Diagnosis, Nystrom, conditional_weights, diagnose

__version__ = "0.1.0"

__all__ = [
    "CclkError",
    "CclkWarning",
    "Diagnosis",
    "FairCCLK",
    "FairInfoNCE",
    "HardNegCCLK",
    "HardNegInfoNCE",
    "InfoNCE",
    "LeakagePenalty",
    "Nystrom",
    "WeaklySupCCLK",
    "WeaklySupInfoNCE",
    "backward_in_chunks",
    "conditional_weights",
    "diagnose",
    "kernels",
    "load",
]

_HOMES = {
    "losses": (
        "FairCCLK",
        "FairInfoNCE",
        "HardNegCCLK",
        "HardNegInfoNCE",
        "InfoNCE",
        "WeaklySupCCLK",
        "WeaklySupInfoNCE",
        "backward_in_chunks",
    ),
    "weights": ("Diagnosis", "Nystrom", "conditional_weights", "diagnose"),
    "removal": ("LeakagePenalty",),
    "errors": ("CclkError", "CclkWarning"),
    # Not in __all__: these need more than torch and numpy.
    "estimator": ("ConditionalEncoder",),
    "removal.eraser": ("LinearEraser",),
    "evaluation": ("Leakage", "leakage"),
    "run": ("Run", "check", "train"),
}
"""The module of each public name."""
_MODULES = ("condition", "kernels", "losses", "weights", "removal")
"""Modules that `import cclk` makes available."""


def load(
    run: str | os.PathLike[str], *, trust_code: bool | Collection[str] = False
) -> TrainedEncoder:
    """Load the encoder of a finished run, in evaluation mode.

    It maps uint8 images or vectors (n, ...) to features (n, width), and needs neither the run's
    data nor its condition. Its method `embed` takes image paths, PIL images, arrays of any size and
    data frames, and returns a NumPy array (n, width).

    Args:
        run: The folder of the run.
        trust_code: The import paths that its settings may name, `package.module:thing`, or True for
            all.
    """
    # Imported by name, because the loss library must not depend on the training package.
    with needed_for("cclk.load"):
        trained = importlib.import_module("cclk.training.encoder")
    encoder: TrainedEncoder = trained.load(run, trust_code=trust_code)
    return encoder


if not TYPE_CHECKING:  # otherwise type checkers accept any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"cclk.{name}")
        for module, names in _HOMES.items():
            if name in names:
                with needed_for(name):
                    value = globals()[name] = getattr(
                        importlib.import_module(f"cclk.{module}"), name
                    )
                return value
        raise AttributeError(f"module 'cclk' has no attribute {name!r}")

    def __dir__() -> list[str]:
        public = {name for names in _HOMES.values() for name in names}
        return sorted({*globals(), *__all__, *_MODULES, *public})
