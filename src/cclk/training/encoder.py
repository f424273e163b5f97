"""The encoder of a finished run, as a module and over new data."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cclk.errors import RunError
from cclk.training.run_folder import RunFolder
from cclk.training.samples import FILES, Samples, as_samples, read_samples, require_batch


class TrainedEncoder(nn.Module):
    """The encoder of a run, in evaluation mode: raw samples in, features out.

    As a module it takes a batch in the form of training; `embed` takes samples of other forms and
    sizes.

    Attributes:
        width: The number of features.
        shape: The shape of a sample, (c, h, w) or (k,).
        columns: The names of the k inputs, in their order; empty if they have none.

    Shape:
        x: uint8 images (n, c, h, w) from 0 to 255, or vectors (n, k) in the units of the training
            data.
        returns: float32 (n, width).
    """

    def __init__(self, run: RunFolder) -> None:
        super().__init__()
        network = run.network
        self.encoder = network.encoder
        self.width: int = network.encoder.width
        self.shape: tuple[int, ...] = run.shape
        self.columns: tuple[str, ...] = tuple(run.inputs)
        self.run = run
        self.eval().requires_grad_(False)
        for name, value in self.state_dict().items():
            if not bool(value.isfinite().all()):
                raise RunError(f"{run.folder}: the weights {name} are not finite: train it again")

    def forward(self, x: Tensor) -> Tensor:
        # While ONNX traces, sizes are tensors.
        if not torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            require_batch(x, self.shape, self.columns)
        features: Tensor = self.encoder(x)
        return features

    def embed(self, x: Any, batch_size: int = 256) -> npt.NDArray[np.float32]:
        """Features of samples in any form, the same as those that `cclk embed` writes.

        Images are cropped to the middle square and resized as in training, and become gray or RGB
        as the encoder needs. Vectors are standardized by the statistics of the training split.

        Args:
            x: One of

                - paths of images, PIL images and uint8 arrays of any size, (h, w), (h, w, c) or (c,
                  h, w), in a list;
                - a uint8 array of images (n, c, h, w) or (n, h, w, c);
                - a data frame, or a mapping of names to columns, with the input columns of the
                  training in any order;
                - an array (n, k) of these columns, in their order;
                - the path of a table, .csv or .parquet, with the input columns of the training, or
                  of an .npz file with an array x.
            batch_size: Samples to read and embed at a time.

        Returns:
            float32 (n, width), a row for each sample.

        Example:
            encoder = cclk.load("runs/people")
            features = encoder.embed(sorted(Path("photos").glob("*.jpg")))
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}: it must be at least 1")
        if isinstance(x, str | os.PathLike) and os.fspath(x).endswith(FILES):
            samples = read_samples(self.run, os.fspath(x))[0]
        else:
            samples = as_samples(x, self.shape, self.columns)
        return np.concatenate(
            [np.empty((0, self.width), np.float32), *self.batches(samples, batch_size)]
        )

    def batches(self, samples: Samples, size: int) -> Iterator[npt.NDArray[np.float32]]:
        """Features of samples that have the shape of the training's, a batch at a time."""
        device = self.encoder.inputs.mean.device
        with self.encoder.one_table():
            for start in range(0, len(samples), size):
                with torch.inference_mode():
                    features = self(samples[start : start + size].to(device))
                if not bool(features.isfinite().all()):
                    row = start + int((~features.isfinite()).any(dim=1).nonzero()[0])
                    raise RunError(f"the features of sample {row} are not finite: check its values")
                # Outside, or the caller's code would be in inference mode too.
                yield features.float().cpu().numpy()

    def example(self, rows: int = 3) -> Tensor:
        """Samples of the right shape, drawn at random."""
        generator = torch.Generator().manual_seed(0)
        if len(self.shape) == 3:
            return torch.randint(
                0, 256, (rows, *self.shape), generator=generator, dtype=torch.uint8
            )
        noise = torch.randn((rows, *self.shape), generator=generator)
        return noise * self.encoder.inputs.std + self.encoder.inputs.mean


def load(
    run: str | os.PathLike[str], *, trust_code: bool | Collection[str] = False
) -> TrainedEncoder:
    """The encoder of a finished run; its data need not be there any more."""
    return TrainedEncoder(RunFolder(run, trust_code=trust_code))
