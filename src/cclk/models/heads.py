"""Projection heads, used in training only."""

from __future__ import annotations

from torch import nn

from cclk.errors import SettingsError

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
            # A bias before a batch norm has no effect.
            return nn.Sequential(
                nn.Linear(width, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(inplace=True),
                nn.Linear(width, out, bias=False), nn.BatchNorm1d(out, affine=False),
            )  # fmt: skip
        case "mlp":
            return nn.Sequential(
                nn.Linear(width, 2048, bias=False), nn.BatchNorm1d(2048), nn.ReLU(inplace=True),
                nn.Linear(2048, 2048, bias=False), nn.BatchNorm1d(2048), nn.ReLU(inplace=True),
                nn.Linear(2048, out),
            )  # fmt: skip
        case "linear":
            return nn.Sequential(nn.Linear(width, width), nn.Linear(width, out))
        case "none":
            return nn.Identity()
    raise SettingsError(f"unknown head {name!r}: choose one of {', '.join(HEADS)}")
