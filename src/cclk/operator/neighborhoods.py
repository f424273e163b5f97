"""Which samples can matter to which anchors: tiles of anchors with similar conditions, and for each
the samples whose kernel value is not negligible.

Samples are ordered so that neighbors in the condition are close to each other (a k-d tree), and cut
into blocks. A kernel bounds its values between two boxes of conditions, of an anchor or a tile and
of a block; for each tile, blocks are dropped from the smallest bound upwards, as long as the sum of
all dropped values is a negligible share of what is kept.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cclk.condition import Condition
from cclk.kernels import Kernel
from cclk.kernels.base import Box

BLOCK = 32
"""Samples per block: fewer follow the neighborhoods more closely, more make larger products."""
TILE = 128
"""Anchors per tile, if all samples are anchors."""
LINE_TILE = 256
"""Anchors per tile in one dimension, where their neighborhoods overlap more."""
SMALLEST_TILE = 64
"""Anchors per tile, if few samples are anchors."""
EVEN = 0.01
"""Anchors of a tile share one bound if the smallest of their sums of kernel values exceeds this
share of the largest.
"""
SMALLEST = 768
"""Below this number of samples, computing all pairs is faster than finding out which matter."""
SAMPLED = 3
"""Tiles from which the share of pairs that matter is estimated."""
MOST_SCORED = 0.5
"""Share of pairs beyond which computing all of them is faster."""
MOST_COLUMNS = 8
"""Boxes in more dimensions than this hardly exclude anything."""


class Neighborhoods:
    """An order of samples in which neighbors are close, cut into blocks, and tiles of anchors.

    Args:
        kernel: A fitted kernel that has bounds on this condition.
        condition: The condition of n samples.
        anchors: The samples that are anchors, from the first to the last one.
    """

    def __init__(self, kernel: Kernel, condition: Condition, anchors: range) -> None:
        self.kernel, self.condition = kernel, condition
        coordinates = kernel.coordinates(condition)
        assert coordinates is not None
        self.line = coordinates.shape[1] == 1
        self.order = kd_order(coordinates, BLOCK)
        local = self.order[(self.order >= anchors.start) & (self.order < anchors.stop)]
        # Few anchors among many samples: fewer in a tile, so that they are close to each other.
        largest = LINE_TILE if self.line else TILE
        size = max(SMALLEST_TILE, largest * len(local) // len(self.order))
        self.tiles = torch.split(local, min(largest, size))
        """Sample numbers of anchors with similar conditions."""
        # The last block is filled up with its last sample.
        count = len(self.order)
        positions = torch.arange(-(-count // BLOCK) * BLOCK, device=local.device)
        blocks = condition.values[self.order[positions.clamp_max(count - 1)]].double()
        blocks = blocks.view(-1, BLOCK, blocks.shape[1])
        self.boxes = Box(
            Condition(blocks.amin(dim=1), condition.columns),
            Condition(blocks.amax(dim=1), condition.columns),
        )
        self.positions = positions.view(-1, BLOCK)
        self._sampled: dict[tuple[int, float], tuple[Tensor, Tensor]] = {}
        """Candidates of the tiles that `scored` sampled."""

    def near(self, tile: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Return the candidates of a tile, where the sum of its values is that within the tile.

        Args:
            tile: One of the tiles.
            share: As in `candidates`.
        """
        # The values of an anchor far from all others are small: there, less is negligible.
        known = self._sampled.get((id(tile), share))
        return known or self.candidates(tile, self.totals(tile), share)

    def candidates(self, tile: Tensor, totals: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Return the samples that matter to anchors, and a bound of the sum of all other values.

        Args:
            tile: Sample numbers of the anchors, (a,).
            totals: The sum of the kernel values of each anchor, or less, (a,).
            share: The share of this sum that may be dropped.

        Returns:
            Sample numbers, (m,), and the bound for each anchor, float64 (a,).
        """
        anchors = self.condition.rows(tile)
        box = Box(anchors, anchors)
        lowest, highest = totals.aminmax()
        if self.line and lowest > EVEN * highest:  # one box around all anchors
            values = anchors.values
            box = Box(
                Condition(values.amin(dim=0, keepdim=True), anchors.columns),
                Condition(values.amax(dim=0, keepdim=True), anchors.columns),
            )
            totals = lowest[None]
        bounds = self.kernel.upper_bound(box, self.boxes)
        assert bounds is not None
        bounds *= BLOCK
        relative = torch.where(bounds > 0, bounds / totals[:, None], 0.0)  # 0 / 0 is 0
        smallest, blocks = relative.amax(dim=0).sort()
        count = int(torch.searchsorted(smallest.cumsum(dim=0), share, right=True))
        # In the order of the tree, blocks that are kept are next to each other.
        positions = self.positions[blocks[count:].sort().values].flatten()
        samples = self.order[positions[positions < len(self.order)]]
        return samples, bounds[:, blocks[:count]].sum(dim=1).expand(len(tile))

    def totals(self, tile: Tensor) -> Tensor:
        """Return the sum of the kernel values between each anchor of a tile and the others."""
        anchors = self.condition.rows(tile)
        values = self.kernel.evaluate(anchors, anchors).relu_()
        return values.fill_diagonal_(0).sum(dim=1)

    def scored(self, share: float) -> float:
        """Estimate the share of all pairs that matter, from some of the tiles.

        Args:
            share: The share of the kernel values of an anchor that may be dropped.
        """
        step = max(1, len(self.tiles) // SAMPLED)
        tiles = self.tiles[step // 2 :: step]
        self._sampled = {(id(tile), share): self.near(tile, share) for tile in tiles}
        kept = [len(samples) for samples, _ in self._sampled.values()]
        return sum(kept) / len(kept) / len(self.condition) if kept else 1.0


def find(
    kernel: Kernel, condition: Condition, anchors: range, share: float
) -> tuple[Neighborhoods | None, str]:
    """Return the neighborhoods, or None if all pairs are to be computed, and the reason.

    Args:
        kernel: A fitted kernel.
        condition: The condition of n samples.
        anchors: The samples that are anchors.
        share: The share of the kernel values of an anchor that may be dropped.
    """
    if len(condition) < SMALLEST:
        return None, f"all pairs are computed: fewer than {SMALLEST} samples"
    coordinates = kernel.coordinates(condition.rows(slice(0, 1)))
    if coordinates is None or not coordinates.shape[1]:
        return None, "all pairs are computed: the kernel has no bounds"
    if coordinates.shape[1] > MOST_COLUMNS:
        return None, f"all pairs are computed: more than {MOST_COLUMNS} columns"
    result = Neighborhoods(kernel, condition, anchors)
    scored = result.scored(share)
    if scored > MOST_SCORED:
        return None, f"all pairs are computed: {scored:.0%} of them matter"
    return result, f"{scored:.1%} of the pairs are computed: the others do not matter"


def kd_order(points: Tensor, leaf: int) -> Tensor:
    """Return an order of points in which neighbors are close to each other.

    All nodes of a level of the tree are split in the middle of their widest column at once.

    Args:
        points: (n, k), k at least 1.
        leaf: The number of points of a node that is not split further.

    Example:
        >>> kd_order(torch.tensor([[3.0], [1.0], [2.0], [0.0]]), leaf=2)
        tensor([3, 1, 2, 0])
    """
    count, width = points.shape
    if width == 1:
        return points[:, 0].argsort(stable=True)
    levels = max(0, math.ceil(math.log2(count / leaf)))
    size = math.ceil(count / 2**levels)
    # Nodes have the same size if the last ones are filled up with points at infinity.
    padding = points.new_full((size * 2**levels - count, width), math.inf)
    points = torch.cat([points, padding])
    nodes = torch.arange(len(points), device=points.device)[None]
    for _ in range(levels):
        inside = points[nodes]
        low = inside.amin(dim=1)
        high = inside.where(inside.isfinite(), -math.inf).amax(dim=1)
        widest = (high - low).argmax(dim=1)
        keys = inside.gather(2, widest[:, None, None].expand(-1, nodes.shape[1], 1))[:, :, 0]
        nodes = nodes.gather(1, keys.argsort(dim=1, stable=True))
        nodes = nodes.reshape(2 * len(nodes), -1)
    order = nodes.flatten()
    return order[order < count]
