"""Freed memory stays in the process while it trains, and leaves it when asked to."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

HELD = """
from pathlib import Path
import torch
from cclk.training._process import trim_memory, retain_freed_memory
def held(): return int(Path('/proc/self/status').read_text().split('VmRSS:')[1].split()[0]) / 1024
retain_freed_memory()
before = held()
tensors = [torch.ones(1 << 18) for _ in range(200)]  # 200 MiB
del tensors
kept = held()
trim_memory()
print(before, kept, held())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not told")
def test_freed_memory_is_kept_until_it_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], check=True, capture_output=True, text=True)
    before, kept, after = map(float, done.stdout.split())
    assert kept > before + 150
    assert after < before + 50
