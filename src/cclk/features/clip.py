"""Image encoders of open_clip, where it is installed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cclk.errors import FeatureError
from cclk.features.extractor import Extractor, Preparation, first_line


def clip_extractor(
    source: str,
    pixels: int,
    size: int | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Extractor:
    """The extractor of "open_clip:MODEL/WEIGHTS". Images are made ready as the model says,
    whatever their own `pixels`.
    """
    name, _, weights = source.removeprefix("open_clip:").partition("/")
    if not name or not weights:
        raise FeatureError(
            f"{source!r} does not say both the model and its weights: write it as"
            " open_clip:ViT-B-32/openai"
        )
    try:
        import open_clip  # type: ignore[import-not-found]
    except ImportError as error:
        raise FeatureError(
            f"the encoder {source} needs open_clip: pip install open_clip_torch"
        ) from error
    try:
        # OpenAI trained with QuickGELU; for ViT-B-32 open_clip builds plain GELU all the same and
        # only warns, and the features are wrong.
        model = open_clip.create_model(
            name, pretrained=weights, force_quick_gelu=weights.lower() == "openai"
        )
    except Exception as error:  # unknown names, no network, damaged downloads: all in its own words
        raise FeatureError(
            f"open_clip cannot give {name} with the weights {weights}: {first_line(error)}"
        ) from error
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = model.eval().to(device)
    visual = model.visual
    own = visual.image_size if isinstance(visual.image_size, int) else visual.image_size[0]
    mean = tuple(visual.image_mean) if mean is None else mean
    std = tuple(visual.image_std) if std is None else std
    prepare = Preparation(channels=3, size=size or own, mean=mean, std=std, interpolation="bicubic")
    about = {"size": size or own, "mean": list(mean), "std": list(std)}
    return Extractor(source, lambda x: model.encode_image(x.to(device)), prepare, about)
