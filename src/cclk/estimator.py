"""A scikit-learn estimator: learn features of X that ignore or use a condition.

encoder = ConditionalEncoder(steps=500).fit(X, sensitive_features=age)
features = encoder.transform(X)            # features of X from which age is hard to read
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import (  # type: ignore[import-untyped]
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
from torch import Tensor

import cclk
from cclk._reading import reason
from cclk.columns import Column
from cclk.condition import Condition, infer_condition
from cclk.data.dataset import UNLABELED, Dataset, Split
from cclk.errors import CclkError, CclkWarning, DataError, SettingsError
from cclk.registry import require_trust
from cclk.training import methods
from cclk.training.network import EncoderFile
from cclk.training.settings import Settings, import_paths, load, parse
from cclk.training.trainer import Trainer

Array = npt.NDArray[Any]
_DEFAULTS = Settings()
_SHORT = {"fair": "fair-cclk", "weaksup": "weaksup-cclk", "hardneg": "hardneg-cclk"}


class ConditionalEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn features of X by contrast, with variables to ignore (`sensitive_features`) or to use
    (`condition`).

    Args:
        method: "fair", "weaksup", "hardneg", "infonce", or any other method of `cclk train`; "auto"
            is "fair" with sensitive features, "weaksup" with a condition, else "infonce".
        kernel: a kernel of `cclk train`; "auto" selects one by the kind of each column.
        encoder: "mlp" for tables; "lenet5", "resnet18", ... for images, or an import path
            "package.module:factory". See `cclk.models.build_encoder`.
        encoder_options: options of the encoder, such as {"hidden": [128, 64]}.
        augmentation: "simclr", "digits", "none" or "vectors"; "auto" is "digits" for images and
            "vectors" (noise and masked values) for tables.
        steps: number of batches to train on; None: as many as `cclk.train`.
        batch_size: samples per step; all samples if there are fewer.
        lr: base learning rate of AdamW.
        weight_decay: weight decay of AdamW, not applied to biases and norms.
        temperature: divisor of the cosine similarities; None: that of `cclk.train`.
        weights: weights of neighbors: "auto", "loo", "paper", "authors" or "nw".
        neighbors: effective number of neighbors of the median anchor, which sets the length scale
            of "rbf" and "laplacian" kernels.
        remove: how much of the sensitive features to remove, at the cost of accuracy: "light",
            "medium" or "strong", which set the three parameters below where they are None; "none"
            is the contrastive loss alone. "auto" is "medium" with sensitive features.
        leakage_penalty: strength of the penalty on what the features reveal of the sensitive
            features, see `cclk.LeakagePenalty`; 0 for none.
        feature_width: number of features. Narrow features are easier to clear of a condition.
        feature_noise: standard deviation of noise on the features, a fixed function of the table;
            0 for none.
        keep: whether the features must keep the labels y that are passed to `fit`.
        sampler: "uniform", "local" (batches of groups with similar conditions) or "clusters";
            "auto" is "uniform" for these methods.
        random_state: seed of weights, batches and views, an integer.

    Attributes:
        network_: the trained network.
        settings_: all settings of the training.
        n_features_in_: number of columns of X, or of values of an image.
        feature_names_in_: names of the columns of X, where it has names.
        image_shape_: shape (c, h, w) of an image, where X is images.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> encoder = ConditionalEncoder(steps=2, encoder_options={"hidden": [8]})
    >>> encoder.fit_transform(X, sensitive_features=X[:, 0]).shape
    (60, 8)
    """

    def __init__(
        self,
        method: str = "auto",
        kernel: str = _DEFAULTS.loss.kernel,
        encoder: str = "mlp",  # X is a table in most pipelines
        *,
        encoder_options: Mapping[str, object] | None = None,
        augmentation: str = "auto",  # depends on X, which is unknown before fit
        steps: int | None = 500,  # fewer than a run has: a grid search fits many times
        batch_size: int = _DEFAULTS.train.batch_size,
        lr: float = _DEFAULTS.optim.lr,
        weight_decay: float = 0.01,  # the usual value for AdamW
        temperature: float | None = 0.2,  # best for removal, see docs/how-to/remove-a-condition.md
        weights: str = "auto",
        neighbors: float = 3.0,
        remove: str = "auto",
        leakage_penalty: float | None = None,
        feature_width: int | None = None,
        feature_noise: float | None = None,
        keep: bool = False,
        sampler: str = _DEFAULTS.train.sampler,
        random_state: int = _DEFAULTS.seed,
    ) -> None:
        self.method = method
        self.kernel = kernel
        self.encoder = encoder
        self.encoder_options = encoder_options
        self.augmentation = augmentation
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.temperature = temperature
        self.weights = weights
        self.neighbors = neighbors
        self.remove = remove
        self.leakage_penalty = leakage_penalty
        self.feature_width = feature_width
        self.feature_noise = feature_noise
        self.keep = keep
        self.sampler = sampler
        self.random_state = random_state

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        sensitive_features: Any = None,
        condition: Any = None,
    ) -> Self:
        """Train the encoder.

        Args:
            X: a table (n, k) of numbers, or uint8 images (n, c, h, w).
            y: labels that the features must keep, if `keep`; else ignored, for pipelines.
            sensitive_features: variables to ignore: numbers, dates (as days) or categories, in one
                or several columns, as an array or a data frame; kinds are inferred as described in
                `cclk.columns`.
            condition: variables to use, in the same forms. Pass at most one of the two.
        """
        if sensitive_features is not None and condition is not None:
            raise DataError("pass sensitive_features (to ignore) or condition (to use), not both")
        x = self._samples(X, reset=True)
        variables = sensitive_features if sensitive_features is not None else condition
        method = self._method(variables is not None, sensitive_features is not None)
        removes = self.remove not in ("auto", "none") or self.leakage_penalty
        if variables is None and removes:
            raise SettingsError(
                "fit needs sensitive_features, what to remove: y is the label, which is kept"
            )
        if len(x) < 2:
            raise DataError(f"n_samples={len(x)}: contrast needs at least 2 samples")
        table = _condition(variables, len(x))
        labels, classes = self._labels(y, len(x))
        split = Split(x, labels, table.values)
        dataset = Dataset("X", split, split, split, classes, table.columns, "")
        with warnings.catch_warnings():
            if variables is None:
                warnings.simplefilter("ignore", CclkWarning)
            with closing(Trainer(self._settings(method, x), dataset)) as trainer:
                for step in range(trainer.total):
                    trainer.step(step)
        self.settings_ = trainer.settings
        self.network_ = trainer.network.cpu().eval().requires_grad_(False)
        self._n_features_out = int(self.network_.encoder.width)
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Return the features (n, width) of X, in its precision.

        Args:
            X: samples in the form that was passed to `fit`.
        """
        check_is_fitted(self, "network_")
        samples = self._samples(X, reset=False, keep=True)
        double = samples.dtype == torch.float64
        encoder = (self.network_.double() if double else self.network_.float()).encoder
        with torch.inference_mode(), encoder.one_table():
            parts = [encoder(part) for part in torch.split(samples, 1024)]
        features: Array = torch.cat(parts).numpy()
        return features

    def leakage(
        self,
        X: Any,  # noqa: N803
        condition: Any,
        *,
        split: Any = None,
        groups: Any = None,
    ) -> cclk.Leakage:
        """Measure how well the condition can be predicted from the features of X.

        Args:
            X: samples in the form that was passed to `fit`, but not the same ones: features of
                training samples may leak more or less than those of new samples.
            condition: the variables to predict, in the forms that `fit` takes.
            split: as in `cclk.leakage`, which has the details.
            groups: as in `cclk.leakage`.
        """
        features = self.transform(X)
        return cclk.leakage(features, condition, split, self.random_state, groups=groups)

    def save(self, path: str | Path) -> None:
        """Write weights, settings and parameters to a file, which contains no code.

        Args:
            path: the .safetensors file to write.
        """
        check_is_fitted(self, "network_")
        path = Path(path)
        if path.suffix != ".safetensors":
            raise SettingsError(f"path is {path}: it must end in .safetensors")
        # A grid search may set numpy numbers.
        parameters = json.dumps(self.get_params(), default=lambda value: value.item())
        file = EncoderFile(
            self.settings_.without_paths().model_dump(mode="json"),
            tuple(getattr(self, "image_shape_", (int(self.n_features_in_),))),
            list(getattr(self, "feature_names_in_", [])),
            parameters=json.loads(parameters),
        )
        file.write(path, self.network_.float().state_dict())

    @classmethod
    def load(cls, path: str | Path, *, trust_code: bool | Collection[str] = False) -> Self:
        """Read a fitted encoder.

        Args:
            path: a file written by `save`.
            trust_code: the import paths that the file may name, or True for all.
        """
        try:
            file, tensors = EncoderFile.read(Path(path))
            if not file.parameters:
                raise DataError("it has no parameters")
            unknown = file.parameters.keys() - cls().get_params()
            if unknown:
                raise DataError(f"the parameter {min(unknown)!r} is unknown")
        except (OSError, CclkError) as error:
            raise DataError(
                f"{path} is not a saved ConditionalEncoder ({reason(error)}): write one with save"
            ) from error
        require_trust(import_paths(file.settings), str(path), trust_code)
        self = cls(**file.parameters)
        self.settings_ = parse(file.settings, str(path))
        try:
            for name, tensor in tensors.items():
                if not bool(tensor.isfinite().all()):
                    raise DataError(f"the weights {name} are not finite")
            network = file.network(self.settings_, tensors)
        except CclkError as error:
            raise DataError(f"{path} does not fit its settings: {reason(error)}") from error
        self.network_ = network.requires_grad_(False)
        self.n_features_in_ = math.prod(file.shape)
        if len(file.shape) == 3:
            self.image_shape_ = file.shape
        if file.inputs:
            self.feature_names_in_ = np.array(file.inputs, dtype=object)
        self._n_features_out = int(self.network_.encoder.width)
        return self

    def _method(self, conditional: bool, sensitive: bool) -> str:
        if self.method == "auto":
            return ("fair-cclk" if sensitive else "weaksup-cclk") if conditional else "infonce"
        method = _SHORT.get(self.method, self.method)
        if methods.find(method).needs_condition and not conditional:
            raise SettingsError(
                f"method is {self.method!r}: fit needs sensitive_features (to ignore) or condition"
                " (to use)"
            )
        return method

    def _labels(self, y: Any, rows: int) -> tuple[Tensor, tuple[str, ...]]:
        """Return the labels to keep as codes, and their names."""
        if not self.keep:
            return torch.zeros(rows, dtype=torch.int64), (UNLABELED,)
        if y is None or np.ndim(y) != 1 or len(y) != rows:
            raise DataError("keep is True: pass y, one label for each row of X")
        names, codes = np.unique(np.asarray(y), return_inverse=True)
        return torch.from_numpy(codes.astype(np.int64)), tuple(map(str, names))

    def _settings(self, method: str, x: Tensor) -> Settings:
        same = (
            "kernel encoder steps lr weight_decay temperature weights neighbors sampler"
            " remove augmentation leakage_penalty feature_width feature_noise"
        )
        overrides = {name: getattr(self, name) for name in same.split()} | {
            "keep": "label" if self.keep else "",
            "method": method,
            "optimizer": "adamw",
            "encoder_options": dict(self.encoder_options or {}),
            "batch_size": min(self.batch_size, len(x)),
            "seed": self.random_state,
        }
        settings = load(overrides=overrides)
        data = settings.data.model_copy(update={"dataset": None})
        return settings.model_copy(update={"data": data})

    def _samples(self, X: Any, reset: bool, keep: bool = False) -> Tensor:  # noqa: N803
        """Check X and return it as a tensor: images as uint8, tables as float32, or in their own
        precision if `keep`.
        """
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()  # noqa: N806
        if reset:
            for name in ("image_shape_", "feature_names_in_"):
                self.__dict__.pop(name, None)
        if isinstance(X, np.ndarray) and X.ndim == 4:
            if X.dtype != np.uint8:
                raise DataError(f"images X are {X.dtype}: they must be uint8 (n, c, h, w)")
            if reset:
                self.image_shape_, self.n_features_in_ = X.shape[1:], int(np.prod(X.shape[1:]))
            elif X.shape[1:] != getattr(self, "image_shape_", None):
                raise DataError(
                    f"images X have the shape {X.shape[1:]}, but fit had"
                    f" {getattr(self, 'image_shape_', 'a table')}"
                )
            return torch.from_numpy(np.ascontiguousarray(X))
        table = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=1
        )
        return torch.from_numpy(np.ascontiguousarray(table if keep else table.astype(np.float32)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _condition(data: Any, rows: int) -> Condition:
    """Return the condition of the samples as float32; without data, a constant column."""
    if data is None:
        return Condition(torch.zeros(rows, 1), (Column("none"),), torch.float32)
    condition = infer_condition(data)
    if len(condition) != rows:
        raise DataError(
            f"the condition has {len(condition)} rows and X has {rows}: pass one row per sample"
        )
    values = condition.values.float()
    if not values.isfinite().all():
        raise DataError("the condition has values beyond 3e38: rescale them")
    return Condition(values, condition.columns, torch.float32)
