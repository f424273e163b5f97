"""Which samples can matter to which anchors: tiles of anchors with similar conditions, and for each
the samples whose kernel value is not negligible.

Samples are ordered so that neighbors in the condition are close to each other (a k-d tree), and cut
into blocks. A kernel bounds its values between two boxes of conditions, of a few anchors and of a
block; for each tile, blocks are dropped from the smallest bound upwards, as long as the sum of
all dropped values is a negligible share of what is kept.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

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
SHIFTS = (1, 2, 3, 4)
"""Distances in the order at which samples are compared for a lower bound of their sums."""
BOUNDS = 2**19
"""Bounds between boxes of anchors and blocks that are computed, if it takes larger boxes."""
BOUNDS_AT_ONCE = 2**16
"""Bounds in memory at a time: 512 KiB."""
SMALLEST = 768
"""Below this number of samples, computing all pairs is faster than finding out which matter."""
MOST_SCORED = 0.6
"""Share of pairs beyond which computing all of them is faster in any case."""
PAIR, TILE_PAIRS, BOUND_PAIRS, LINE_PAIRS, TREE_PAIRS = 0.6, 1e5, 1.5, 20, 100
"""What a pair that matters, a tile, a bound, and a sample on a line and in a tree cost, in units of
a pair where all are computed.
"""
PROBES = 8
"""Anchors whose neighbors are counted before a tree is built."""
CORNERS = 0.7
"""Share of a cube that a neighborhood fills."""
MOST_COLUMNS = 8
"""Boxes in more dimensions than this hardly exclude anything."""


class Candidates(NamedTuple):
    """The blocks of samples that can matter to each tile of anchors."""

    blocks: tuple[Tensor, ...]
    """Numbers of blocks for each tile, in the order of the tree."""
    dropped: tuple[Tensor, ...]
    """Bound of the sum of all other kernel values of each anchor of a tile, float64 (a,)."""


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
        self.anchors = self.order[(self.order >= anchors.start) & (self.order < anchors.stop)]
        """Sample numbers of the anchors, in the order of the tree."""
        self.tile_size = tile_size(len(self.anchors), len(self.order), coordinates.shape[1])
        self.tiles = torch.split(self.anchors, self.tile_size)
        """Sample numbers of anchors with similar conditions."""
        # The last block is filled up with its last sample.
        count = len(self.order)
        positions = torch.arange(-(-count // BLOCK) * BLOCK, device=self.order.device)
        self.positions = positions.view(-1, BLOCK)
        self.blocks = self.order[self.positions.clamp_max(count - 1)]
        """Sample numbers of each block, (n / BLOCK, BLOCK)."""
        self.boxes = self._boxes(self.blocks)
        self._candidates: dict[float, Candidates] = {}

    def candidates(self, share: float) -> Candidates:
        """Return the samples that matter to each tile, computed once for each share.

        Args:
            share: The share of the sum of kernel values of an anchor that may be dropped.
        """
        if share not in self._candidates:
            self._candidates[share] = self._find(share)
        return self._candidates[share]

    def scored(self, share: float) -> float:
        """Return the share of all pairs that matter.

        Args:
            share: As in `candidates`.
        """
        kept = sum(map(len, self.candidates(share).blocks))
        return kept / max(1, len(self.tiles) * len(self.blocks))

    def samples(self, blocks: Tensor) -> Tensor:
        """Return the sample numbers of some blocks.

        Args:
            blocks: Numbers of blocks, in ascending order.
        """
        samples = self.blocks.index_select(0, blocks).flatten()
        filled = self.positions.numel() - len(self.order)
        if filled and len(blocks) and int(blocks[-1]) == len(self.blocks) - 1:
            samples = samples[:-filled]
        return samples

    @cached_property
    def totals(self) -> Tensor:
        """A lower bound of the sum of kernel values between each anchor and the others, (a,).

        It is the sum over the samples nearest in the order. An anchor far from all others has
        small values, and there less is negligible.
        """
        ordered, count = self.condition.rows(self.order), len(self.order)
        sums = torch.zeros(count, dtype=torch.float64, device=self.order.device)
        for shift in SHIFTS:
            first, second = slice(0, max(0, count - shift)), slice(shift, count)
            values = self.kernel.pairs(ordered.rows(first), ordered.rows(second)).relu_()
            sums[first] += values
            sums[second] += values
        by_sample = torch.empty_like(sums)
        by_sample[self.order] = sums
        return by_sample[self.anchors]

    def _boxes(self, samples: Tensor) -> Box:
        """The boxes around groups of samples, (groups, size)."""
        values = self.condition.values[samples].double()
        columns = self.condition.columns
        return Box(Condition(values.amin(dim=1), columns), Condition(values.amax(dim=1), columns))

    def _find(self, share: float) -> Candidates:
        # A few anchors share a bound, if there are many: their box, and the smallest of their sums.
        blocks, size = len(self.blocks), self.tile_size
        together = 1
        while len(self.anchors) * blocks > BOUNDS * together and size % (2 * together) == 0:
            together *= 2
        positions = torch.arange(len(self.tiles) * size, device=self.order.device)
        positions = positions.clamp_max(len(self.anchors) - 1).view(len(self.tiles), -1, together)
        masks, dropped = [], []
        for part in torch.split(positions, max(1, BOUNDS_AT_ONCE * together // (blocks * size))):
            boxes = self._boxes(self.anchors[part.flatten(0, 1)])
            totals = self.totals[part].amin(dim=2)
            bounds = self.kernel.upper_bound(boxes, self.boxes)
            assert bounds is not None
            bounds = (bounds * BLOCK).reshape(*totals.shape, blocks)
            relative = torch.where(bounds > 0, bounds / totals[:, :, None], 0.0)  # 0 / 0 is 0
            smallest, order = relative.amax(dim=1).sort(dim=1)
            kept = torch.empty_like(smallest, dtype=torch.bool)
            kept.scatter_(1, order, smallest.cumsum(dim=1) > share)
            masks.append(kept)
            sums = (bounds * ~kept[:, None]).sum(dim=2)
            dropped.append(sums.repeat_interleave(together, dim=1).flatten())
        kept = torch.cat(masks)
        numbers = torch.split(kept.nonzero()[:, 1], kept.sum(dim=1).tolist())
        bound = torch.split(torch.cat(dropped)[: len(self.anchors)], size)
        return Candidates(tuple(numbers), tuple(bound))


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
    coordinates = kernel.coordinates(condition.rows(slice(0, 1)))
    if coordinates is None or not coordinates.shape[1]:
        return None, "all pairs are computed: the kernel has no bounds"
    if coordinates.shape[1] > MOST_COLUMNS:
        return None, f"all pairs are computed: more than {MOST_COLUMNS} columns"
    scored = _expected(kernel, condition, anchors, share, coordinates.shape[1])
    if _is_cheaper(scored, anchors, condition, coordinates.shape[1]):
        result = Neighborhoods(kernel, condition, anchors)
        scored = result.scored(share)
        if _is_cheaper(scored, anchors, condition, coordinates.shape[1]):
            return result, f"{scored:.1%} of the pairs are computed: the others do not matter"
    return (
        None,
        f"all pairs are computed: {scored:.0%} of them matter, too many for this batch",
    )


def tile_size(anchors: int, samples: int, columns: int) -> int:
    """Return the number of anchors per tile.

    Args:
        anchors: The number of samples that are anchors.
        samples: The number of samples.
        columns: The number of coordinates.
    """
    # Few anchors among many samples: fewer in a tile, so that they are close to each other.
    largest = LINE_TILE if columns == 1 else TILE
    size = min(largest, max(SMALLEST_TILE, largest * anchors // max(1, samples)))
    return 1 << (size.bit_length() - 1)  # a power of two, which divides into any smaller one


def _expected(
    kernel: Kernel, condition: Condition, anchors: range, share: float, columns: int
) -> float:
    """Estimate the share of pairs that matter from a few anchors.

    The samples that matter to an anchor, those of a tile and those of a block fill cubes whose
    edges add. Neighborhoods have no corners, so this is too much: by a factor of 1.1 to 2 on
    normal, uniform and log-normal conditions of 1 to 5 columns.
    """
    samples = len(condition)
    step = max(1, len(anchors) // PROBES)
    probes = torch.arange(anchors.start, anchors.stop, step, device=condition.values.device)
    values = kernel.evaluate(condition.rows(probes), condition).relu()
    totals = values.sum(dim=1, keepdim=True) - kernel.diagonal(condition.rows(probes))[:, None]
    near = float((values > share * totals / samples).double().mean())
    tile = tile_size(len(anchors), samples, columns) / max(1, len(anchors))
    edges = sum(part ** (1 / columns) for part in (near, tile, BLOCK / samples))
    return float(min(1.0, CORNERS * edges**columns))


def _is_cheaper(scored: float, anchors: range, condition: Condition, columns: int) -> bool:
    """Whether finding and computing a share of the pairs is cheaper than computing all."""
    samples = len(condition)
    tiles = len(anchors) / tile_size(len(anchors), samples, columns)
    pairs = len(anchors) * samples
    cost = PAIR * scored * pairs + TILE_PAIRS * tiles
    cost += BOUND_PAIRS * min(BOUNDS, pairs / BLOCK)
    cost += (LINE_PAIRS if columns == 1 else TREE_PAIRS) * samples
    return scored <= MOST_SCORED and cost < pairs


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
