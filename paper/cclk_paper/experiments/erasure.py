"""Erasing the condition from features after training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from fairlearn.preprocessing import CorrelationRemover  # type: ignore[import-untyped]
from torch import Tensor

from cclk import LinearEraser
from cclk.data.dataset import Dataset, Split
from cclk.errors import DataError
from cclk_paper.experiments.measure import Embed


@dataclass(frozen=True)
class Erasure:
    """How the condition is erased from the features of a run, between embedding and measuring.

    It is fitted on the training split.
    """

    eraser: Literal["leace", "correlation-remover"]
    """LEACE, which is `cclk.LinearEraser`, or the CorrelationRemover of fairlearn."""
    alpha: float = 1.0
    """Share of the correlation that the correlation remover removes."""
    inputs: bool = False
    """Whether to erase from the inputs; no encoder is trained then."""


def erased(erasure: Erasure, dataset: Dataset, embed: Embed) -> Embed:
    """Return a function that embeds a split and erases the condition from its features.

    Args:
        erasure: Which eraser.
        dataset: The eraser is fitted on its training split.
        embed: Returns features and projection of a split.
    """
    train, _ = embed(dataset.train)
    if erasure.eraser == "leace":
        eraser = LinearEraser().fit(train, sensitive_features=dataset.condition(dataset.train))

        def leace(split: Split) -> tuple[Tensor, Tensor]:
            features, projection = embed(split)
            return eraser.transform(features), projection

        return leace
    if any(column.kind == "categorical" for column in dataset.columns):
        raise DataError(
            f"{dataset.name} has categories in its condition, but the correlation remover expects"
            " numbers: use another eraser"
        )
    width = dataset.train.condition.shape[1]
    remover = CorrelationRemover(sensitive_feature_ids=list(range(width)), alpha=erasure.alpha).fit(
        _beside(dataset.train, train)
    )

    def remove_correlation(split: Split) -> tuple[Tensor, Tensor]:
        features, projection = embed(split)
        if not len(split):  # which fairlearn refuses
            return features, projection
        rest = remover.transform(_beside(split, features))
        return torch.from_numpy(rest).to(features.dtype), projection

    return remove_correlation


def embed_inputs(split: Split) -> tuple[Tensor, Tensor]:
    """Return the inputs of a split, flattened, as features and as projection."""
    if not isinstance(split.x, Tensor):
        raise DataError("images that are streamed from files cannot be measured without an encoder")
    inputs = split.x.flatten(1).float()
    return inputs, inputs


def _beside(split: Split, features: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The condition of a split and its features, side by side."""
    joined = torch.cat([split.condition.double(), features.double().cpu()], dim=1)
    return np.asarray(joined.numpy())
