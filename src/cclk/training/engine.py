"""The training loop, on lightning-fabric: one process or many, and to be continued from any
checkpoint as if nothing had happened.

Every step is a function of the weights before it and of (seed, step): which rows, which
augmentation. So a checkpoint is weights, optimizer state and a step number, and a run that was
killed ends in the same weights, bit for bit on a CPU, as one that was not.
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import cclk
from cclk import augment
from cclk.condition import Condition
from cclk.data.dataset import Dataset
from cclk.data.fingerprint import fingerprint
from cclk.errors import Interrupted, RunError, warn
from cclk.extras import needed_for
from cclk.files import replace_text, write_tensors
from cclk.kernels import Kernel
from cclk.operator.diagnose import neighbors_of
from cclk.training import files, methods
from cclk.training.display import Display
from cclk.training.loading import Loader
from cclk.training.memory import keep_freed
from cclk.training.momentum import Momentum
from cclk.training.network import network_for
from cclk.training.optim import build_optimizer, learning_rate
from cclk.training.run import (
    CHECKPOINTS,
    ENCODER,
    METRICS,
    SETTINGS,
    TENSORBOARD,
    Run,
    load_dataset,
    read_metrics,
)
from cclk.training.settings import Settings
from cclk.training.signals import noted_signals
from cclk.training.threads import SAMPLES, best_threads, computing_with
from cclk.training.watch import Watch as Watch

KEPT = 2
"""How many checkpoints are kept."""


def train(
    settings: Settings,
    folder: Path,
    *,
    command: str = "",
    quiet: bool = False,
    watch: Watch | None = None,
) -> Run:
    """Train from the beginning into a new folder; a watch measures on the way."""
    fabric = _launch(settings)
    occupied, before = (folder / SETTINGS).exists(), files.Before.of(folder)
    fabric.barrier()  # everyone has looked before anyone writes
    if occupied:
        raise RunError(
            f"{folder} holds a run already: go on with --resume, or choose another --out"
        )
    training = None
    try:
        files.make_folder(folder / CHECKPOINTS)
        dataset = load_dataset(settings)
        settings, notice = methods.fitting_batch(settings, dataset)
        if notice and fabric.global_rank == 0:
            warn(notice)
        training = Training(settings, folder, quiet, fabric, watch, dataset)
        threads = settings.train.threads or training.best_threads()
        if fabric.global_rank == 0:
            about = {
                "version": cclk.__version__,
                "command": command,
                "data_fingerprint": fingerprint(dataset),
                "threads": threads,
            }
            files.write_json(folder / SETTINGS, settings.model_dump(mode="json") | about)
        fabric.barrier()
        with computing_with(threads):
            return training.run()
    except BaseException:
        if fabric.global_rank == 0 and (training is None or not training.begun):
            before.restore((SETTINGS, METRICS, TENSORBOARD, CHECKPOINTS))
        raise


def resume(folder: Path, *, quiet: bool = False, watch: Watch | None = None) -> Run:
    """Go on from the newest checkpoint of a folder, or from the beginning if there is none yet."""
    run = Run(folder)
    training = Training(run.settings, folder, quiet, _launch(run.settings), watch, run.dataset)
    with computing_with(run.about["threads"] or torch.get_num_threads()):
        return training.run()


def total_steps(settings: Settings, steps_per_epoch: int) -> int:
    """How many steps the run has; 1,175 of them, the paper's number on ColorMNIST, if nothing is
    said.
    """
    if settings.train.steps is not None:
        return settings.train.steps
    if settings.train.epochs is not None:
        return max(1, round(settings.train.epochs * steps_per_epoch))
    return 1175


class Training:
    """One run under way: what is built once, and `step`."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        quiet: bool,
        fabric: Any = None,
        watch: Watch | None = None,
        dataset: Dataset | None = None,
    ) -> None:
        keep_freed()
        self.settings, self.folder, self.watch = settings, folder, watch
        self.fabric = _launch(settings) if fabric is None else fabric
        self.dataset = load_dataset(settings) if dataset is None else dataset
        self.method = methods.build(settings, self.dataset)
        self.total = total_steps(settings, self.method.sampler.steps_per_epoch)
        shape = self.dataset.train.x.shape[1:]
        self.augmentation = augment.preset(
            settings.augment.augmentation,
            size=shape[-1],
            channels=shape[0],
            **settings.augment.augmentation_options,
        )
        network = network_for(settings, self.dataset)
        optim = settings.optim
        optimizer = build_optimizer(
            optim.optimizer,
            network,
            optim.lr,
            weight_decay=optim.weight_decay,
            momentum=optim.momentum,
        )
        self.plain_network = network
        self.momentum = (
            Momentum(network, self.method, settings, self.fabric.device)
            if settings.train.queue
            else None
        )
        self.network, self.optimizer = self.fabric.setup(network, optimizer)
        bounds = [
            settings.train.batch_size * rank // self.fabric.world_size
            for rank in range(self.fabric.world_size + 1)
        ]
        self.counts = [stop - start for start, stop in pairwise(bounds)]
        """How many rows of a batch each process has."""
        self.mine = slice(bounds[self.fabric.global_rank], bounds[self.fabric.global_rank + 1])
        self.loader = Loader(
            self.dataset.train.x,
            lambda step: self.method.sampler.batch(step)[self.mine],
            self.total,
        )
        self.display = Display(self.total, quiet or self.fabric.global_rank > 0)
        self.begun = False
        """Whether a step has been taken."""

    def run(self) -> Run:
        start = self._restore()
        writes = self.fabric.global_rank == 0
        with (
            noted_signals() as caught,
            closing(self.loader),
            self.display,
            Metrics(self.folder, start, writes) as metrics,
        ):
            self.display.begin(
                f"{self.settings.method} on {self.dataset.name}", start, self.dataset.description
            )
            clock = Clock(start)
            for step in range(start, self.total):
                loss = self.step(step)
                done, self.begun = step + 1, True
                watched = self.watch is not None and self.watch.due(done, self.total)
                if watched or done % self.settings.train.log_every == 0 or done == self.total:
                    line = self._line(done, float(loss), clock)
                    if watched:
                        line |= self._look(line)
                        clock.restart(done)
                    metrics.add(line)
                    self.display.show(line)
                if done % self.settings.train.checkpoint_every == 0 or done == self.total or caught:
                    metrics.flush()
                    self._save(done)
                if caught and done < self.total:
                    raise Interrupted(caught[0], done, self.folder)
        if writes:
            self._export()
        return Run(self.folder)

    def best_threads(self) -> int:
        """How many threads to train with; processes that share a machine have their share already."""
        if self.fabric.world_size > 1:
            return torch.get_num_threads()
        x = self.dataset.train.x[torch.arange(min(SAMPLES, len(self.dataset.train)))]
        if x.dtype != torch.uint8:
            x = self.plain_network.inputs(x)
        views = self.augmentation(x, _generator(self.settings.seed, 0, 0), first=0, of=len(x))
        return best_threads(self.plain_network, views.to(self.fabric.device))

    def step(self, step: int) -> Tensor:
        """One whole step: load, augment, forward, loss, backward, update. Returns the loss,
        detached.
        """
        settings, fabric = self.settings, self.fabric
        self.rows = rows = self.method.sampler.batch(step)
        x = self.loader.load(step).to(fabric.device)
        if (
            x.dtype != torch.uint8
            # augmentations of vectors are meant for standardized columns; those of images take bytes
        ):
            x = self.plain_network.inputs(x)
        views = torch.cat(
            [
                self.augmentation(
                    x, _generator(settings.seed, step, view), first=self.mine.start, of=len(rows)
                )
                for view in (0, 1)
            ]
        )
        projections = self.network(views)
        condition = (
            None
            if self.method.condition is None
            else self.method.condition.rows(rows[self.mine]).to(fabric.device)
        )
        if self.momentum is None:
            loss = self.method.loss(*projections.chunk(2), condition)
        else:
            loss = self.momentum.loss(projections, views, condition, rows, self.counts)
        rate = self._rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        fabric.backward(loss)
        self.optimizer.step()
        if self.momentum is not None:
            self.momentum.follow(self.plain_network)
        return loss.detach()  # type: ignore[no-any-return]

    def _rate(self, step: int) -> float:
        optim, train = self.settings.optim, self.settings.train
        warmup = round(optim.warmup * self.method.sampler.steps_per_epoch)
        return learning_rate(
            step,
            self.total,
            base_lr=optim.lr,
            batch_size=train.batch_size,
            warmup_steps=warmup,
            scale_by_batch=optim.scale_lr,
        )

    def _line(self, step: int, loss: float, clock: Clock) -> dict[str, Any]:
        line: dict[str, Any] = {
            "step": step,
            "epoch": round(step / self.method.sampler.steps_per_epoch, 4),
            "loss": loss,
            "lr": self._rate(step - 1),
            "images_per_second": round(clock.speed(step) * self.settings.train.batch_size, 1),
        }
        report = getattr(self.method.loss, "report", None)
        if report is not None:
            line["floored"] = float(report.floored)
        if self.method.kernel is not None and self.method.condition is not None:
            line["effective_neighbors"] = round(
                self._neighbors(self.method.kernel, self.method.condition), 2
            )
        return line

    def _neighbors(self, kernel: Kernel, condition: Condition) -> float:
        """How many neighbors the median anchor of the last step had in effect, in its batch and
        in the queue.
        """
        seen = self.rows if self.momentum is None else torch.cat([self.rows, self.momentum.used])
        chosen = self.settings.loss
        found = neighbors_of(
            kernel,
            condition.rows(seen),
            chosen.ridge,
            chosen.solver,
            weights=chosen.weights,
            anchors=len(self.rows),
        )
        return float(found.median())

    def _look(self, line: dict[str, Any]) -> dict[str, float]:
        """What the watch measures; one process looks for all, who meet again in the next step."""
        if self.watch is None or self.fabric.global_rank > 0:
            return {}
        found = self.watch.look(self.plain_network)
        for name in found.keys() & line.keys():
            raise ValueError(
                f"the watch measures {name!r}, which is in the metrics already: choose another name"
            )
        return found

    def _save(self, step: int) -> None:
        if self.fabric.global_rank != 0:
            return
        content = {
            "step": step,
            "network": self.plain_network.state_dict(),
            "optimizer": self.optimizer.optimizer.state_dict(),
            "loss": self.method.loss.state_dict(),
        }
        if self.momentum is not None:
            content["momentum"] = self.momentum.state_dict()
        files.write_checkpoint(_checkpoint(self.folder, step), content)
        for old in _checkpoints(self.folder)[:-KEPT]:
            old.unlink(missing_ok=True)

    def _restore(self) -> int:
        found = _checkpoints(self.folder)
        if not found:
            return 0
        content = files.read_checkpoint(found[-1])
        try:
            self.plain_network.load_state_dict(content["network"])
            self.optimizer.optimizer.load_state_dict(content["optimizer"])
            self.method.loss.load_state_dict(content["loss"])
            if self.momentum is not None:
                self.momentum.load_state_dict(content["momentum"])
        except (KeyError, RuntimeError, ValueError) as error:
            raise RunError(
                f"{found[-1]} does not fit the settings of its run: {str(error).splitlines()[0]}"
            ) from error
        step: int = content["step"]
        return step

    def _export(self) -> None:
        metadata = {
            "settings": json.dumps(self.settings.model_dump(mode="json")),
            "kernel": json.dumps(
                self.method.kernel.state_dict() if self.method.kernel is not None else {}
            ),
            "shape": json.dumps(list(self.dataset.train.x.shape[1:])),
            "inputs": json.dumps(self.dataset.inputs),
            "version": cclk.__version__,
        }
        write_tensors(self.folder / ENCODER, self.plain_network.state_dict(), metadata)


