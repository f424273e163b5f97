"""The conditional operator: from a kernel and a condition to the weights of each anchor."""

from cclk.weights.diagnose import Diagnosis, diagnose
from cclk.weights.solvers import Nystrom
from cclk.weights.variants import conditional_weights

__all__ = ["Diagnosis", "Nystrom", "conditional_weights", "diagnose"]
