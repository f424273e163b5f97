"""Features of a pretrained encoder for every sample of a dataset, written to a file.

A dataset loaded with `features=FILE` has these features as its condition, for example CLIP's.

    from cclk import datasets, features

    images = features.load_all_rows("cifar10")
    extractor = features.build_extractor("mobilenetv2", channels=3, pixels=32)
    features.extract(images, extractor, Path("mobilenet.npz"))
    weak = datasets.load("cifar10", features="mobilenet.npz")
"""

from cclk.errors import FeatureError
from cclk.features.extract import extract, load_all_rows
from cclk.features.extractor import Extractor
from cclk.features.sources import build_extractor

__all__ = ["Extractor", "FeatureError", "build_extractor", "extract", "load_all_rows"]
