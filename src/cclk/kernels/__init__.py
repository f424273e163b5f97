"""Kernels on the condition, and the algebra to combine them: `+`, `*`, numbers, `.on(columns)`."""

from cclk.kernels.base import Constant, Kernel
from cclk.kernels.custom import Precomputed, Similarity
from cclk.kernels.delta import Delta
from cclk.kernels.dot_product import Cosine, Linear, Polynomial
from cclk.kernels.for_columns import for_column, for_condition
from cclk.kernels.stationary import RBF, Laplacian

__all__ = [
    "RBF",
    "Constant",
    "Cosine",
    "Delta",
    "Kernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "Similarity",
    "for_column",
    "for_condition",
]
