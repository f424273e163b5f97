"""Pretrained image encoders: ONNX files, open_clip models, encoders of runs, other modules.

extractor = backbones.build_extractor("mobilenetv2", channels=3, pixels=32)
features = extractor(images)
"""

from cclk.backbones.extractor import Extractor
from cclk.backbones.sources import build_extractor
from cclk.errors import FeatureError

__all__ = ["Extractor", "FeatureError", "build_extractor"]
