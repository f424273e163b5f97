"""The linear eraser: features that no linear predictor can read the condition from."""

from __future__ import annotations

import importlib
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cclk.condition import Condition, column_slices, infer_condition
from cclk.errors import CclkError, DataError, SettingsError, warn
from cclk.removal.targets import linear_targets

Features = TypeVar("Features")
RANK_TOLERANCE = 1e-10
"""Eigenvalues of the correlation matrix below this share of the largest count as 0."""
CORRELATION_TOLERANCE = 1e-9


class LinearEraser:
    r"""The smallest linear change of features after which no linear predictor of the condition is
    better than a constant.

    .. math:: h' = M (h - \mu) + \mu, \quad M = I - \Sigma^{1/2} U U^\top \Sigma^{-1/2}, \quad
              U = \text{left singular vectors of } \Sigma^{-1/2}\, \mathrm{Cov}(h, \psi)

    psi are the numbers of the condition as they are and an indicator of each category, all columns
    together. Non-linear predictors may still read the condition; `LeakagePenalty` is against these.
    New samples need no condition, and `fold` puts the change in the last layer of a network.

    A step of scikit-learn's pipelines, without needing scikit-learn:
    `make_pipeline(LinearEraser(), LogisticRegression()).fit(X, y,
    lineareraser__sensitive_features=age)`.

    Fitted attributes: `mean_` (d,), `projection_` (d, d), which is M, `rank_`, the number of erased
    directions, `n_features_in_`, and for data frames `feature_names_in_`.

    Shape:
        features: (n, d), a NumPy array, a tensor or a data frame; the result has its type and
            dtype.
        sensitive_features: (n,), (n, k), a data frame or a mapping of columns.

    Example:
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> features, age = random.normal(size=(100, 4)), random.uniform(20, 80, 100)
        >>> features[:, 0] += age
        >>> erased = LinearEraser().fit_transform(features, sensitive_features=age)
        >>> bool(abs(np.cov(erased.T, age)[-1, :-1]).max() < 1e-9)
        True

    Reference:
        Belrose et al., LEACE: Perfect Linear Concept Erasure in Closed Form, NeurIPS 2023.
    """

    mean_: npt.NDArray[np.float64]
    projection_: npt.NDArray[np.float64]
    rank_: int
    n_features_in_: int
    feature_names_in_: npt.NDArray[Any]

    def fit(self, features: object, y: object = None, *, sensitive_features: object = None) -> Self:
        """Fit the mean and the projection, and return the eraser.

        Args:
            features: Features of the training split, (n, d).
            y: Ignored: pipelines pass the label to each step.
            sensitive_features: The condition to erase, n rows; kinds of columns are inferred as in
                `cclk.columns`.
        """
        if sensitive_features is None:
            raise DataError(
                "there is nothing to erase: pass the condition as sensitive_features; y is the"
                " label, which is kept"
            )
        h = _as_matrix(features)
        table = infer_condition(sensitive_features, name="sensitive_features")
        if len(table) != len(h):
            raise DataError(
                f"sensitive_features has {len(table)} rows but features has {len(h)}: every sample"
                " needs one row"
            )
        if len(h) < 2:
            raise DataError(f"features has {len(h)} rows: the eraser needs at least 2 samples")
        targets = linear_targets(table).cpu()
        mean = h.mean(dim=0)
        centered = h - mean
        std = centered.square().mean(dim=0).sqrt()
        # In units of standard deviations, so that a feature of small scale is not taken for a
        # numerical zero. The rounding error of a constant feature is no feature.
        std = std.where(std > 1e-12 * h.abs().amax(dim=0), 0.0)
        unit = torch.where(std > 0, centered / std.where(std > 0, 1.0), 0.0)
        variances, axes = torch.linalg.eigh(unit.T @ unit / len(h))
        kept = variances > RANK_TOLERANCE * variances[-1].clamp_min(1e-300)
        axes, roots = axes[:, kept], variances[kept].sqrt()
        white = unit @ (axes / roots)
        left, values, _ = torch.linalg.svd(white.T @ targets / len(h), full_matrices=False)
        left = left[:, values > CORRELATION_TOLERANCE]
        erased = (axes * roots) @ left @ left.T @ (axes / roots).T
        scale = std.where(std > 0, 1.0)
        projection = torch.eye(h.shape[1], dtype=h.dtype) - scale[:, None] * erased / scale
        self.mean_, self.projection_ = mean.numpy(), projection.numpy()
        self.rank_, self.n_features_in_ = left.shape[1], h.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        if (names := _names(features)) is not None:
            self.feature_names_in_ = names
        if 0 < self.rank_ == len(roots):
            warn(
                f"the condition has at least as many functions as features has directions"
                f" ({len(roots)}): erasing it leaves only constants. Merge rare categories, erase"
                " fewer columns, or use wider features."
            )
        return self

    def transform(self, features: Features) -> Features:
        """Return the features without the condition, (n, d).

        Args:
            features: Features of any samples, (n, d).
        """
        matrix, bias = self.matrix_and_bias()
        h = _as_matrix(features)
        if h.shape[1] != len(bias):
            raise DataError(
                f"features has width {h.shape[1]} but the eraser was fitted on {len(bias)}: pass"
                " features of the same encoder"
            )
        names, fitted = _names(features), getattr(self, "feature_names_in_", None)
        if names is not None and fitted is not None and list(names) != list(fitted):
            wrong = next(pair for pair in zip(names, fitted, strict=True) if pair[0] != pair[1])
            raise DataError(
                f"features has the column {wrong[0]!r} where the eraser was fitted on {wrong[1]!r}:"
                " pass the same columns in the same order"
            )
        mean = torch.from_numpy(self.mean_)
        erased: Features = self._output(features, (h - mean) @ matrix.T + mean)
        return erased

    def fit_transform(
        self, features: Features, y: object = None, *, sensitive_features: object = None
    ) -> Features:
        """Fit the eraser, and return the features without the condition.

        Args:
            features: Features of the training split, (n, d).
            y: Ignored: pipelines pass the label to each step.
            sensitive_features: The condition to erase, n rows.
        """
        return self.fit(features, y, sensitive_features=sensitive_features).transform(features)

    def matrix_and_bias(self) -> tuple[Tensor, Tensor]:
        """Return M (d, d) and mu - M mu (d,) in float64: h' = M h + bias."""
        if not hasattr(self, "projection_"):
            raise CclkError(
                "the eraser has not been fitted: call fit(features, sensitive_features=...)"
            )
        matrix, mean = torch.from_numpy(self.projection_), torch.from_numpy(self.mean_)
        return matrix, mean - matrix @ mean

    @torch.no_grad()
    def fold(self, linear: nn.Linear) -> nn.Linear:
        """Return a copy of the last layer of an encoder with the eraser in its weights.

        Args:
            linear: The layer that computes the features.
        """
        matrix, bias = self.matrix_and_bias()
        if linear.out_features != len(bias):
            raise DataError(
                f"the layer has {linear.out_features} outputs but the eraser was fitted on"
                f" {len(bias)} features: pass the layer that computes the features"
            )
        weight = linear.weight.detach().double().cpu()
        if linear.bias is not None:
            bias = bias + matrix @ linear.bias.detach().double().cpu()
        return _linear(matrix @ weight, bias, linear.weight)

    def as_linear(self) -> nn.Linear:
        """Return the eraser as a layer of float32 without gradients, (n, d) to (n, d)."""
        matrix, bias = self.matrix_and_bias()
        return _linear(matrix, bias, torch.empty(0)).requires_grad_(False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # What scikit-learn asks of a step; it is not a base class, because features can be erased
    # without it.

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters of the eraser, which has none."""
        return {}

    def set_params(self, **parameters: object) -> Self:
        """Return the eraser; it has no parameters to set."""
        for name in parameters:
            raise SettingsError(f"LinearEraser has no parameter {name!r}: it has none at all")
        return self

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[Any]:
        """Return the names of the erased features, which are those of the features."""
        self.matrix_and_bias()
        names: Any = getattr(self, "feature_names_in_", input_features)
        if names is None:
            names = [f"x{number}" for number in range(self.n_features_in_)]
        return np.array(names, dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the type of what `transform` returns for arrays and data frames, and return the
        eraser.

        Args:
            transform: "pandas", "polars", or "default", the type of the features; None: no change.
        """
        if transform not in (None, "default", "pandas", "polars"):
            raise SettingsError(
                f"transform is {transform!r}: choose one of default, pandas, polars"
            )
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # which `clone` copies
        return self

    def get_metadata_routing(self) -> Any:
        """Return what scikit-learn's metadata routing passes to `fit`: sensitive_features."""
        from sklearn.utils.metadata_routing import (  # type: ignore[import-untyped]
            MetadataRequest,
        )

        request = MetadataRequest(owner=self)
        request.fit.add_request(param="sensitive_features", alias=True)
        return request

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags, TransformerTags  # type: ignore[import-untyped]

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64", "float32"]),
        )

    def _output(self, features: Any, erased: Tensor) -> Any:
        """Return erased features in the type of the features, or in that of `set_output`."""
        if isinstance(features, Tensor):
            dtype = features.dtype if features.is_floating_point() else torch.float64
            return erased.to(device=features.device, dtype=dtype)
        library = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        framed = hasattr(features, "columns")
        array = np.asarray(features)
        values = erased.numpy().astype(array.dtype if array.dtype.kind == "f" else np.float64)
        if library == "default" and not framed:
            return values
        frame = (
            type(features) if library == "default" else importlib.import_module(library).DataFrame
        )
        names = list(features.columns if framed else self.get_feature_names_out())
        if frame.__module__.startswith("polars"):
            return frame(values, schema=names)
        return frame(values, columns=names, index=getattr(features, "index", None))


