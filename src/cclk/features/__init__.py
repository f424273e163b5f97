"""The features room: what some other encoder says about every sample of a dataset, kept in a file.

A dataset loaded with `features=FILE` has these numbers as its condition: continuous auxiliary
features, such as CLIP's.

    from cclk import datasets, features

    digits = datasets.load("cifar10", holdout=0)
    extractor = features.build_extractor("mobilenetv2", channels=3, pixels=32)
    features.extract(digits, extractor, Path("mobilenet.npz"))
    weak = datasets.load("cifar10", features="mobilenet.npz")
"""

from cclk.errors import FeatureError
from cclk.features.extract import extract, load_whole
from cclk.features.extractor import Extractor
from cclk.features.sources import build_extractor

__all__ = ["Extractor", "FeatureError", "build_extractor", "extract", "load_whole"]
