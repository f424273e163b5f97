"""What holds for the package as a whole."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_is_light() -> None:
    """Little more than torch itself: nothing that only training, data or reports need."""
    code = "import torch, time, sys; t = time.perf_counter(); import cclk; print(time.perf_counter() - t, *sys.modules)"
    tries = [run(code).split() for _ in range(3)]  # the machine may be busy with other tests
    assert min(float(seconds) for seconds, *_ in tries) < 0.3
    modules = tries[0][1:]
    heavy = {"sklearn", "scipy", "PIL", "pandas", "pyarrow", "matplotlib", "plotly", "pydantic", "lightning_fabric", "cyclopts", "rich"}
    assert not heavy & set(modules)


def test_public_names() -> None:
    import cclk

    assert set(cclk.__all__) >= {
        "InfoNCE", "WeaklySupCCLK", "FairCCLK", "HardNegCCLK", "HardNegInfoNCE", "WeaklySupInfoNCE", "FairInfoNCE",
        "kernels", "conditional_weights", "diagnose",
    }  # fmt: skip
    assert all(hasattr(cclk, name) for name in cclk.__all__)
    assert cclk.__version__
