"""The conditional operator: from a kernel and a condition to the weights of each anchor."""

from cclk.operator.diagnose import Diagnosis, diagnose
from cclk.operator.solvers import Nystrom
from cclk.operator.weights import conditional_weights

__all__ = ["Diagnosis", "Nystrom", "conditional_weights", "diagnose"]
