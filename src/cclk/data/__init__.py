"""Datasets in memory and on disk: splits, tables, images, and the batches drawn from them."""

from cclk.data.dataset import Dataset, Split

__all__ = ["Dataset", "Split"]
