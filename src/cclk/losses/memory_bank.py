"""A bank of the latest embedding of every training sample, for rare values of a condition."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from cclk._eager import eager
from cclk.condition import Condition, as_condition
from cclk.errors import DataError, SettingsError
from cclk.kernels import Kernel
from cclk.operator.neighborhoods import MOST_COLUMNS, Neighborhoods

GROUP = 16
"""Blocks of a group, next to each other in the tree."""
SEARCHED = (8, 8, 8, 16, 32)
"""Groups that are searched for the blocks next to an anchor, and blocks for its neighbors, by the
number of coordinates: in more dimensions, neighbors are in more blocks. The samples from a
bank of 60,000 then have 0.92 of the sum of all kernel values, or more, on up to 8 normal columns.
"""
JITTER = 1e-3
"""Random part of a distance, in length scales: of samples with equal conditions, others are
neighbors in each step.
"""


class MemoryBank(nn.Module):
    """Neighbors from all training samples, where a batch has too few of them.

    The bank keeps the latest embedding of each training sample, without a gradient. In each step,
    the samples of the bank whose conditions are nearest to those of the batch are the `support` of
    a loss. Embeddings are up to an epoch old; those of a momentum encoder age more slowly.

    Args:
        condition: The condition of all n training samples.
        kernel: A kernel of distances on up to 8 columns, such as RBF, Delta or a product, fitted on
            the condition with `batch_size=n`: neighbors are then counted among all samples.
        width: Width d of the embeddings.
        neighbors: The number of samples that each anchor gets from the bank.

    Shape:
        condition: (n,), (n, k), a data frame or a mapping of columns.

    Example:
        >>> from cclk import FairCCLK, kernels
        >>> age = torch.rand(1000)
        >>> kernel = kernels.RBF().fit(age, batch_size=1000)
        >>> bank, loss = MemoryBank(age, kernel, width=16), FairCCLK(kernel)
        >>> for step in range(3):
        ...     rows = torch.randperm(1000)[:64]
        ...     x, y = torch.randn(2, 64, 16, requires_grad=True)  # embeddings of two views
        ...     value = loss(x, y, age[rows], support=bank.support(rows))
        ...     bank.update(rows, y)
        >>> int(bank.filled.sum()) > 64
        True
    """

    keys: Tensor
    filled: Tensor

    @eager
    def __init__(
        self, condition: object, kernel: Kernel, width: int, *, neighbors: int = 16
    ) -> None:
        super().__init__()
        if neighbors < 1 or width < 1:
            raise SettingsError(
                f"neighbors is {neighbors} and width is {width}: both must be at least 1"
            )
        self.condition, self.neighbors = as_condition(condition), neighbors
        if len(self.condition) < 2:
            raise DataError(f"condition has {len(self.condition)} rows: pass at least 2 samples")
        kernel.ensure_fitted(self.condition)
        points = kernel.coordinates(self.condition)
        if points is None or not 1 <= points.shape[1] <= MOST_COLUMNS:
            raise SettingsError(
                f"{kernel!r} has no nearest samples: use a kernel of distances,"
                f" such as RBF or Delta, on up to {MOST_COLUMNS} columns"
            )
        self.kernel, self.points = kernel, points
        self.searched = SEARCHED[min(points.shape[1], len(SEARCHED)) - 1]
        self.blocks = Neighborhoods(kernel, self.condition, range(0))
        self.inside = points.T[:, self.blocks.blocks]
        """Coordinates of the samples of each block, (m, blocks, samples)."""
        # The last group is filled up with blocks at infinity.
        fill = (0, -self.inside.shape[1] % GROUP)
        low, high = self.inside.amin(dim=2), self.inside.amax(dim=2)
        self.low = pad(low, fill, value=torch.inf).view(len(low), -1, GROUP)
        self.high = pad(high, fill, value=-torch.inf).view(len(low), -1, GROUP)
        """Corners of the boxes around blocks, (m, groups, GROUP)."""
        self.group_low, self.group_high = self.low.amin(dim=2), self.high.amax(dim=2)
        self.register_buffer("keys", torch.zeros(len(points), width))
        self.register_buffer("filled", torch.zeros(len(points), dtype=torch.bool))

    def __len__(self) -> int:
        return len(self.keys)

    @torch.no_grad()
    def update(self, rows: Tensor, embeddings: Tensor) -> None:
        """Replace the embeddings of some samples.

        Args:
            rows: Numbers of the samples in the condition of the bank, (b,).
            embeddings: Their embeddings, (b, d).
        """
        self._check(rows)
        if embeddings.shape != (len(rows), self.keys.shape[1]):
            raise DataError(
                f"embeddings have shape {tuple(embeddings.shape)}: expected {len(rows)} rows of"
                f" width {self.keys.shape[1]}"
            )
        rows = rows.to(self.keys.device)
        self.keys[rows] = embeddings.detach().to(self.keys)
        self.filled[rows] = True

    @torch.no_grad()
    def support(self, rows: Tensor) -> tuple[Tensor, Condition] | None:
        """Return embeddings and conditions of the samples nearest to a batch, for a loss.

        Args:
            rows: Numbers of the samples of the batch, (b,). They are not among the neighbors.

        Returns:
            (q, d) embeddings and q rows of condition, at most b times `neighbors`; None if the
            bank has no other samples yet.
        """
        samples = self.nearest(rows)
        if not len(samples):
            return None
        keys = self.keys.index_select(0, samples.to(self.keys.device))  # much faster than []
        return keys, self.condition.rows(samples)

    def nearest(self, rows: Tensor) -> Tensor:
        """Return the numbers of the samples that `support` returns, in order.

        Args:
            rows: Numbers of the samples of the batch, (b,).
        """
        self._check(rows)
        rows = rows.to(self.points.device)
        random = torch.Generator().manual_seed(int(rows.sum()))
        # Kernel values of far samples are 0; their distances still tell which is the nearest.
        anchors = self.points.T[:, rows, None]
        groups = self._closest(anchors, self.group_low, self.group_high, random)
        low, high = (corner[:, groups].flatten(2) for corner in (self.low, self.high))
        blocks = (groups[:, :, None] * GROUP + torch.arange(GROUP, device=rows.device)).flatten(1)
        closest = self._closest(anchors, low, high, random)[:, : len(self.blocks.blocks)]
        searched = blocks.gather(1, closest).clamp_max_(len(self.blocks.blocks) - 1)
        positions = self.blocks.positions[searched].flatten(1)
        last = len(self.points) - 1
        samples = self.blocks.blocks[searched].flatten(1)
        squares = self._jitter(samples.shape[1], len(rows), random).to(anchors)
        for column, point in zip(self.inside, anchors, strict=True):
            apart = column[searched].flatten(1).sub_(point)
            squares.addcmul_(apart, apart)
        taken = torch.zeros(len(self.points), dtype=torch.bool, device=rows.device)
        taken[rows] = True
        usable = self.filled.to(rows.device) & ~taken
        squares.masked_fill_(~usable[samples] | (positions > last), torch.inf)
        nearest = squares.topk(min(self.neighbors, samples.shape[1]), dim=1, largest=False)
        kept = samples.gather(1, nearest.indices)[nearest.values.isfinite()]
        distinct: Tensor = torch.unique(kept)
        return distinct

    def _closest(
        self, points: Tensor, low: Tensor, high: Tensor, random: torch.Generator
    ) -> Tensor:
        """Numbers of the boxes closest to points, (m, b, 1), in order of their distance."""
        gaps = self._jitter(low.shape[-1], points.shape[1], random).to(points)
        for point, lowest, highest in zip(points, low, high, strict=True):
            gap = point.clamp(lowest, highest).sub_(point)
            gaps.addcmul_(gap, gap)
        return gaps.topk(min(self.searched, gaps.shape[1]), dim=1, largest=False).indices

    def _jitter(self, count: int, anchors: int, random: torch.Generator) -> Tensor:
        """Random parts of distances, (anchors, count): the same numbers, from a random start."""
        numbers = JITTER * torch.rand(count, generator=random)
        starts = torch.randint(count, (anchors,), generator=random)
        return torch.cat([numbers, numbers]).unfold(0, count, 1)[starts]

    def _check(self, rows: Tensor) -> None:
        if rows.ndim != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
            raise DataError(
                f"rows has dtype {rows.dtype} and shape {tuple(rows.shape)}: pass the numbers of"
                " the samples, (b,)"
            )
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise DataError(
                f"rows has numbers from {int(rows.min())} to {int(rows.max())}: the bank has"
                f" samples 0 to {len(self) - 1}"
            )

    def extra_repr(self) -> str:
        return f"{len(self)} samples, width {self.keys.shape[1]}, neighbors={self.neighbors}"
