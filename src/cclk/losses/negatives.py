"""The objective that Fair-CCLK and HardNeg-CCLK share; they differ in the condition."""

from __future__ import annotations

import math

from cclk.losses.core import Layout
from cclk.losses.objectives import Floor, NeighborWeights, WeightedNegatives


def weighted_negatives(
    layout: Layout, temperature: float, weights: NeighborWeights, floor: Floor
) -> WeightedNegatives:
    """Negatives drawn from the condition, as many as the unconditional loss would have."""
    # A sum over views, as in the authors' release, counts both views of a sample already.
    count = layout.samples - 1 if weights.summed else layout.negatives
    return WeightedNegatives(layout, temperature, weights, math.log(count), floor)
