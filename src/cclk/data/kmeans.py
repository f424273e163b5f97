"""K-means clusters of the condition, which replace the condition in the cluster baselines."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from cclk._extras import needed_for
from cclk.errors import DataError

_STARTS = 4


def kmeans(condition: Tensor, k: int, seed: int = 0) -> Tensor:
    """Return the cluster of each row, int64 (n,) from 0 to k - 1.

    Args:
        condition: numbers (n,) or (n, m); distances are in the units of the columns.
        k: the number of clusters.
        seed: seed of the initial centers.
    """
    with needed_for("k-means"):
        from sklearn.cluster import KMeans  # type: ignore[import-untyped]
        from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    values = condition.detach().cpu().numpy().reshape(len(condition), -1)
    if not np.isfinite(values).all():
        raise DataError(
            "condition has values that are NaN or infinite: drop or impute them before clustering"
        )
    if not 1 <= k <= len(values):
        raise DataError(
            f"clusters is {k}: it must be from 1 to the {len(values)} rows of the condition"
        )
    # One thread: several add up sums in another order, so ties could depend on the machine.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(n_clusters=k, n_init=_STARTS, random_state=seed).fit(values)
    labels = fitted.labels_.astype(np.int64)
    distinct = len(np.unique(labels))
    if distinct < k:
        raise DataError(
            f"clusters is {k}, but the condition has only {distinct} distinct values: choose at"
            f" most {distinct}"
        )
    return torch.from_numpy(labels)
