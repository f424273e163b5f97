"""Which training rows make up the batch of a step.

A batch is a function of the sampler's arguments and the step alone: nothing is remembered between
steps but a cache, so a run can be continued from any step. Every sampler draws the batches of a
whole epoch at once from (seed, epoch).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cclk.data.randomness import generator

Rows = npt.NDArray[np.int64]

_TREE_COLUMNS = 16


class BatchSampler(Protocol):
    """What training needs of a sampler."""

    steps_per_epoch: int

    def batch(self, step: int) -> Tensor:
        """The rows of the training split that make up this step's batch, int64 (batch_size,)."""
        ...


class EpochSampler(ABC):
    """A sampler by epochs. A subclass says how the batches of one epoch are drawn."""

    purpose: str

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}: it must be at least 1")
        if batch_size > rows:
            raise ValueError(
                f"batch_size is {batch_size}, but the training split has {rows} rows: choose a"
                f" batch_size of at most {rows}"
            )
        self.rows, self.batch_size, self.seed = rows, batch_size, seed
        self.steps_per_epoch = rows // batch_size
        self._epoch, self._batches = -1, torch.empty(0)

    def batch(self, step: int) -> Tensor:
        """The rows of this step's batch, int64 (batch_size,); any step from 0 on may be asked
        for, in any order.
        """
        if step < 0:
            raise ValueError(f"step is {step}: steps count from 0")
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            drawn = self.draw(generator(self.seed, self.purpose, epoch))
            self._epoch, self._batches = epoch, torch.from_numpy(drawn)
        return self._batches[place].clone()

    @abstractmethod
    def draw(self, random: np.random.Generator) -> Rows:
        """The batches of an epoch, int64 (steps_per_epoch, batch_size)."""

    def _in_groups(self, groups: Rows, random: np.random.Generator) -> Rows:
        """Batches of whole groups (g, size), in random order."""
        per_batch = self.batch_size // groups.shape[1]
        chosen = random.permutation(len(groups))[: self.steps_per_epoch * per_batch]
        return groups[chosen].reshape(self.steps_per_epoch, self.batch_size)


class Uniform(EpochSampler):
    """Every row once per epoch, in random order; what is left over after the last whole batch
    waits for another epoch.
    """

    purpose = "uniform batches"

    def __init__(self, rows: int, batch_size: int, *, seed: int = 0) -> None:
        super().__init__(rows, batch_size, seed)

    def draw(self, random: np.random.Generator) -> Rows:
        shape = (self.steps_per_epoch, self.batch_size)
        return random.permutation(self.rows)[: shape[0] * shape[1]].reshape(shape)


