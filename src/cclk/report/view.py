"""The contents of a report as plain values and arrays, and functions that reduce data to them."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cclk.errors import DataError
from cclk.evaluation import Evaluation, FeatureScores
from cclk.training.settings import Settings

Array = NDArray[Any]

Triple = tuple[str, str, str, str]
"""Data URIs of an image and of the two views of it that the loss compares, and a caption."""

_COLOR_NAMES = ("red", "green", "blue")
_LARGEST = 64  # pixels a side; larger images are downscaled


@dataclass(frozen=True)
class Embedding:
    """Samples in the plane, from `embed2d`."""

    points: Array
    """(n, 2)."""
    labels: Array
    """(n,) label codes."""
    condition: Array
    """(n, k); red, green and blue in 0..255 if those are its names."""
    classes: Sequence[str]
    condition_names: Sequence[str]
    explained: tuple[float, float]
    """Share of the features' variance along each axis."""
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Condition column that holds category codes -> names of its categories."""


@dataclass(frozen=True)
class KernelFigure:
    """Kernel matrix and weights of a batch, both in 0..1, from `kernel_figure`."""

    kernel: Array
    weights: Array
    samples: Sequence[str]
    """Description of the condition of each sample."""
    colors: Sequence[str] = ()
    """Colors of the samples, if the condition is a color."""
    codes: Array | None = None
    """(n,) category codes of the samples, if a column of the condition holds categories."""
    categories: Sequence[str] = ()
    """Names of these categories."""
    column: str = ""
    """Name of that column."""


@dataclass(frozen=True)
class RunView:
    """The contents of a report on one run. The report has a placeholder for missing parts."""

    name: str
    settings: Settings | None = None
    metrics: Sequence[Mapping[str, object]] = ()
    """The lines of the run's `metrics.jsonl`."""
    evaluation: Evaluation | None = None
    version: str = ""
    """Version of cclk that trained the run."""
    command: str = ""
    """Command that trained the run."""
    data_fingerprint: str = ""
    embedding: Embedding | None = None
    kernel: KernelFigure | None = None
    images: tuple[Triple, ...] = ()
    label: str = "label"
    """What the labels are, in the singular: "digit"."""
    condition: str = "condition"
    """What the condition is: "color"; "" if there is none."""
    data: str = ""
    """Description of the data in one line."""

    @property
    def scores(self) -> FeatureScores:
        """Of the encoder's features; empty if the run has not been evaluated."""
        return self.evaluation.encoder if self.evaluation else FeatureScores()


def is_color(condition_names: Sequence[str]) -> bool:
    """Whether the condition's columns are the channels of a color."""
    return tuple(condition_names) == _COLOR_NAMES


def hex_colors(condition: Array) -> list[str]:
    """Format rows of red, green and blue in 0..255 as "#rrggbb"."""
    rows = np.clip(np.rint(condition), 0, 255).astype(np.uint8)
    return [f"#{bytes(row).hex()}" for row in rows.tolist()]


def embed2d(
    features: Array | Tensor,
    labels: Array | Tensor,
    condition: Array | Tensor,
    *,
    classes: Sequence[str],
    condition_names: Sequence[str],
    categories: Mapping[str, Sequence[str]] | None = None,
    limit: int = 1500,
) -> Embedding:
    """Project features (n, d) to their first two principal components, and keep `limit` rows."""
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]

    x, y, z = as_array(features).astype(np.float64), as_array(labels), _columns(condition)
    if len(x) < 2:
        raise DataError(f"the test split has {len(x)} samples: a report needs at least 2")
    if x.shape[1] < 2:
        x = np.pad(x, ((0, 0), (0, 2 - x.shape[1])))
    total = float(x.var(axis=0).sum())
    points, explained = np.zeros((len(x), 2)), (0.0, 0.0)
    if total > 0:  # otherwise the features have collapsed to one point
        points = PCA(n_components=2, svd_solver="covariance_eigh").fit(x).transform(x)
        variance = points.var(axis=0) / total
        explained = (float(variance[0]), float(variance[1]))
    rows = np.arange(len(x))
    if len(rows) > limit:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:limit])
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
    """Scale K and W of a batch, (n, n), to 0..1, and keep the first `limit` samples.

    Samples are ordered by their categories, then along the main direction of the other columns.
    """
    categories = categories or {}
    k, w = as_array(kernel).astype(np.float64), as_array(weights).astype(np.float64)
    z = _columns(condition).astype(np.float64)
    k, w, z = k[:limit, :limit], w[:limit, :limit], z[:limit]
    named = {name: i for i, name in enumerate(condition_names) if name in categories}
    others = z[:, [i for i in range(z.shape[1]) if i not in named.values()]]
    along = np.zeros(len(z))
    if others.size:
        centered = others - others.mean(axis=0)
        along = centered @ np.linalg.svd(centered, full_matrices=False)[2][0]
    order = np.lexsort((along, *(z[:, i] for i in reversed(named.values()))))
    k, w, z = k[np.ix_(order, order)], w[np.ix_(order, order)], z[order]
    first = next(iter(named), "")
    return KernelFigure(
        _normalize(k),
        _normalize(w),
        [", ".join(describe(row, condition_names, categories)) for row in z],
        colors=hex_colors(z) if is_color(condition_names) else (),
        codes=z[:, named[first]].astype(int) if first else None,
        categories=tuple(categories.get(first, ())),
        column=first,
    )


def sample_images(
    images: Tensor, first: Tensor, second: Tensor, captions: Sequence[str]
) -> tuple[Triple, ...]:
    """Encode images and two views of each as PNG, all (n, 1 or 3, h, w), uint8 or in 0..1."""
    rows = zip(images, first, second, captions, strict=True)
    return tuple((_uri(image), _uri(one), _uri(two), caption) for image, one, two, caption in rows)


def _uri(image: Tensor) -> str:
    from PIL import Image

    if image.is_floating_point():
        image = (255 * image.nan_to_num().clamp(0, 1)).round().byte()
    shown = Image.fromarray(np.ascontiguousarray(image.permute(1, 2, 0).squeeze(2).numpy()))
    shown.thumbnail((_LARGEST, _LARGEST), Image.Resampling.LANCZOS)
    with io.BytesIO() as file:
        shown.save(file, "PNG", optimize=True)
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def describe(
    row: Array, names: Sequence[str], categories: Mapping[str, Sequence[str]], most: int = 4
) -> list[str]:
    """Describe the first columns of a condition: ["site Oslo", "age 34"]."""
    return [
        f"{name} {category(int(value), categories[name]) if name in categories else f'{value:.4g}'}"
        for name, value in zip(names[:most], row, strict=False)
    ]


def category(code: int, names: Sequence[str]) -> str:
    """Return the name of a category; its code if it has none."""
    return names[code] if 0 <= code < len(names) else str(code)


def as_array(values: Array | Tensor) -> Array:
    """Convert a tensor on any device to an array."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _columns(condition: Array | Tensor) -> Array:
    array = as_array(condition)
    return array[:, None] if array.ndim == 1 else array


def _normalize(matrix: Array) -> Array:
    low, high = float(matrix.min()), float(matrix.max())
    scaled: Array = (matrix - low) / (high - low if high > low else 1.0)
    return scaled
