"""Samples for a trained encoder, from files, datasets, images, arrays and data frames."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cclk._reading import reason
from cclk.data.decode import Mode, need_pillow, read_image, square_image
from cclk.data.folder import reading_only
from cclk.data.manifest import input_vectors, load_inputs
from cclk.data.npz import read_npz
from cclk.data.streamed import StreamedImages
from cclk.data.table_file import TableFile
from cclk.datasets import DATASETS
from cclk.datasets import load as load_dataset
from cclk.errors import DataError, RunError
from cclk.training.run_folder import RunFolder

FILES = (".csv", ".parquet", ".npz")
_INPUT_OPTIONS = ("image", "features", "row_id", "size", "gray")
_CHANNELS = (1, 3, 4)


class ResizedImages:
    """Images of any kind and size, cropped to a square and resized when a slice is taken."""

    def __init__(self, items: Sequence[Any], size: int, mode: Mode) -> None:
        need_pillow()
        self._items, self._size, self._mode = items, size, mode
        self.shape = torch.Size((len(items), 3 if mode == "RGB" else 1, size, size))

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, rows: slice) -> Tensor:
        numbers = range(len(self))[rows]
        return torch.from_numpy(
            np.stack([self._values(self._items[number], f"image {number}") for number in numbers])
        )

    def _values(self, item: Any, name: str) -> npt.NDArray[np.uint8]:
        from PIL.Image import Image, fromarray

        if isinstance(item, str | os.PathLike):
            return read_image(os.fspath(item), self._size, self._mode)[0]
        if isinstance(item, Image):
            return square_image(item, name, self._size, self._mode)
        array = item.detach().cpu().numpy() if isinstance(item, Tensor) else np.asarray(item)
        if array.dtype != np.uint8:
            raise DataError(f"{name} is {array.dtype}: {_as_bytes(array)}")
        return square_image(
            fromarray(self._channels_last(array, name)), name, self._size, self._mode
        )

    def _channels_last(self, array: npt.NDArray[np.uint8], name: str) -> npt.NDArray[np.uint8]:
        if array.ndim == 3 and array.size:
            first, last = array.shape[0] in _CHANNELS, array.shape[2] in _CHANNELS
            if first and (not last or array.shape == self.shape[1:]):
                array = array.transpose(1, 2, 0)
            if first != last or array.shape[2] == self.shape[1]:
                return array[:, :, 0] if array.shape[2] == 1 else np.ascontiguousarray(array)
        elif array.ndim == 2 and array.size:
            return array
        raise DataError(
            f"{name} has the shape {array.shape}: it must be (h, w), (h, w, c) or (c, h, w) with"
            " 1, 3 or 4 channels"
        )


Samples = Tensor | StreamedImages | ResizedImages


def read_samples(
    run: RunFolder, source: str, data_dir: Path | None = None, row_id: str | None = None
) -> tuple[Samples, list[str]]:
    """The samples of a file or dataset, read as the run read its own, and their ids."""
    if data_dir is None:
        with reading_only():
            return _read_samples(run, source, run.settings.data.data_dir, row_id)
    return _read_samples(run, source, data_dir, row_id)


def _read_samples(
    run: RunFolder, source: str, folder: Path | None, row_id: str | None
) -> tuple[Samples, list[str]]:
    if source.endswith((".csv", ".parquet")):
        options: dict[str, Any] = {
            name: value
            for name, value in run.settings.source_options.items()
            if name in _INPUT_OPTIONS
        }
        if not options.get("image") and not options.get("features"):
            raise RunError(
                f"{run.folder} was not trained on a table, so its columns are unknown: pass an"
                " .npz file with x"
            )
        if run.inputs:  # in the order of training, whatever the order in this file
            options["features"] = run.inputs
        own = options.pop("row_id", None)
        if row_id is None and own is not None and own in TableFile(Path(source)).names:
            row_id = own
        return load_inputs(Path(source), data_dir=folder, row_id=row_id, **options)
    return _of_array_or_dataset(source, folder)


def read_images(
    source: str, column: str | None, size: int, data_dir: Path | None, row_id: str | None
) -> tuple[Samples, list[str]]:
    """The images of a table, an .npz file or a dataset, and their ids."""
    if source.endswith((".csv", ".parquet")):
        if column is None:
            raise RunError(
                f"{source} is a table: pass the column with paths of images, such as image='path'"
            )
        return load_inputs(Path(source), image=column, size=size, data_dir=data_dir, row_id=row_id)
    return _of_array_or_dataset(source, data_dir)


def _of_array_or_dataset(source: str, folder: Path | None) -> tuple[Samples, list[str]]:
    if source.endswith(".npz"):
        return _array(Path(source))
    if source not in DATASETS:
        raise DataError(
            DATASETS.explain(source)
            or f"{source} is neither a .csv, .parquet or .npz file nor one of {', '.join(DATASETS)}"
        )
    dataset = load_dataset(source, data_dir=folder, seed=0, holdout=0)
    parts = {"train": dataset.train, "test": dataset.test}
    x = torch.cat([part.x[torch.arange(len(part))] for part in parts.values()])
    return x, [f"{name}/{row:08d}" for name, part in parts.items() for row in range(len(part))]


def as_samples(x: object, shape: tuple[int, ...], columns: Sequence[str]) -> Samples:
    """Convert images, arrays or data frames to samples of the shape that an encoder takes.

    Args:
        x: Images as paths, PIL images or uint8 arrays, or a batch of them; for tables an array (n,
            k) or a data frame.
        shape: The shape of a sample: (c, h, w) or (k,).
        columns: The names of the k inputs, if they have names.
    """
    if isinstance(x, Tensor):
        x = x.detach().cpu().numpy()
    return _images(x, shape) if len(shape) == 3 else _vectors(x, shape, columns)


def _images(x: Any, shape: tuple[int, ...]) -> Samples:
    need_pillow()
    from PIL.Image import Image

    if hasattr(x, "columns") or isinstance(x, Mapping):
        raise DataError(
            "x is a data frame, but the encoder takes images: pass the column with their paths,"
            " such as x['path']"
        )
    if isinstance(x, np.ndarray) and x.dtype.kind not in "OUS":
        if x.ndim != 4:
            raise DataError(
                f"x has the shape {x.shape}: pass x[None] if it is one image, list(x) if it is"
                " several gray ones"
            )
        if x.dtype != np.uint8:
            raise DataError(f"x is {x.dtype}: {_as_bytes(x)}")
        if x.shape[1:] == shape:
            return torch.from_numpy(np.ascontiguousarray(x))
    if isinstance(x, str | os.PathLike) and Path(x).is_dir():
        raise DataError(
            f"{x} is a folder: pass the paths of its images, such as"
            f" sorted(Path({os.fspath(x)!r}).glob('*.jpg'))"
        )
    try:
        items: list[Any] = [x] if isinstance(x, str | os.PathLike | Image) else list(x)
    except TypeError:
        raise DataError(
            f"x is of the type {type(x).__name__}: pass a list of paths, PIL images or uint8 arrays"
        ) from None
    channels, height, width = shape
    if height != width or channels not in (1, 3):
        raise DataError(
            "x needs to be cropped or resized, and the encoder takes no common format: pass uint8"
            f" images {_batch(shape)}"
        )
    mode: Mode = "RGB" if channels == 3 else "L"
    if all(isinstance(item, str | os.PathLike) for item in items):
        return StreamedImages([os.fspath(item) for item in items], width, mode=mode, keep=False)
    return ResizedImages(items, width, mode)


def _vectors(x: Any, shape: tuple[int, ...], columns: Sequence[str]) -> Tensor:
    if hasattr(x, "columns") or isinstance(x, Mapping):
        table = TableFile.of(x, columns)
        samples = input_vectors(table, columns or table.names)
    else:
        try:
            with np.errstate(over="ignore"):
                samples = torch.from_numpy(np.asarray(x, dtype=np.float32))
        except (TypeError, ValueError):
            raise DataError(
                f"x is not an array of numbers: the encoder takes {_expected(shape, columns)}"
            ) from None
    require_batch(samples, shape, columns)
    bad = ~samples.isfinite()
    if bad.any():
        row, column = bad.nonzero()[0].tolist()
        raise DataError(f"x[{row}, {column}] is NaN or infinite: drop or impute such samples")
    return samples


def require_batch(x: object, shape: tuple[int, ...], columns: Sequence[str] = ()) -> None:
    """Raise an error with advice unless x is a batch of this shape, of bytes for images."""
    fits = isinstance(x, Tensor) and tuple(x.shape[1:]) == shape
    if not (isinstance(x, Tensor) and fits and (len(shape) == 1 or x.dtype == torch.uint8)):
        _refuse(x, shape, columns)


def _refuse(x: object, shape: tuple[int, ...], columns: Sequence[str]) -> NoReturn:
    if not isinstance(x, Tensor):
        raise TypeError(
            f"x is of the type {type(x).__name__}: pass a tensor, or call embed, which takes"
            " arrays, images, paths and data frames"
        )
    size = tuple(x.shape)
    last = (*shape[1:], shape[0])
    if size == shape:
        advice = "it is one sample: add a batch dimension with x[None]"
    elif len(shape) == 1:
        advice = "pass the columns of the training, in their order"
    elif size == last:
        advice = "it seems to be one image with channels last: use x.permute(2, 0, 1)[None]"
    elif size[1:] == last:
        advice = "they seem to be images with channels last: use x.permute(0, 3, 1, 2)"
    elif size[1:] == shape:
        advice = _as_bytes(x.detach().cpu().numpy())
    else:
        advice = "call embed, which crops, resizes and converts images"
    actual = f"{str(x.dtype).removeprefix('torch.')} of shape {size}"
    raise DataError(f"x is {actual}, but the encoder takes {_expected(shape, columns)}: {advice}")


def _as_bytes(values: npt.NDArray[Any]) -> str:
    """Advice on converting images to uint8, by their range."""
    if values.dtype.kind == "f" and values.size:
        low, high = float(values.min()), float(values.max())
        if low < 0:
            return (
                f"values from {low:.3g} to {high:.3g} seem to be standardized: pass the uint8"
                " images themselves"
            )
        if high <= 1:
            return (
                "values in 0..1 seem to be scaled images: pass uint8 from 0 to 255, that is"
                " 255 * x, rounded"
            )
    return "pass uint8 from 0 to 255"


def _expected(shape: tuple[int, ...], columns: Sequence[str]) -> str:
    named = (
        f" in the columns {', '.join(columns[:12])}{', ...' if len(columns) > 12 else ''}"
        if columns
        else ""
    )
    return f"{'uint8 images' if len(shape) == 3 else 'numbers'} {_batch(shape)}{named}"


def _batch(shape: tuple[int, ...]) -> str:
    return f"(n, {', '.join(map(str, shape))})"


def _array(path: Path) -> tuple[Tensor, list[str]]:
    try:
        arrays = read_npz(path)
        if "x" not in arrays:
            raise DataError("it has no array x")
        x = arrays["x"]
        if x.ndim < 2 or x.dtype.kind not in "biuf":
            raise DataError(f"x is {x.dtype} of shape {x.shape}")
        ids = [str(name) for name in arrays.get("ids", np.arange(1, len(x) + 1))]
        if len(ids) != len(x):
            raise DataError(f"it has {len(x)} samples and {len(ids)} ids")
    except (DataError, TypeError) as error:
        raise DataError(
            f"{path} cannot be embedded ({reason(error)}): it must be an .npz file with an array x"
        ) from error
    if x.ndim == 4 and x.dtype != np.uint8:
        raise DataError(f"{path}: images x are {x.dtype}: they must be uint8, 0 to 255")
    samples = torch.from_numpy(x if x.ndim == 4 else x.astype(np.float32))
    if x.ndim != 4 and not samples.isfinite().all():
        raise DataError(f"{path}: x has values that are NaN or infinite: drop or impute them")
    return samples, ids
