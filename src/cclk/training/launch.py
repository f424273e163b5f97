"""The processes of a run, started by torchrun or by lightning-fabric."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from cclk._extras import needed_for
from cclk.training._process import without_new_variables
from cclk.training.settings import Settings


def launch(settings: Settings) -> Any:
    """Start the processes of a run and return its `lightning_fabric.Fabric`.

    Processes that torchrun started are used; otherwise as many as `train.devices` are started.
    """
    with needed_for("training"), without_new_variables():
        from lightning_fabric import Fabric
    devices = int(os.environ.get("LOCAL_WORLD_SIZE", settings.train.devices))
    world = devices
    if "LOCAL_WORLD_SIZE" in os.environ:
        world = int(os.environ.get("WORLD_SIZE", devices))
    with _quiet(logging.getLogger("lightning_fabric")):  # it announces its precision
        fabric = Fabric(
            # Apple's MPS has no float64, which the conditional operator needs.
            accelerator="cuda" if torch.cuda.is_available() else "cpu",
            devices=devices,
            num_nodes=max(1, world // devices),
            strategy="ddp" if world > 1 else "auto",
            precision="32-true" if settings.train.precision == "float32" else "bf16-mixed",
        )
        fabric.launch()
    return fabric


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Let a logger report warnings and errors only inside the block."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