class Metrics:
    """Metrics as JSON lines and for TensorBoard, from a step on: what an interrupted run logged
    beyond it is dropped.
    """

    def __init__(self, folder: Path, start: int, write: bool) -> None:
        self.folder, self.start, self.write = folder, start, write

    def __enter__(self) -> Metrics:
        if self.write:
            path = self.folder / METRICS
            kept = [line for line in read_metrics(path) if line["step"] <= self.start]
            replace_text(path, "".join(json.dumps(line) + "\n" for line in kept))
            self.lines = path.open("a")
            with needed_for("training"):
                from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(self.folder / TENSORBOARD), purge_step=self.start + 1)
        return self

    def __exit__(self, *_: object) -> None:
        if self.write:
            with suppress(OSError):  # a full disk has been reported by then
                self.lines.close()
            self.board.close()

    def add(self, line: dict[str, Any]) -> None:
        if self.write:
            self.lines.write(json.dumps(line) + "\n")
            for key, value in line.items():
                if key != "step":
                    self.board.add_scalar(key, value, line["step"])

    def flush(self) -> None:
        """Metrics reach the disk before the checkpoint that follows them."""
        if self.write:
            try:
                self.lines.flush()
            except OSError as error:
                raise RunError(
                    f"{self.folder / METRICS} could not be written: {error.strerror}; earlier"
                    " checkpoints are intact"
                ) from error


