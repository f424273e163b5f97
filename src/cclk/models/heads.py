"""Projection heads, used in training only."""

from __future__ import annotations

from torch import nn

from cclk.errors import SettingsError
from cclk.models.mlp import hidden_layer

HEADS = ("linear-bn", "mlp", "linear", "none")


def build_head(name: str, width: int, out: int = 128) -> nn.Module:
    """Build a projection head.

    Args:
        name: one of

            - "linear-bn": linear, batch norm, ReLU, linear, batch norm without affine parameters,
              as in the authors' release.
            - "mlp": two hidden layers of 2048 with batch norm and ReLU, then linear (the paper's
              2048-2048-128).
            - "linear": two linear layers without a nonlinearity (the paper's head for ColorMNIST).
            - "none": the identity; `out` is ignored.
        width: number of features of the encoder.
        out: dimension of the projection.

    >>> build_head("linear", width=84)
    Sequential(
      (0): Linear(in_features=84, out_features=84, bias=True)
      (1): Linear(in_features=84, out_features=128, bias=True)
    )
    """
    if out < 1:
        raise SettingsError(f"out is {out}: a projection has at least 1 dimension")
    match name:
        case "linear-bn":
            hidden = hidden_layer(width, width)
            last = nn.Linear(width, out, bias=False), nn.BatchNorm1d(out, affine=False)
            return nn.Sequential(*hidden, *last)
        case "mlp":
            layers = (*hidden_layer(width, 2048), *hidden_layer(2048, 2048))
            return nn.Sequential(*layers, nn.Linear(2048, out))
        case "linear":
            return nn.Sequential(nn.Linear(width, width), nn.Linear(width, out))
        case "none":
            return nn.Identity()
    raise SettingsError(f"unknown head {name!r}: choose one of {', '.join(HEADS)}")