def linear_r2(features: Tensor, condition: Condition) -> dict[str, float]:
    """Return the largest R² of least squares on the same samples for each column of a condition.

    Args:
        features: (n, d).
        condition: n rows, with named columns.
    """
    h = _as_matrix(features)
    centered = h - h.mean(dim=0)
    scaled = centered / centered.square().mean(dim=0).sqrt().clamp_min(1e-300)
    left, values, _ = torch.linalg.svd(scaled, full_matrices=False)
    basis = left[:, values > 1e-5 * values[:1].clamp_min(1e-300)]
    result = {}
    for column, part in column_slices(condition.columns):
        targets = linear_targets(Condition(condition.values[:, part].double(), (column,)))
        shares = (basis.T @ targets).square().sum(dim=0) / targets.square().sum(dim=0)
        result[column.name] = float(shares.max()) if len(shares) else 0.0
    return result


def append_eraser(network: nn.Module, eraser: LinearEraser) -> nn.Sequential:
    """Return the network followed by the eraser as a fixed linear layer, for networks whose last
    layer is not linear.

    Args:
        network: A module that computes the features the eraser was fitted on.
        eraser: A fitted eraser.
    """
    layer = eraser.as_linear()
    first = next(network.parameters(), None)
    return nn.Sequential(
        network, layer if first is None else layer.to(device=first.device, dtype=first.dtype)
    )


@torch.no_grad()
def _linear(weight: Tensor, bias: Tensor, like: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device=like.device, dtype=like.dtype)
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    return layer


def _as_matrix(features: Any) -> Tensor:
    if hasattr(features, "toarray"):
        raise DataError("features is a sparse matrix: pass features.toarray()")
    try:
        values = features.detach().cpu() if isinstance(features, Tensor) else np.asarray(features)
        if "complex" in str(values.dtype):
            raise DataError("it has complex numbers")
        matrix = (
            values.double()
            if isinstance(values, Tensor)
            else torch.from_numpy(values.astype(np.float64))
        )
    except (TypeError, ValueError) as error:
        raise DataError(f"features is not a table of numbers: {error}") from error
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise DataError(
            f"features has shape {tuple(matrix.shape)}: features must have shape (n, d)"
        )
    if not matrix.isfinite().all():
        raise DataError("features has values that are NaN or infinite: drop or impute their rows")
    return matrix


def _names(features: Any) -> npt.NDArray[Any] | None:
    """Return the names of the columns of a data frame, if they are text."""
    names = list(getattr(features, "columns", []))
    return np.array(names, dtype=object) if names and isinstance(names[0], str) else None