class Clock:
    """Steps per second since the last question."""

    def __init__(self, step: int) -> None:
        self.step, self.time = step, time.perf_counter()

    def speed(self, step: int) -> float:
        steps, seconds = step - self.step, time.perf_counter() - self.time
        self.restart(step)
        return steps / max(seconds, 1e-9)

    def restart(self, step: int) -> None:
        self.step, self.time = step, time.perf_counter()


def _generator(seed: int, step: int, view: int) -> torch.Generator:
    """The randomness of one view of one step."""
    mixed = np.random.SeedSequence(seed, spawn_key=(step, view)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(mixed[0]) >> 1)


def _checkpoint(folder: Path, step: int) -> Path:
    return folder / CHECKPOINTS / f"step-{step:09d}.ckpt"


def _checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / CHECKPOINTS).glob("step-*.ckpt"))


def _launch(settings: Settings) -> Any:
    """The processes of the run: those torchrun started, else as many as the settings say."""
    with needed_for("training"):
        from lightning_fabric import Fabric
    devices = int(os.environ.get("LOCAL_WORLD_SIZE", settings.train.devices))
    world = (
        int(os.environ.get("WORLD_SIZE", devices)) if "LOCAL_WORLD_SIZE" in os.environ else devices
    )
    logging.getLogger("lightning_fabric").setLevel(
        logging.WARNING
    )  # it would tell of its precision, wanted or not
    # Apple's MPS has no float64, which the conditional operator needs.
    accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    fabric = Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=max(1, world // devices),
        strategy="ddp" if world > 1 else "auto",
        precision="32-true" if settings.train.precision == "float32" else "bf16-mixed",
    )
    fabric.launch()
    return fabric
