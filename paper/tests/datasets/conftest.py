"""A data folder in miniature."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_files import write_cifar, write_idx_dataset


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data folder with all three file datasets, in miniature."""
    write_idx_dataset(tmp_path / "mnist")
    write_idx_dataset(tmp_path / "fashion-mnist")
    write_cifar(tmp_path / "cifar10")
    return tmp_path
