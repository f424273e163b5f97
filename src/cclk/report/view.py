"""What a report shows of a run, as plain values and arrays, and the helpers that make them small
enough to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cclk.evaluation import Evaluation, FeatureScores
from cclk.training.settings import Settings

Array = NDArray[Any]

COLOR_NAMES = ("red", "green", "blue")


@dataclass(frozen=True)
class Embedding:
    """Samples in the plane. `embed2d` makes it."""

    points: Array
    """(n, 2)."""
    labels: Array
    """(n,) label numbers."""
    condition: Array
    """(n, k); red, green and blue in 0..255 if those are its names."""
    classes: Sequence[str]
    condition_names: Sequence[str]
    explained: tuple[float, float]
    """The share of the features' variance that each axis shows."""
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The name of each condition column that holds category codes -> the names of these categories."""


@dataclass(frozen=True)
class KernelFigure:
    """The kernel matrix of some samples beside their weights, both in 0..1. `kernel_figure`
    makes it.
    """

    kernel: Array
    weights: Array
    samples: Sequence[str]
    """The condition of each sample in words."""
    colors: Sequence[str] = ()
    """The samples' own colors, if the condition is a color."""
    codes: Array | None = None
    """(n,) category codes of the samples, if a column of the condition holds categories."""
    categories: Sequence[str] = ()
    """The names of these categories."""
    column: str = ""
    """The name of that column."""


@dataclass(frozen=True)
class SampleImages:
    """Images and the two views of each that the loss compares: (n, c, h, w) or (n, h, w, c),
    uint8 or numbers in 0..1.
    """

    images: Array | Tensor
    first: Array | Tensor
    second: Array | Tensor
    captions: Sequence[str] = ()


@dataclass(frozen=True)
class RunView:
    """What a report shows of one run. The report has a placeholder for anything that is missing."""

    name: str
    settings: Settings | None = None
    metrics: Sequence[Mapping[str, object]] = ()
    """The lines of the run's `metrics.jsonl`."""
    evaluation: Evaluation | None = None
    version: str = ""
    """The version of cclk that trained the run."""
    command: str = ""
    """The command that trained the run."""
    data_fingerprint: str = ""
    embedding: Embedding | None = None
    kernel: KernelFigure | None = None
    images: SampleImages | None = None
    label: str = "label"
    """What the labels are, in the singular: "digit"."""
    condition: str = "condition"
    """What the condition is: "color"; "" if there is none."""
    data: str = ""
    """One line about the data."""

    @property
    def scores(self) -> FeatureScores:
        """Of the encoder's features; empty if the run has not been evaluated."""
        return self.evaluation.encoder if self.evaluation else FeatureScores()


def is_color(condition_names: Sequence[str]) -> bool:
    """Whether the condition's columns are the parts of a color."""
    return tuple(condition_names) == COLOR_NAMES


def hex_colors(condition: Array) -> list[str]:
    """Rows of red, green and blue in 0..255 as "#rrggbb"."""
    return [
        f"#{red:02x}{green:02x}{blue:02x}"
        for red, green, blue in np.clip(np.rint(condition), 0, 255).astype(int).tolist()
    ]


