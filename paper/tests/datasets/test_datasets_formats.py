"""The file formats: what is read, and the one line said about each kind of damage."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from cclk_paper.datasets.download import SOURCES, Checksums
from cclk_paper.datasets.formats import read_cifar, read_idx, read_labeled_idx
from small_files import cifar_bytes, idx_bytes

from cclk import datasets
from cclk.data.folder import data_folder
from cclk.errors import DataError

IMAGES = "train-images-idx3-ubyte"
LABELS = "train-labels-idx1-ubyte"


def test_environment_variable_is_used(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> None:
    monkeypatch.setenv("CCLK_DATA", str(data_dir))
    assert len(datasets.load("cifar10", holdout=0).train) == 50


def test_idx_round_trip(tmp_path: Path) -> None:
    values = np.arange(2 * 3 * 300 % 256 + 24, dtype=np.uint8)[:24].reshape(2, 3, 4)
    (tmp_path / "file").write_bytes(idx_bytes(values))
    assert (read_idx(tmp_path, "file", 3) == values).all()


@pytest.mark.parametrize("name", ["colormnist", "cifar10"])
def test_compressed_files_are_read_too(name: str, data_dir: Path) -> None:
    plain = datasets.load(name, data_dir=data_dir, holdout=0)
    for folder in data_dir.iterdir():
        for path in list(folder.iterdir()):
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    assert torch.equal(datasets.load(name, data_dir=data_dir, holdout=0).train.x, plain.train.x)


def damaged_in(folder: Path, file: str, why: str) -> str:
    return (
        rf"^{file} in {folder} is damaged: .*{why}.*; delete it to download it again, or"
        r" replace it$"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "does not begin as an IDX file"),
        (b"\x00\x00\x08", "does not begin as an IDX file"),
        (b"<html>not found</html>", "does not begin as an IDX file"),
        (
            b"\x00\x00\x08\x01\x00\x00\x00\x05hello",
            "does not begin as an IDX file of bytes in 3 dimensions",
        ),
        (b"\x00\x00\x08\x03\x00\x00", "truncated: 6 bytes"),
        (
            idx_bytes(np.zeros((60, 28, 28), np.uint8))[:-1],
            "47055 bytes, but 60 x 28 x 28 values need 47056",
        ),
        (
            idx_bytes(np.zeros((60, 28, 28), np.uint8)) + b"x",
            "47057 bytes, but 60 x 28 x 28 values need 47056",
        ),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "16 bytes, but 4294967295 x"),
        (idx_bytes(np.zeros((60, 27, 28), np.uint8)), "images are 27 x 28"),
        (
            idx_bytes(np.zeros((59, 28, 28), np.uint8)),
            "59 images, but train-labels-idx1-ubyte has 60 labels",
        ),
    ],
)
def test_damaged_images(data_dir: Path, content: bytes, why: str) -> None:
    (data_dir / "mnist" / IMAGES).write_bytes(content)
    with pytest.raises(DataError, match=damaged_in(data_dir / "mnist", IMAGES, why)):
        datasets.load("colormnist", data_dir=data_dir)


def test_damaged_labels(data_dir: Path) -> None:
    labels = np.zeros(60, np.uint8)
    labels[41] = 11
    (data_dir / "mnist" / LABELS).write_bytes(idx_bytes(labels))
    with pytest.raises(
        DataError, match=damaged_in(data_dir / "mnist", LABELS, "label 41 is 11, not one of 0 to 9")
    ):
        read_labeled_idx(data_dir / "mnist", "train")


@pytest.mark.parametrize("keep", [0, 10, 60])
def test_damaged_gzip(tmp_path: Path, keep: int) -> None:
    whole = gzip.compress(
        idx_bytes(np.random.default_rng(0).integers(0, 256, (9, 28, 28), np.uint8))
    )
    (tmp_path / f"{IMAGES}.gz").write_bytes(whole[:keep])
    with pytest.raises(DataError, match=damaged_in(tmp_path, f"{IMAGES}.gz", "")):
        read_idx(tmp_path, IMAGES, 3)
    (tmp_path / f"{IMAGES}.gz").write_bytes(b"not gzip at all")
    with pytest.raises(DataError, match=damaged_in(tmp_path, f"{IMAGES}.gz", "not a gzip file")):
        read_idx(tmp_path, IMAGES, 3)


@pytest.mark.parametrize("content", [b"", cifar_bytes(0)[:-1], cifar_bytes(0) + b"x"])
def test_damaged_cifar_sizes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "test_batch.bin").write_bytes(content)
    with pytest.raises(
        DataError,
        match=damaged_in(
            tmp_path, "test_batch.bin", f"{len(content)} bytes, not a multiple of 3073"
        ),
    ):
        read_cifar(tmp_path, "test_batch.bin")


def test_damaged_cifar_label(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(b"\x0a" + bytes(3072))
    with pytest.raises(DataError, match=damaged_in(tmp_path, "test_batch.bin", "label 0 is 10")):
        read_cifar(tmp_path, "test_batch.bin")


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=rf"^{IMAGES} is missing: put it, or {IMAGES}.gz, into {tmp_path}$"
    ):
        read_idx(tmp_path, IMAGES, 3)
    (tmp_path / "loop").mkdir()
    (tmp_path / IMAGES).symlink_to(tmp_path / "loop")
    with pytest.raises(DataError, match="is missing"):
        read_idx(tmp_path, IMAGES, 3)


def test_the_real_files_if_they_are_here() -> None:
    """Where the real files are on this machine, they are the published ones and are read."""
    for name, source in SOURCES.items():
        folder = data_folder() / name
        if not all((folder / file).is_file() for file in source.sums):
            continue
        images, labels = (
            read_cifar(folder, "test_batch.bin")
            if name == "cifar10"
            else read_labeled_idx(folder, "t10k")
        )
        assert len(images) == len(labels) == 10_000
        assert np.bincount(labels).min() >= 892
        file = "test_batch.bin" if name == "cifar10" else "t10k-images-idx3-ubyte"
        assert Checksums.of((folder / file).read_bytes()) == source.sums[file]
