"""Datasets in memory and on disk: splits, tables, images, and the batches that training draws
from them.
"""

from cclk.data.dataset import Dataset, Split

__all__ = ["Dataset", "Split"]
