"""Random views of a batch of scaled samples, computed on its device.

>>> import torch
>>> images = torch.zeros(4, 3, 32, 32)
>>> preset("simclr", size=32, channels=3)(images, torch.Generator().manual_seed(0)).shape
torch.Size([4, 3, 32, 32])
"""

from cclk.augment.base import Augmentation
from cclk.augment.images import Images
from cclk.augment.presets import for_samples, preset
from cclk.augment.vectors import Plain, Vectors

__all__ = ["Augmentation", "Images", "Plain", "Vectors", "for_samples", "preset"]
