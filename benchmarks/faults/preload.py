"""What a process that runs `cclk` commands imports: forked ones then start at once."""

import importlib
from contextlib import suppress

import torch

_LATE = (
    "cclk_paper.experiments", "cclk.report.page", "cclk.run", "cclk.training.export",
    "cclk.training.loop", "lightning_fabric", "safetensors.torch",
    "onnx", "onnxruntime", "torch.onnx", "torch.export", "plotly", "pyarrow.parquet",
    "sklearn.linear_model", "sklearn.manifold", "scipy.stats", "torch._dynamo",
)  # fmt: skip
for _name in _LATE:
    with suppress(ImportError):  # an extra that is not installed
        importlib.import_module(_name)
torch.set_num_threads(1)
