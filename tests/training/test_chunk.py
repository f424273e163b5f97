"""Training with `chunk`: the same weights as with the whole batch at once."""

from __future__ import annotations

import pytest
import torch

from cclk.datasets import load as load_dataset
from cclk.errors import SettingsError
from cclk.training.settings import load
from cclk.training.trainer import Trainer

SETTINGS = {
    "dataset": "colordigits", "encoder": "lenet5", "head": "none", "batch_size": 48, "steps": 2,
    "optimizer": "sgd", "lr": 0.05,
}  # fmt: skip


def weights(**settings: object) -> list[torch.Tensor]:
    """The weights after two steps."""
    loaded = load(overrides={**SETTINGS, **settings})
    trainer = Trainer(loaded, load_dataset("colordigits"))
    for step in range(trainer.total):
        trainer.step(step)
    trainer.close()
    return [parameter.detach().clone() for parameter in trainer.network.parameters()]


@pytest.mark.parametrize("removal", [{}, {"leakage_penalty": 2.0, "keep": "label"}])
@pytest.mark.usefixtures("float64")
def test_chunks_do_not_matter(removal: dict[str, object]) -> None:
    whole = weights(**removal)
    for found, expected in zip(weights(chunk=20, **removal), whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
    for chunk in (1, 47):  # a sample alone
        for found, expected in zip(weights(chunk=chunk, **removal), whole, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
    for found, expected in zip(weights(chunk=48, **removal), whole, strict=True):
        assert torch.equal(found, expected), "one chunk is the whole batch"


def test_what_chunks_do_not_work_with() -> None:
    with pytest.raises(SettingsError, match="chunk is 20, which does not work with a queue"):
        weights(chunk=20, queue=50)
