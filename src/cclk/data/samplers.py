"""Batch samplers: the training rows of each step.

A batch is a function of the sampler's arguments and the step alone, so training can resume at any
step. Every sampler draws the batches of an epoch at once, from (seed, epoch).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from cclk.data.randomness import generator
from cclk.data.splits import Rows
from cclk.errors import DataError

_TREE_COLUMNS = 16
_DISTANCES = 2**25
"""Distances in memory at a time: 128 MiB."""


class BatchSampler(ABC):
    """Base class of samplers that draw the batches of an epoch at once.

    Args:
        rows: the number of training rows.
        batch_size: rows per batch.
        seed: seed of the draws.
    """

    purpose: str

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        if batch_size < 1:
            raise DataError(f"batch_size is {batch_size}: it must be at least 1")
        if batch_size > rows:
            raise DataError(
                f"batch_size is {batch_size}, but the training split has {rows} rows: choose a"
                f" batch_size of at most {rows}"
            )
        self.rows, self.batch_size, self.seed = rows, batch_size, seed
        self.steps_per_epoch = rows // batch_size
        self._epoch, self._batches = -1, torch.empty(0)

    def batch(self, step: int) -> Tensor:
        """Return the rows of a step's batch, int64 (batch_size,).

        Args:
            step: the step, counted from 0; steps may be requested in any order.
        """
        if step < 0:
            raise DataError(f"step is {step}: steps count from 0")
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            drawn = self.draw(generator(self.seed, self.purpose, epoch))
            self._epoch, self._batches = epoch, torch.from_numpy(drawn)
        return self._batches[position].clone()

    @abstractmethod
    def draw(self, random: np.random.Generator) -> Rows:
        """Return the batches of an epoch, int64 (steps_per_epoch, batch_size)."""

    def _check_group(self, group: int) -> None:
        if group < 1 or self.batch_size % group:
            raise DataError(
                f"group is {group}: it must be at least 1 and divide the batch_size,"
                f" {self.batch_size}"
            )

    def _in_groups(self, groups: Rows, random: np.random.Generator) -> Rows:
        """Return batches of random groups from (g, size)."""
        per_batch = self.batch_size // groups.shape[1]
        drawn = random.permutation(len(groups))[: self.steps_per_epoch * per_batch]
        return groups[drawn].reshape(self.steps_per_epoch, self.batch_size)


class Uniform(BatchSampler):
    """Every row at most once per epoch, in random order; an incomplete last batch is dropped.

    Args:
        rows: the number of training rows.
        batch_size: rows per batch.
        seed: seed of the draws.
    """

    purpose = "uniform batches"

    def __init__(self, rows: int, batch_size: int, *, seed: int = 0) -> None:
        super().__init__(rows, batch_size, seed)

    def draw(self, random: np.random.Generator) -> Rows:
        shape = (self.steps_per_epoch, self.batch_size)
        return random.permutation(self.rows)[: shape[0] * shape[1]].reshape(shape)


class ClusterBatches(BatchSampler):
    """Batches for the cluster baselines.

    Args:
        clusters: the cluster of each training row, integers (n,).
        batch_size: rows per batch.
        seed: seed of the draws.
        mode: "fair": all rows of a batch belong to one cluster, drawn with probability proportional
            to its size. The rows of a cluster take turns; a cluster smaller than the batch is
            sampled with replacement. "weaksup": a batch consists of groups of rows of the same
            cluster.
        group: rows per group for "weaksup"; the last group of a cluster is filled up with rows of
            the same cluster.
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
            raise DataError(
                f"clusters has shape {tuple(clusters.shape)} and dtype {clusters.dtype}: it must be"
                " integers (n,)"
            )
        super().__init__(len(clusters), batch_size, seed)
        if mode not in ("fair", "weaksup"):
            raise DataError(f"mode is {mode!r}: choose fair or weaksup")
        if mode == "weaksup":
            self._check_group(group)
        self.mode, self.group = mode, group
        _, label = np.unique(clusters.cpu().numpy(), return_inverse=True)
        self._sizes = np.bincount(label)
        self._by_cluster = np.argsort(label, kind="stable")

    def draw(self, random: np.random.Generator) -> Rows:
        if self.mode == "fair":
            return self._fair(random)
        return self._in_groups(self._groups(random), random)

    def _fair(self, random: np.random.Generator) -> Rows:
        drawn = random.choice(
            len(self._sizes), size=self.steps_per_epoch, p=self._sizes / self.rows
        )
        batches = np.empty((self.steps_per_epoch, self.batch_size), np.int64)
        for cluster, members in enumerate(np.split(self._by_cluster, np.cumsum(self._sizes)[:-1])):
            steps = np.flatnonzero(drawn == cluster)
            full = len(members) // self.batch_size
            if full == 0:
                batches[steps] = random.choice(members, size=(len(steps), self.batch_size))
                continue
            for start in range(0, len(steps), full):
                some = steps[start : start + full]
                shuffled = random.permutation(members)[: len(some) * self.batch_size]
                batches[some] = shuffled.reshape(-1, self.batch_size)
        return batches

    def _groups(self, random: np.random.Generator) -> Rows:
        # Sorting by (cluster, random number) shuffles within clusters.
        cluster = np.repeat(np.arange(len(self._sizes)), self._sizes)
        members = self._by_cluster[np.lexsort((random.random(self.rows), cluster))]
        padded = -(-self._sizes // self.group) * self.group
        start = np.repeat(np.cumsum(self._sizes) - self._sizes, padded)
        position = np.arange(padded.sum()) - np.repeat(np.cumsum(padded) - padded, padded)
        rows: Rows = members[start + position % np.repeat(self._sizes, padded)]
        return rows.reshape(-1, self.group)


class LocalBatches(BatchSampler):
    """Batches of groups of neighbors in the condition, drawn again every epoch.

    A batch consists of batch_size / group random groups. In a condition of at most 16 columns, the
    groups are the leaves of a random-projection tree: every node sorts its rows along a random
    direction and splits them in two halves, until `group` rows are left. All columns are
    standardized first, so that units do not matter.

    In a wider condition, such as the features of another encoder, a random direction separates
    neighbors as often as others. There, a group is a random row and its nearest neighbors, in the
    units of the condition. Every row is the center of a group equally often.

    Args:
        condition: the condition of each training row, (n,) or (n, k).
        batch_size: rows per batch.
        seed: seed of the draws.
        group: neighbors per group.
    """

    purpose = "local batches"

    def __init__(
        self, condition: Tensor, batch_size: int, *, seed: int = 0, group: int = 16
    ) -> None:
        super().__init__(len(condition), batch_size, seed)
        self._check_group(group)
        self.group = group
        values = condition.detach().cpu().to(torch.float32).reshape(len(condition), -1).numpy()
        if not np.isfinite(values).all():
            raise DataError("condition has values that are NaN or infinite: drop or impute them")
        self._wide = values.shape[1] > _TREE_COLUMNS
        # `Condition.standardized` cannot replace this: it leaves attributes and, with `standardize`
        # off, all columns in their units, and it rounds differently, which reorders rows with
        # nearly equal projections. Runs with local batches would no longer be reproduced.
        deviation = 1 if self._wide else values.std(axis=0)
        self._values = (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1)

    def draw(self, random: np.random.Generator) -> Rows:
        return self._around(random) if self._wide else self._in_groups(self._leaves(random), random)

    def _around(self, random: np.random.Generator) -> Rows:
        """Batches of groups around random rows, in which no row is twice."""
        per_batch = self.batch_size // self.group
        order = random.permutation(self.rows)
        first = order[: self.steps_per_epoch * per_batch].reshape(-1, per_batch)
        nearest = self._nearest(first.ravel()).reshape(*first.shape, -1).tolist()
        everyone = order.tolist()
        batches = []
        for centers, candidates in zip(first.tolist(), nearest, strict=True):
            drawn = set(centers)
            batch: list[int] = []
            for center, around in zip(centers, candidates, strict=True):
                free = [row for row in around if row not in drawn][: self.group - 1]
                drawn.update(free)
                batch += [center, *free]
            # Where many groups are around the same rows, these are not enough for all.
            rest = (row for row in everyone if row not in drawn)
            batches.append(batch + [next(rest) for _ in range(self.batch_size - len(batch))])
        return np.array(batches)

    def _nearest(self, centers: Rows) -> Rows:
        """The rows nearest to each center, twice as many as a group has, nearest first."""
        values = torch.from_numpy(self._values)
        half_squares = values.square().sum(dim=1) / 2
        count = min(2 * self.group, self.rows)
        parts = []
        step = max(1, _DISTANCES // self.rows)
        for start in range(0, len(centers), step):
            rows = torch.from_numpy(centers[start : start + step])
            closeness = torch.addmm(half_squares, values[rows], values.T, beta=-1)
            parts.append(closeness.topk(count, dim=1).indices)
        return torch.cat(parts).numpy()

    def _leaves(self, random: np.random.Generator) -> Rows:
        values = self._values
        # The initial random order breaks ties between equal conditions, and decides which rows are
        # left out if they do not divide into groups.
        order = random.permutation(self.rows)[: self.rows // self.group * self.group]
        leaves = np.array([len(order) // self.group])
        # Rows are stored node by node, so one sort by (node, projection) splits a level of nodes.
        while leaves.max() > 1:
            node = np.repeat(np.arange(len(leaves)), leaves * self.group)
            directions = random.standard_normal((len(leaves), values.shape[1]), dtype=np.float32)
            projection = np.einsum("nk,nk->n", values[order], directions[node])
            order = order[np.lexsort((projection, node))]
            halves = np.stack([leaves // 2, leaves - leaves // 2], axis=1).ravel()
            leaves = halves[halves > 0]
        return order.reshape(-1, self.group)