def embed2d(
    features: Array | Tensor,
    labels: Array | Tensor,
    condition: Array | Tensor,
    *,
    classes: Sequence[str],
    condition_names: Sequence[str],
    categories: Mapping[str, Sequence[str]] | None = None,
    limit: int = 1500,
    seed: int = 0,
) -> Embedding:
    """The first two principal components, fitted on all samples; at most `limit` of them, drawn
    at random, are kept to be shown.

    Args:
        classes: the names of the labels.
        condition_names: one for each column of the condition.
        categories: condition name -> the names of its categories, for each column that holds
            category codes.
    """
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]

    wide, y, z = as_array(features).astype(np.float64), as_array(labels), as_array(condition)
    z = z[:, None] if z.ndim == 1 else z
    if not len(wide) == len(y) == len(z) or len(wide) < 2:
        raise ValueError(
            f"features, labels and condition have {len(wide)}, {len(y)} and {len(z)} rows: they"
            " must be the same samples, 2 or more"
        )
    if len(condition_names) != z.shape[1]:
        raise ValueError(
            f"the condition has {z.shape[1]} columns and {len(condition_names)} names: give one"
            " name for each column"
        )
    if wide.shape[1] < 2:
        wide = np.pad(wide, ((0, 0), (0, 2 - wide.shape[1])))
    total = float(wide.var(axis=0).sum())
    points, explained = np.zeros((len(wide), 2)), (0.0, 0.0)
    if total > 0:  # otherwise the features have collapsed to one point
        model = PCA(n_components=2, svd_solver="covariance_eigh").fit(wide)
        points = model.transform(wide)
        variance = points.var(axis=0) / total
        explained = (float(variance[0]), float(variance[1]))
    rows = np.arange(len(wide))
    if len(rows) > limit:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:limit])
    return Embedding(
        points[rows],
        y[rows],
        z[rows],
        tuple(classes),
        tuple(condition_names),
        explained,
        dict(categories or {}),
    )


def kernel_figure(
    kernel: Array | Tensor,
    weights: Array | Tensor,
    condition: Array | Tensor,
    *,
    condition_names: Sequence[str] = (),
    categories: Mapping[str, Sequence[str]] | None = None,
    limit: int = 64,
) -> KernelFigure:
    """K and W of a batch, min-max normalized as in the paper's figure.

    Samples are ordered by their categories, then along the main direction of the other columns.
    `categories` is as in `embed2d`.
    """
    k, w, z = (
        as_array(kernel).astype(np.float64),
        as_array(weights).astype(np.float64),
        as_array(condition).astype(np.float64),
    )
    z = z[:, None] if z.ndim == 1 else z
    if not k.shape == w.shape == (len(z), len(z)):
        raise ValueError(
            f"kernel and weights must be ({len(z)}, {len(z)}), one row for each row of the"
            f" condition, got {k.shape} and {w.shape}"
        )
    k, w, z = k[:limit, :limit], w[:limit, :limit], z[:limit]
    named = {
        name: place for place, name in enumerate(condition_names) if name in (categories or {})
    }
    others = z[:, [place for place in range(z.shape[1]) if place not in named.values()]]
    along = np.zeros(len(z))
    if others.size:
        about = others - others.mean(axis=0)
        along = about @ np.linalg.svd(about, full_matrices=False)[2][0]
    order = np.lexsort((along, *(z[:, place] for place in reversed(named.values()))))
    k, w, z = k[np.ix_(order, order)], w[np.ix_(order, order)], z[order]
    samples = [", ".join(describe(row, condition_names, categories or {})) for row in z]
    first = next(iter(named), "")
    return KernelFigure(
        _normalize(k),
        _normalize(w),
        samples,
        colors=hex_colors(z) if is_color(condition_names) else (),
        codes=z[:, named[first]].astype(int) if first else None,
        categories=tuple((categories or {}).get(first, ())),
        column=first,
    )


def describe(
    row: Array, names: Sequence[str], categories: Mapping[str, Sequence[str]], most: int = 4
) -> list[str]:
    """The first columns of a condition in words: ["site Oslo", "age 34"]."""
    return [
        f"{name} {category(int(value), categories[name]) if name in categories else f'{value:.4g}'}"
        for name, value in zip(names[:most], row, strict=False)
    ]


def category(code: int, names: Sequence[str]) -> str:
    """The name of a category; its code if it has none."""
    return names[code] if 0 <= code < len(names) else str(code)


def as_array(values: Array | Tensor) -> Array:
    """A tensor, on whatever device, as an array; arrays as they are."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _normalize(matrix: Array) -> Array:
    low, high = float(matrix.min()), float(matrix.max())
    scaled: Array = (matrix - low) / (high - low if high > low else 1.0)
    return scaled
