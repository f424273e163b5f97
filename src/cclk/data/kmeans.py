"""Clusters of the condition by k-means: what the cluster baselines condition on instead of the
condition itself.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from cclk.extras import needed_for

_STARTS = 4


def kmeans(condition: Tensor, k: int, seed: int = 0) -> Tensor:
    """The cluster of each row, int64 (n,) from 0 to k - 1; distances are in the units of the
    columns as given.
    """
    with needed_for("k-means"):
        from sklearn.cluster import KMeans  # type: ignore[import-untyped]
        from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    values = condition.detach().cpu().numpy()
    values = values.reshape(len(values), -1)
    if not np.isfinite(values).all():
        raise ValueError(
            "condition has values that are NaN or infinite: drop or impute them before clustering"
        )
    if not 1 <= k <= len(values):
        raise ValueError(f"k is {k}: it must be from 1 to the {len(values)} rows of the condition")
    # One thread: sums over several are added in another order, and a tie may fall otherwise on
    # another machine.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(n_clusters=k, n_init=_STARTS, random_state=seed).fit(values)
    labels = found.labels_.astype(np.int64)
    distinct = len(np.unique(labels))
    if distinct < k:
        raise ValueError(
            f"k is {k}, but the condition has only {distinct} distinct values: choose a k of at"
            f" most {distinct}"
        )
    return torch.from_numpy(labels)
