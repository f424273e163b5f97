"""Features that hide a condition: encoders of rotated Fashion-MNIST trained with a leakage penalty.

The penalty is the leave-one-out R^2 of kernel ridge regression from the features of a batch to the
condition. It is minimized over the encoder, so what remains is what this reader cannot see, and a
probe that is not stronger than the reader reports no leakage.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cclk import CclkWarning, FairCCLK, InfoNCE
from cclk.augment import preset
from cclk.data.randomness import generator
from cclk.datasets import load
from cclk.kernels import RBF
from cclk.models import build_encoder, build_head
from examples.rotated_fashion import ANGLE, rotated

Floats = npt.NDArray[np.float32]
ROWS = (8_400, 1_800, 1_800)
"""Training, validation and test images."""
STEPS, BATCH, SIZE = 400, 256, 32


def images(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rotated garments as floats in 0..1, (n, 1, 32, 32), and their angles in units of 60 degrees.

    Args:
        seed: seed of the sample and the angles.
    """
    garments = load("fashion-mnist", seed=0).train
    random = generator(seed, "penalized features")
    rows = random.permutation(len(garments))[: sum(ROWS)]
    angles = random.uniform(-ANGLE, ANGLE, len(rows))
    pixels = [
        np.asarray(rotated(garments.x[int(row)][0].numpy(), angle).resize((SIZE, SIZE)))
        for row, angle in zip(rows, angles, strict=True)
    ]
    return torch.from_numpy(np.stack(pixels))[:, None].float() / 255, torch.from_numpy(
        angles / ANGLE
    )


def penalty(features: Tensor, condition: Tensor, ridge: float = 0.3) -> Tensor:
    """Leave-one-out R^2 of four cosines of the condition, by kernel ridge regression.

    Args:
        features: (b, d), batch-normalized.
        condition: (b,) numbers.
        ridge: regularization of the regression.
    """
    count = len(features)
    rank = (condition.argsort().argsort().double() + 0.5) / count
    target = torch.stack([torch.cos(math.pi * k * rank) for k in range(1, 5)], dim=1)
    distance = torch.cdist(features.double(), features.double()).square()
    median = distance.detach()[~torch.eye(count, dtype=torch.bool)].median()
    kernel = torch.stack([torch.exp(-distance / (s * median)) for s in (0.1, 0.3, 1.0)]).mean(0)
    centered = kernel - kernel.mean(0) - kernel.mean(1, keepdim=True) + kernel.mean()
    smoother = torch.linalg.solve(
        centered + ridge * torch.eye(count, dtype=torch.float64), centered
    )
    smoother = smoother + 1 / count
    residual = (target - smoother @ target) / (1 - smoother.diag()).clamp_min(1e-3)[:, None]
    alone = (target - target.mean(0)) * count / (count - 1)
    leak: Tensor = 1 - (residual.square().sum(0) / alone.square().sum(0)).mean()
    return leak


def train(
    samples: Tensor, angles: Tensor, *, fair: bool, strength: float, steps: int, seed: int = 0
) -> Floats:
    """Train LeNet-5 on the training images, and return the features of all images.

    Args:
        samples: images, the training images first.
        angles: the condition.
        fair: whether the loss is Fair-CCLK instead of InfoNCE.
        strength: factor of the penalty on features of images that are not augmented.
        steps: number of steps.
        seed: seed of weights, batches and views.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = build_encoder("lenet5", channels=1, size=SIZE)
        head = build_head("linear-bn", encoder.width)
        norm = nn.BatchNorm1d(encoder.width, affine=False)
    warnings.simplefilter("ignore", CclkWarning)  # the kernel is fitted on the first batch
    draw = torch.Generator().manual_seed(seed)
    augmentation = preset("digits", size=SIZE, channels=1)
    loss = FairCCLK(RBF(), temperature=0.2, weights="nw") if fair else None
    plain = InfoNCE(temperature=0.2)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=3e-3)
    for step in range(steps):
        rows = torch.randperm(ROWS[0], generator=draw)[:BATCH]
        x, z = samples[rows], angles[rows]
        views = torch.cat([augmentation(x, draw) for _ in range(2)])
        first, second = head(norm(encoder.encode(views))).chunk(2)
        total = loss(first, second, z) if loss else plain(first, second)
        if strength:
            ramp = min(1.0, (step + 1) / 100)
            total = total + strength * ramp * penalty(norm(encoder.encode(x)), z)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    encoder.eval()
    with torch.no_grad():
        features = torch.cat([encoder.encode(part) for part in torch.split(samples, 1000)]).numpy()
    return np.asarray(features, dtype=np.float32)
