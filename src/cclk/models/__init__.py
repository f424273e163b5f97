"""Encoders and projection heads.

>>> encoder = build_encoder("resnet18", channels=3, size=32, width=16, blocks=(1, 1, 1, 1))
>>> head = build_head("linear-bn", encoder.width, out=64)
>>> encoder.width
128
"""

from cclk.models.encoder import Encoder
from cclk.models.factory import build_encoder
from cclk.models.heads import build_head
from cclk.models.inputs import InputTransform

__all__ = ["Encoder", "InputTransform", "build_encoder", "build_head"]
