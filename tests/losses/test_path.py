"""How long the path of a loss is: the calls of functions of cclk in a warm call."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from types import FrameType

import torch

import cclk
from cclk import kernels

PACKAGE = str(Path(cclk.__file__).parent)


def test_a_warm_call_is_short() -> None:
    """A newcomer who follows it meets few functions, and seldom changes the file."""
    x, y = torch.randn(2, 256, 16, requires_grad=True)
    z = torch.rand(256)
    loss = cclk.FairCCLK(kernels.RBF().fit(z))
    loss(x, y, z)
    files: list[str] = []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.append(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        loss(x, y, z)
    finally:
        sys.setprofile(before)
    changes = sum(one != other for one, other in pairwise(files))
    assert len(files) <= 60
    assert len(set(files)) <= 10
    assert changes <= 25
