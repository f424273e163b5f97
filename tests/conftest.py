"""Settings of the whole test run."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# Tests run side by side, one per core.
torch.set_num_threads(1)

# The same examples each time: a test run must not fail by luck.
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")


@pytest.fixture
def float64() -> Iterator[None]:
    """Compute in float64: rounding errors of float32 grow while a network trains, on each kind of
    processor in another way.
    """
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
