"""A user's table: what its columns are for, and settings that suit them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cclk.errors import SettingsError
from cclk.training.settings import Settings

Missing = Literal["error", "drop", "impute"]

FAIR: dict[str, object] = {"remove": "medium", "temperature": 0.2}
"""What suits methods that remove the condition, on any table: see docs/how-to."""
FAIR_NUMBERS: dict[str, object] = {"steps": 400}
"""The same for columns of numbers: longer training gains nothing, and costs small tables much."""


@dataclass(frozen=True)
class OwnTable:
    """A .csv or .parquet file and the roles of its columns.

    Args:
        data: The file.
        image: The column with paths of images, relative to the file.
        features: Columns of numbers, by name or by a pattern such as 'sensor_*'.
        condition: Condition columns, by name or pattern; a kind or a kernel may follow, such as
            'site:categorical' or 'age:laplacian'.
        label: The column that probes predict.
        split: The column with train, validation or test; by default rows are drawn, 70 : 15 : 15.
        split_by: The column that names persons or the like, whose rows are all in one split.
        row_id: The column that names each row; by default its number.
        missing: What to do with rows that lack a value.
        image_size: Pixels; images are cropped to a square and resized.
        gray: Whether to read images in gray.
    """

    data: str | os.PathLike[str] | None = None
    image: str | None = None
    features: Sequence[str] | str | None = None
    condition: Sequence[str] | str | None = None
    label: str | None = None
    split: str | None = None
    split_by: str | None = None
    row_id: str | None = None
    missing: Missing = "error"
    image_size: int = 32
    gray: bool = False

    def settings(self, overrides: Mapping[str, object], *, suit: bool) -> dict[str, object]:
        """The overrides, with the settings that read this table.

        Args:
            overrides: Settings by name.
            suit: Whether to add an encoder and augmentations that suit the columns; not if a preset
                or a file has them already.
        """
        names = ("image", "features", "condition", "label", "split", "split_by", "row_id")
        columns = {name: value for name in names if (value := getattr(self, name))}
        for name in ("image_size", "gray"):
            if not self.image and getattr(self, name) != getattr(OwnTable, name):
                raise SettingsError(f"{name} is for images: pass their column too, as image")
        if self.data is None:
            if columns:
                raise SettingsError(
                    f"{next(iter(columns))} is a column of a table: pass the table too, as data"
                )
            return dict(overrides)
        for name in ("dataset", "dataset_options"):
            if name in overrides:
                raise SettingsError(f"data and {name} both name the training data: pass one")
        if "keep" in overrides and "label" not in columns:
            columns["label"] = overrides["keep"]
        options: dict[str, object] = {**columns, "missing": self.missing}
        for name in ("features", "condition"):
            if columns.get(name):
                value = columns[name]
                options[name] = [value] if isinstance(value, str) else list(value)
        if self.image:
            options |= {"size": self.image_size, "gray": self.gray}
        defaults = self._suitable() if suit else {}
        method = overrides.get("method", Settings().method)
        if suit and self.condition and str(method).startswith("fair"):
            defaults |= FAIR | (FAIR_NUMBERS if self.features else {})
        if "encoder" in overrides:  # the options are those of the default encoder
            defaults.pop("encoder_options", None)
        data = {"dataset": str(Path(self.data).resolve()), "dataset_options": options}
        return defaults | dict(overrides) | data

    def _suitable(self) -> dict[str, object]:
        """Encoder and augmentations for numbers, small gray images, and other images."""
        if self.features:
            return {"encoder": "mlp", "augmentation": "vectors"}
        if self.gray and self.image_size == 32:
            return {"encoder": "lenet5", "augmentation": "digits"}
        return {
            "encoder": "resnet18",
            "encoder_options": {
                "stem": "cifar" if self.image_size < 96 else "imagenet",
                "width": 16,
            },
            "augmentation": "digits" if self.gray else "simclr",
        }
