"""Training in memory: `Trainer` takes settings and a dataset, and offers single steps.

Each step is a function of the weights before it and of (seed, step), which determine the rows and
the augmentation. A checkpoint therefore holds weights, optimizer state and a step number, and a
resumed run ends in the same weights, bit for bit on a CPU, as one that was not interrupted.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cclk import _distributed as distributed
from cclk import augment
from cclk.data.dataset import CONSTANT, Dataset
from cclk.errors import DataError
from cclk.training import methods
from cclk.training.batch_norm import synchronize
from cclk.training.launch import launch
from cclk.training.loading import Loader, StepRows
from cclk.training.momentum import Momentum
from cclk.training.network import network_for
from cclk.training.optim import build_optimizer, learning_rate
from cclk.training.removal import PenalizedNetwork, Removal
from cclk.training.resolve import resolve
from cclk.training.settings import Settings
from cclk.weights.diagnose import judge
from cclk.weights.variants import weigh


def total_steps(settings: Settings, steps_per_epoch: int) -> int:
    """The number of steps of a run, from `train.steps` or `train.epochs`."""
    return settings.train.steps or max(1, round((settings.train.epochs or 1) * steps_per_epoch))


class Trainer:
    """Trains a network step by step and writes nothing.

    Args:
        settings: The settings of the run; `resolve` fills in those that depend on the data.
        dataset: The dataset; its training split is used.
        fabric: A launched `lightning_fabric.Fabric`; by default one is launched.

    Attributes:
        settings: All settings of the run.
        network: The network under training.
        method: Its loss, batch sampler, condition and kernel.
        total: The number of steps of the run.
    """

    def __init__(self, settings: Settings, dataset: Dataset, fabric: Any = None) -> None:
        if dataset.train.is_constant():
            raise DataError(CONSTANT)
        settings = resolve(settings, dataset)
        self.settings, self.dataset = settings, dataset
        self.fabric = launch(settings) if fabric is None else fabric
        self.method = methods.build(settings, dataset)
        self.total = total_steps(settings, self.method.sampler.steps_per_epoch)
        views = settings.augment
        self.augmentation = augment.for_samples(
            views.augmentation, dataset.train.x.shape[1:], views.augmentation_options
        )
        self.network = network_for(settings, dataset)
        bounds = self._bounds(settings.train.batch_size)
        self._counts = [stop - start for start, stop in pairwise(bounds)]
        if self.fabric.world_size > 1:
            synchronize(self.network)
        self.removal: Removal | None = None
        self._trained: nn.Module = self.network
        if Removal.wanted(settings):
            penalized = PenalizedNetwork(self.network, settings, dataset)
            self.removal = Removal(settings, dataset, self.total, penalized.penalty)
            self._trained = penalized
        optim, device = settings.optim, self.fabric.device
        optimizer = build_optimizer(
            optim.optimizer,
            self._trained,
            optim.lr,
            weight_decay=optim.weight_decay,
            momentum=optim.momentum,
        )
        self.momentum = (
            Momentum(self.network, self.method, settings, device) if settings.train.queue else None
        )
        self._wrapped, self.optimizer = self.fabric.setup(self._trained, optimizer)
        rank = self.fabric.global_rank
        self._own = slice(bounds[rank], bounds[rank + 1])
        """The rows of a batch that this process computes."""
        self.loader = Loader(dataset.train.x, self._draw, self.total)

    def _draw(self, step: int) -> StepRows:
        batch = self.method.sampler.batch(step)
        if self.removal is None:
            return StepRows(batch, batch[:0], batch[self._own])
        further, rank = self.removal.further_rows(step, batch), self.fabric.global_rank
        start, stop = self._bounds(len(further))[rank : rank + 2]
        return StepRows(batch, further, torch.cat([batch[self._own], further[start:stop]]))

    def _bounds(self, size: int) -> list[int]:
        """Where the shares of the processes begin and end, of this number of rows."""
        world = self.fabric.world_size
        return [size * rank // world for rank in range(world + 1)]

    def step(self, step: int) -> Tensor:
        """Load, augment, forward, loss, backward, update.

        Returns:
            The loss of the own samples, detached: its mean over processes is that of the batch.
        """
        rows, samples = self.loader.load(step)
        batch = self._batch = rows.batch
        loaded = self.network.encoder.inputs.scale(samples.to(self.fabric.device))
        x = loaded[: self._counts[self.fabric.global_rank]]
        views = torch.cat([self._view(x, step, view, len(batch)) for view in (0, 1)])
        more = None
        if self.removal is None:
            projections = self._wrapped(views)
        else:
            projections, features, scores = self._wrapped(views, x)
            further = self._further(loaded[len(x) :], rows.further)
            more = self.removal.loss(
                step, features, scores, batch, self._own, self._counts, further
            )
        condition = None
        if self.method.condition is not None:
            condition = self.method.condition.rows(batch[self._own]).to(self.fabric.device)
        if self.momentum is None:
            loss = self.method.loss(*projections.chunk(2), condition)
        else:
            loss = self.momentum.loss(projections, views, condition, batch, self._counts)
        if self.removal is not None and more is not None:
            loss = self.removal.contrast * loss + more
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(step)
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        self.optimizer.step()
        if self.momentum is not None:
            self.momentum.follow(self.network)
        return loss.detach()  # type: ignore[no-any-return]

    def _further(self, own: Tensor, rows: Tensor) -> tuple[Tensor, Tensor] | None:
        """Features of the further rows of the leakage penalty, and their numbers."""
        if not len(rows):
            return None
        with torch.no_grad(), self.fabric.autocast():
            features = self.network.encoder.encode(own)
        if self.fabric.world_size > 1:
            bounds = self._bounds(len(rows))
            features = distributed.gather(features, [b - a for a, b in pairwise(bounds)])
        return features, rows

    def _view(self, x: Tensor, step: int, view: int, size: int) -> Tensor:
        key = np.random.SeedSequence(self.settings.seed, spawn_key=(step, view))
        seed = int(key.generate_state(1, np.uint64)[0]) >> 1
        generator = torch.Generator().manual_seed(seed)
        return self.augmentation(x, generator, first=self._own.start, of=size)

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step."""
        optim = self.settings.optim
        return learning_rate(
            step,
            self.total,
            base_lr=optim.lr,
            batch_size=self.settings.train.batch_size,
            warmup_steps=round(optim.warmup * self.method.sampler.steps_per_epoch),
            scale_by_batch=optim.scale_lr,
        )

    def metrics(self, step: int, loss: float) -> dict[str, float]:
        """Metrics after `step` steps, the last of which had this loss.

        `effective_neighbors` is that of the median anchor, over the batch and the queue; `penalty`
        is what the penalty finds in the batch, before its strength. It is not the leakage, which is
        measured by probes that are fitted to the trained features.
        """
        line: dict[str, float] = {
            "step": step,
            "epoch": round(step / self.method.sampler.steps_per_epoch, 4),
            "loss": loss,
            "lr": self.learning_rate(step - 1),
        }
        report = getattr(self.method.loss, "report", None)
        if report is not None:
            line["clamped"] = float(report.clamped)
        if self.removal is not None and self.removal.last is not None:
            line["penalty"] = round(float(self.removal.last), 4)
        if self.method.kernel is not None and self.method.condition is not None:
            rows = self._batch
            if self.momentum is not None:
                rows = torch.cat([rows, self.momentum.used])
            how = methods.conditioning(self.method, self.settings)
            weights = weigh(how, self.method.condition.rows(rows), torch.float64)
            neighbors = judge(how, weights, anchors=len(self._batch)).effective_sample_size
            line["effective_neighbors"] = round(float(neighbors.median()), 2)
        return line

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizer and loss (with its kernel), and the queue if there is one."""
        state = {
            "network": self._trained.state_dict(),
            "optimizer": self.optimizer.optimizer.state_dict(),
            "loss": self.method.loss.state_dict(),
        }
        if self.momentum is not None:
            state["momentum"] = self.momentum.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state of `state_dict`."""
        self._trained.load_state_dict(state["network"])
        self._load_optimizer(state["optimizer"])
        self.method.loss.load_state_dict(state["loss"])
        if self.momentum is not None:
            self.momentum.load_state_dict(state["momentum"])

    def _load_optimizer(self, state: dict[str, Any]) -> None:
        """Load the state of the optimizer, which accepts any until it takes a step."""
        optimizer = self.optimizer.optimizer
        groups = [
            [{name: value for name, value in group.items() if name != "lr"} for group in each]
            for each in (state["param_groups"], optimizer.state_dict()["param_groups"])
        ]
        if groups[0] != groups[1]:
            raise ValueError("its optimizer has other options")
        optimizer.load_state_dict(state)
        for weight, values in optimizer.state.items():
            for name, value in values.items():
                if isinstance(value, Tensor) and value.shape not in (weight.shape, torch.Size()):
                    raise ValueError(f"{name} of its optimizer has shape {tuple(value.shape)}")

    def close(self) -> None:
        """Stop reading ahead."""
        self.loader.close()
