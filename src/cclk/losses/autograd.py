"""Objectives without a hand-written slope: plain functions of tensors, differentiated by autograd.

The tiles are those of `core`. Each is computed again in the backward pass instead of being stored,
so no (b, b) matrix is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from cclk.errors import CclkError
from cclk.losses import core
from cclk.losses.objectives import ColumnWeights


@dataclass(frozen=True)
class TileLayout:
    """The columns of a tile of n anchors and m candidates, as `ConditionalLoss.objective` sees it.

    The first `batch` columns are the samples of the batch in the other view, the next `support`
    columns the support, and the rest, with views="all", the samples of the batch in the anchor's
    own view. The anchor itself is not among its candidates.
    """

    positive: Tensor
    """Boolean (n, m), True at the anchor's other view: `scores[layout.positive]` has shape (n,)."""
    batch: int
    support: int

    @property
    def negatives(self) -> int:
        """The number of candidates of an anchor besides its positive, m - 1."""
        return self.positive.shape[1] - 1


@dataclass(frozen=True)
class AutogradObjective:
    """An objective that returns only the losses of the anchors."""

    function: Callable[[Tensor, Tensor, TileLayout], Tensor]
    """`ConditionalLoss.objective`."""
    layout: core.Layout
    weights: ColumnWeights

    def losses(self, anchors: Tensor, neighbors: Tensor) -> Tensor:
        """The losses of all anchors, (n,), as a differentiable function of the embeddings."""
        # Without reentrance, gradients also reach the parameters that the function uses.
        tiles = torch.split(anchors, core.TILE_ROWS)
        return torch.cat(
            [
                checkpoint(self._tile, rows, neighbors, tile * core.TILE_ROWS, use_reentrant=False)
                for tile, rows in enumerate(tiles)
            ]
        )

    def _tile(self, anchors: Tensor, neighbors: Tensor, start: int) -> Tensor:
        stop = start + len(anchors)
        weights = self.weights.tile(start, stop)
        # The weights are float64 where the exponential of a score would overflow.
        scores = (anchors @ neighbors.T).to(weights.dtype)
        positive = torch.zeros_like(scores, dtype=torch.bool)
        self.layout.positive(positive, start, stop).fill_(True)
        if self.layout.within:
            others = torch.ones_like(positive)
            self.layout.own(others, start, stop).fill_(False)
            scores, weights, positive = (
                tile[others].view(len(anchors), -1) for tile in (scores, weights, positive)
            )
        layout = TileLayout(positive, self.layout.batch, self.layout.support)
        losses = self.function(scores, weights, layout)
        if losses.shape != anchors.shape[:1]:
            raise CclkError(
                f"objective returned shape {tuple(losses.shape)}: it must return the loss of each"
                f" anchor, shape ({len(anchors)},)"
            )
        return losses
