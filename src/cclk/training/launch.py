"""The processes of a run, started by torchrun or by lightning-fabric."""

from __future__ import annotations

import logging
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from cclk._extras import needed_for
from cclk.errors import RunError, SettingsError
from cclk.training._process import exit_with_parent, without_new_variables
from cclk.training.settings import Settings

_ADDRESS = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
_LAUNCHER = "CCLK_LAUNCHER"
"""Environment variable with the id of the process that started the others."""
_PATIENCE = 5.0
"""Seconds in which the processes of a run end after its first one."""
_LOST = re.compile("gloo|NCCL|Connection|connection|Broken pipe|Socket|TCPStore")


def launch(settings: Settings) -> Any:
    """Start the processes of a run and return its `lightning_fabric.Fabric`.

    Processes that torchrun or SLURM started are used; otherwise as many as `train.devices` are
    started, of `train.nodes` times as many.
    """
    with needed_for("training"), without_new_variables():
        from lightning_fabric import Fabric
        from lightning_fabric.strategies.ddp import DDPStrategy
    devices = int(os.environ.get("LOCAL_WORLD_SIZE", settings.train.devices))
    world = devices * settings.train.nodes
    if "LOCAL_WORLD_SIZE" in os.environ:
        world = int(os.environ.get("WORLD_SIZE", devices))
    elif settings.train.nodes > 1 and not (
        "SLURM_NTASKS" in os.environ or all(name in os.environ for name in _ADDRESS)
    ):
        raise SettingsError(
            f"train.nodes is {settings.train.nodes}, but MASTER_ADDR, MASTER_PORT and NODE_RANK are"
            " not all set: set them on every machine, or start the command with torchrun or srun"
        )
    elif devices > 1:
        launcher = int(os.environ.setdefault(_LAUNCHER, str(os.getpid())))
        if launcher != os.getpid():
            exit_with_parent(launcher)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it announces its precision
    fabric = Fabric(
        # Apple's MPS has no float64, which the conditional operator needs.
        accelerator="cuda" if torch.cuda.is_available() else "cpu",
        devices=devices,
        num_nodes=max(1, world // devices),
        strategy=DDPStrategy(gradient_as_bucket_view=True) if world > 1 else "auto",
        precision="32-true" if settings.train.precision == "float32" else "bf16-mixed",
    )
    fabric.launch()
    if world > 1:  # of 1 x 1 convolutions, whose strides have several names
        warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
    return fabric


class Agreement:
    """What all processes of a run agree on, such as a signal that one of them received."""

    def __init__(self, fabric: Any) -> None:
        several = fabric.world_size > 1
        # Not over NCCL, where every step would wait for the GPU.
        self._group = distributed.new_group(backend="gloo") if several else None

    def largest(self, number: int) -> int:
        """The largest of the numbers of all processes, such as of signals; waits for all."""
        if self._group is None:
            return number
        value = torch.tensor(number)
        distributed.all_reduce(value, distributed.ReduceOp.MAX, group=self._group)
        return int(value)

    def mean(self, number: Tensor) -> float:
        """The mean of the numbers of all processes."""
        if self._group is None:
            return float(number)
        value = number.double().cpu()
        distributed.all_reduce(value, group=self._group)
        return float(value) / distributed.get_world_size()


@contextmanager
def joined(fabric: Any, folder: Path) -> Iterator[None]:
    """Report what ends a run once: other processes than the first wait, and end with it.

    A lost connection to another process is a `RunError` instead of an error of the network.
    """
    try:
        yield
    except BaseException as error:
        if os.environ.get(_LAUNCHER, str(os.getpid())) != str(os.getpid()):
            time.sleep(_PATIENCE)
        if (
            fabric.world_size > 1
            and isinstance(error, RuntimeError)
            and _LOST.search(f"{type(error).__name__} {error}")
        ):
            raise RunError(
                f"another process of the run in {folder} has ended: see its message, and resume"
                " the run"
            ) from error
        raise
