"""What the authors' released code computes differently from the equations of the paper.

Every loss with weights="authors" goes through this file, except for the weights themselves:
`cclk.weights.variants` sets the diagonal of K to 1 and that of W to 0, and cuts weights below 1e-6.
`docs/explanation/authors.md` compares the code, the paper and the default.
"""

from __future__ import annotations

import math
from typing import Any

from cclk.losses.objectives import WeightedNegatives, WeightedPositives

TEMPERATURE = 0.5
RIDGE, HARDNEG_RIDGE = 0.01, 100.0
OPTIONS: dict[str, Any] = {"weights": "authors", "views": "all", "symmetric": True}
"""The options of a loss that `ConditionalLoss.authors` fixes."""
LOG_FLOOR = math.log(1e-7)
"""The lower bound of the conditional estimate, whatever the temperature."""


class AuthorsNegatives(WeightedNegatives):
    """Fair and HardNeg CCL-K: n counts samples, since the sum over views counts both views."""

    log_floor = LOG_FLOOR
    learns_floor = False

    @property
    def log_count(self) -> float:
        return math.log(self.layout.samples - 1)


class AuthorsPositives(WeightedPositives):
    """WeaklySup CCL-K: the marginal contains the positive pair."""

    log_floor = LOG_FLOOR
    learns_floor = False
    excludes_positive = False


FORMS: dict[object, type[WeightedNegatives] | type[WeightedPositives]] = {
    WeightedNegatives: AuthorsNegatives,
    WeightedPositives: AuthorsPositives,
}
"""The authors' form of an objective."""
