"""Image encoders of open_clip, where it is installed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cclk.backbones.extractor import Extractor, first_line
from cclk.errors import FeatureError
from cclk.models import InputTransform


def clip_extractor(
    source: str, size: int | None, mean: Sequence[float] | None, std: Sequence[float] | None
) -> Extractor:
    """Return the extractor of "open_clip:MODEL/WEIGHTS"; see `build_extractor`."""
    name, _, weights = source.removeprefix("open_clip:").partition("/")
    if not name or not weights:
        raise FeatureError(
            f"{source!r} lacks the model or its weights: write it as open_clip:ViT-B-32/openai"
        )
    try:
        import open_clip  # type: ignore[import-not-found]
    except ImportError as error:
        raise FeatureError(
            f"the encoder {source} needs open_clip: pip install open_clip_torch"
        ) from error
    try:
        # OpenAI trained with QuickGELU; for ViT-B-32 open_clip builds plain GELU, only warns, and
        # the features are wrong.
        model = open_clip.create_model(
            name, pretrained=weights, force_quick_gelu=weights.lower() == "openai"
        )
    except Exception as error:  # unknown names, no network, damaged downloads
        raise FeatureError(
            f"open_clip cannot load {name} with the weights {weights}: {first_line(error)}"
        ) from error
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, visual = model.eval().to(device), model.visual
    if size is None:
        size = visual.image_size if isinstance(visual.image_size, int) else visual.image_size[0]
    mean, std = mean or tuple(visual.image_mean), std or tuple(visual.image_std)
    inputs = InputTransform(3, mean, std, size=size, interpolation="bicubic").to(device)
    return Extractor(
        source,
        lambda images: model.encode_image(inputs(images.to(device))),
        {"size": size, "mean": list(mean), "std": list(std)},
    )
