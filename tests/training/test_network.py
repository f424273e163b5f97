"""The trained network: its input scale is saved with it, and read from files of any age."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from cclk.training import settings
from cclk.training.network import ContrastiveNetwork

VECTORS: dict[str, Any] = {"encoder": "mlp", "encoder_options": {"hidden": [4]}}


def network(shape: tuple[int, ...]) -> ContrastiveNetwork:
    chosen = settings.load(overrides=VECTORS if len(shape) == 1 else {"encoder": "lenet5"})
    return ContrastiveNetwork(chosen, shape).eval()


@pytest.mark.parametrize("shape", [(3,), (1, 32, 32), (3, 32, 32)])
def test_files_that_call_the_std_spread_still_load(shape: tuple[int, ...]) -> None:
    trained = network(shape)
    images = len(shape) == 3
    x = torch.randint(0, 256, (8, *shape), dtype=torch.uint8) if images else torch.randn(8, 3)
    if not images:
        trained.encoder.inputs.fit(5 * x + 1)
    state: dict[str, Tensor] = trained.state_dict()
    mean, std = state.pop("encoder.inputs.mean"), state.pop("encoder.inputs.std")
    old = state | {
        "inputs.mean": torch.zeros(0) if images else mean,
        "inputs.spread": torch.ones(0) if images else std,
    }
    for stored in (old, trained.state_dict()):
        again = network(shape)
        again.load_state_dict(stored)
        assert torch.equal(again.encoder(x), trained.encoder(x))
    assert "inputs.spread" in old, "the caller's mapping is unchanged"
    with pytest.raises(RuntimeError, match="Missing key"):
        network(shape).load_state_dict(state)
