"""Settings of the whole test run."""

import torch
from hypothesis import settings

# Tests run side by side, one per core.
torch.set_num_threads(1)

# The same examples each time: a test run must not fail by luck.
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")
