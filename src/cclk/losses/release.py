"""What the authors' released code computes differently from the equations of the paper.

Every loss with weights="release" goes through this file, except for the weights themselves: the
row "release" of `cclk.operator.weights` sets the diagonal of K to 1 and that of W to 0, and cuts
weights below 1e-6. `docs/explanation/release.md` compares the release, the paper and the default.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from torch import Tensor

from cclk.losses.autograd import MakeObjective
from cclk.losses.objectives import Floor, WeightedNegatives, WeightedPositives

TEMPERATURE = 0.5
RIDGE, HARDNEG_RIDGE = 0.01, 100.0
OPTIONS: dict[str, Any] = {"weights": "release", "views": "all", "symmetric": True}
"""The options of a loss that `ConditionalLoss.release` fixes."""
SMALLEST_ESTIMATE = 1e-7
"""The lower bound of the conditional estimate, whatever the temperature."""


class ReleaseNegatives(WeightedNegatives):
    """Fair and HardNeg CCL-K: n counts samples, since the sum over views counts both views."""

    def __post_init__(self) -> None:
        self.log_count = math.log(self.layout.samples - 1)
        self.floor = Floor(math.log(SMALLEST_ESTIMATE))


class ReleasePositives(WeightedPositives):
    """WeaklySup CCL-K: the marginal contains the positive pair."""

    def __post_init__(self) -> None:
        self.floor = Floor(math.log(SMALLEST_ESTIMATE))

    def exclude_positive(self, tile: Tensor, start: int, stop: int, value: float) -> None:
        pass


_OBJECTIVES: dict[MakeObjective, MakeObjective] = {
    WeightedNegatives: ReleaseNegatives,
    WeightedPositives: ReleasePositives,
}


def as_released(make: MakeObjective) -> MakeObjective:
    """The objective as the release computes it: weights summed over views instead of averaged."""
    form = _OBJECTIVES.get(make, make)
    return lambda layout, temperature, weights: form(
        layout, temperature, replace(weights, per_view=True)
    )