class ClusterBatches(EpochSampler):
    """Batches for the cluster baselines.

    Args:
        clusters: the cluster of each training row, integers (n,).
        mode: "fair": all rows of a batch are of one cluster, chosen with probability proportional
            to its size; rows of a cluster take turns, and are drawn with replacement where the
            cluster is smaller than the batch. "weaksup": a batch is made of groups of rows of the
            same cluster.
        group: rows per group for "weaksup"; a cluster that does not divide into groups has its last
            one filled from its own rows.
    """

    purpose = "cluster batches"

    def __init__(
        self,
        clusters: Tensor,
        batch_size: int,
        *,
        seed: int = 0,
        mode: Literal["fair", "weaksup"],
        group: int = 2,
    ) -> None:
        if clusters.ndim != 1 or clusters.is_floating_point():
            raise ValueError(
                f"clusters has shape {tuple(clusters.shape)} and dtype {clusters.dtype}: it must be"
                " integers (n,)"
            )
        super().__init__(len(clusters), batch_size, seed)
        if mode not in ("fair", "weaksup"):
            raise ValueError(f"mode is {mode!r}: choose fair or weaksup")
        if mode == "weaksup":
            _check_group(group, batch_size)
        self.mode, self.group = mode, group
        _, label = np.unique(clusters.cpu().numpy(), return_inverse=True)
        self._sizes = np.bincount(label)
        self._by_cluster = np.argsort(label, kind="stable")

    def draw(self, random: np.random.Generator) -> Rows:
        return (
            self._fair(random)
            if self.mode == "fair"
            else self._in_groups(self._pairs(random), random)
        )

    def _fair(self, random: np.random.Generator) -> Rows:
        turns = random.choice(
            len(self._sizes), size=self.steps_per_epoch, p=self._sizes / self.rows
        )
        batches = np.empty((self.steps_per_epoch, self.batch_size), np.int64)
        for cluster, members in enumerate(np.split(self._by_cluster, np.cumsum(self._sizes)[:-1])):
            steps = np.flatnonzero(turns == cluster)
            whole = len(members) // self.batch_size
            if whole == 0:
                batches[steps] = random.choice(members, size=(len(steps), self.batch_size))
                continue
            for start in range(0, len(steps), whole):
                some = steps[start : start + whole]
                batches[some] = random.permutation(members)[: len(some) * self.batch_size].reshape(
                    -1, self.batch_size
                )
        return batches

    def _pairs(self, random: np.random.Generator) -> Rows:
        # Shuffled within clusters: a random number beside the cluster as the sorting key.
        cluster = np.repeat(np.arange(len(self._sizes)), self._sizes)
        members = self._by_cluster[np.lexsort((random.random(self.rows), cluster))]
        padded = -(-self._sizes // self.group) * self.group
        start, size = (
            np.repeat(np.cumsum(self._sizes) - self._sizes, padded),
            np.repeat(self._sizes, padded),
        )
        place = np.arange(padded.sum()) - np.repeat(np.cumsum(padded) - padded, padded)
        return members[start + place % size].reshape(-1, self.group)


class LocalBatches(EpochSampler):
    """Batches in which every row has close neighbors: groups of neighbors in the condition,
    redrawn every epoch.

    The groups are the leaves of a random-projection tree: every node sorts its rows along a random
    direction and cuts them in two halves, until `group` rows are left. A batch is batch_size /
    group random groups. Columns are standardized first, so that units do not matter.

    Args:
        condition: the condition of each training row, (n,) or (n, k).
        group: neighbors per group.
    """

    purpose = "local batches"

    def __init__(
        self, condition: Tensor, batch_size: int, *, seed: int = 0, group: int = 16
    ) -> None:
        super().__init__(len(condition), batch_size, seed)
        _check_group(group, batch_size)
        self.group = group
        values = condition.detach().cpu().to(torch.float32).reshape(len(condition), -1).numpy()
        if not np.isfinite(values).all():
            raise ValueError("condition has values that are NaN or infinite: drop or impute them")
        spread = values.std(axis=0)
        self._values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)

    def draw(self, random: np.random.Generator) -> Rows:
        return self._in_groups(self._leaves(random), random)

    def _leaves(self, random: np.random.Generator) -> Rows:
        """All nodes of a level are cut at once: rows lie node by node, and one sort by (node,
        projection) does them all.
        """
        values = self._values
        if values.shape[1] > _TREE_COLUMNS:
            values = values @ random.standard_normal(
                (values.shape[1], _TREE_COLUMNS), dtype=np.float32
            )
        # A random order to begin with: it decides between equal conditions, and which rows are left
        # out of whole groups.
        order = random.permutation(self.rows)[: self.rows // self.group * self.group]
        leaves = np.array([len(order) // self.group])
        while leaves.max() > 1:
            node = np.repeat(np.arange(len(leaves)), leaves * self.group)
            directions = random.standard_normal((len(leaves), values.shape[1]), dtype=np.float32)
            projection = np.einsum("nk,nk->n", values[order], directions[node])
            order = order[np.lexsort((projection, node))]
            halves = np.stack([leaves // 2, leaves - leaves // 2], axis=1).ravel()
            leaves = halves[halves > 0]
        return order.reshape(-1, self.group)


def _check_group(group: int, batch_size: int) -> None:
    if group < 1 or batch_size % group:
        raise ValueError(
            f"group is {group}: it must be at least 1 and divide the batch_size, {batch_size}"
        )
