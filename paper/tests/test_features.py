"""Writing the file of features: every row once, in order, under its id, and nothing left behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from backbones import tiny
from cclk_paper.features import extract, load_all_rows
from faults import largest_file
from PIL import Image
from torch import Tensor

import cclk
from cclk.backbones import Extractor
from cclk.columns import Column
from cclk.data import Dataset, Split
from cclk.data.streamed import StreamedImages
from cclk.errors import FeatureError


def red(x: Tensor) -> Tensor:
    """The number that a tiny image holds, and a constant."""
    return torch.stack([x[:, 0, 0, 0], torch.ones(len(x))], dim=1)


EXTRACTOR = Extractor("red", red, metadata={"size": 8})


@pytest.mark.parametrize("batch_size", [1, 3, 7, 64])
def test_rows_are_in_order_under_their_ids(tmp_path: Path, batch_size: int) -> None:
    out = extract(
        tiny.dataset(7, 2, 4),
        EXTRACTOR,
        tmp_path / "new" / "f.npz",
        batch_size=batch_size,
        quiet=True,
    )
    with np.load(out, allow_pickle=False) as archive:
        assert sorted(archive.files) == ["features", "ids", "metadata"]
        features, ids, about = (
            archive["features"],
            archive["ids"],
            json.loads(str(archive["metadata"])),
        )
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, np.stack([np.arange(13), np.ones(13)], axis=1), atol=1e-4)
    assert ids.tolist() == [f"train/{i:08d}" for i in range(7)] + [
        f"validation/{i:08d}" for i in range(2)
    ] + [f"test/{i:08d}" for i in range(4)]
    assert about == {"dataset": "tiny", "encoder": "red", "size": 8, "version": cclk.__version__}
    assert [path.name for path in out.parent.iterdir()] == ["f.npz"], "drafts are gone"


def test_components_are_those_of_the_training_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["cclk_paper.features"], "_BLOCK", 5)
    mix = torch.randn(3 * 8 * 8, 6, generator=torch.Generator().manual_seed(0)).double()

    def mixed(x: Tensor) -> Tensor:
        noise = torch.randn(len(x), 3 * 8 * 8, generator=torch.Generator().manual_seed(len(x)))
        return ((x.flatten(1) + noise).double() @ mix).float()

    dataset = tiny.dataset(23, 4, 6)
    files = [
        extract(
            dataset,
            Extractor("mixed", mixed),
            tmp_path / f"{count}.npz",
            components=count,
            quiet=True,
        )
        for count in (0, 3)
    ]
    archives = [np.load(file, allow_pickle=False) for file in files]
    features, components = (archive["features"].astype(np.float64) for archive in archives)
    centered = features - features[:23].mean(axis=0)
    directions = np.linalg.svd(centered[:23], full_matrices=False)[2][:3]
    assert components.shape == (33, 3)
    np.testing.assert_allclose(np.abs(components), np.abs(centered @ directions.T), rtol=1e-4)
    assert json.loads(str(archives[1]["metadata"]))["components"] == 3


@pytest.mark.parametrize("size", [8, 120], ids=["while computing", "at the end"])
def test_a_full_disk_is_named(size: int, tmp_path: Path) -> None:
    out = tmp_path / "f.npz"
    with largest_file(size), pytest.raises(OSError, match=r"f.npz could not be written: File too"):
        extract(tiny.dataset(7, 2, 4), EXTRACTOR, out, batch_size=2, quiet=True)
    assert not list(tmp_path.iterdir())


def test_streamed_images_are_named_by_their_paths(tmp_path: Path) -> None:
    def images(*names: str) -> Split:
        paths = [tmp_path / "imagenet" / name for name in names]
        for number, path in enumerate(paths):
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (len(names) * 10 + number, 0, 0)).save(path)
        x = StreamedImages(paths, 8, cache_dir=tmp_path / "cache")
        return Split(x, torch.zeros(len(paths), dtype=torch.int64), torch.zeros(len(paths), 1))

    train = images("train/n01/b.png", "train/n01/a.png", "train/n02/c.png")
    test = images("val/n01/z.png")
    dataset = Dataset(
        "streamed",
        train,
        train.subset(torch.tensor([], dtype=torch.int64)),
        test,
        ("0",),
        (Column("z"),),
        "",
    )
    out = extract(dataset, EXTRACTOR, tmp_path / "f.npz", batch_size=2, quiet=True)
    with np.load(out) as archive:
        rows = zip(archive["ids"].tolist(), archive["features"][:, 0].round(), strict=True)
        assert dict(rows) == {
            "train/n01/b.png": 30,
            "train/n01/a.png": 31,
            "train/n02/c.png": 32,
            "val/n01/z.png": 10,
        }


def test_a_good_file_survives_a_failure(tmp_path: Path) -> None:
    out = extract(tiny.dataset(), EXTRACTOR, tmp_path / "f.npz", quiet=True)
    before = out.read_bytes()
    seen = 0

    def failing(x: Tensor) -> Tensor:
        nonlocal seen
        seen += len(x)
        return red(x) / (0.0 if seen > 6 else 1.0)

    with pytest.raises(
        FeatureError,
        match=(r"bad returns NaN or infinite features for train/00000006: check its weights"),
    ):
        extract(tiny.dataset(), Extractor("bad", failing), out, batch_size=2, quiet=True)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["f.npz"]


def test_mistakes_are_named(tmp_path: Path) -> None:
    out = tmp_path / "f.npz"
    with pytest.raises(FeatureError, match="batch_size is 0"):
        extract(tiny.dataset(), EXTRACTOR, out, batch_size=0)
    with pytest.raises(FeatureError, match=r"out is .*f\.csv: it must be an \.npz file"):
        extract(tiny.dataset(), EXTRACTOR, tmp_path / "f.csv")
    with pytest.raises(FeatureError, match="components is -1: it must be at least 0"):
        extract(tiny.dataset(), EXTRACTOR, out, components=-1)
    batches: list[int] = []
    counting = Extractor("red", lambda x: (batches.append(len(x)), red(x))[1])
    with pytest.raises(FeatureError, match="7 training images with 2 features have at most 2"):
        extract(tiny.dataset(7, 2, 4), counting, out, components=3, batch_size=2, quiet=True)
    assert batches == [2], "the others would be computed for nothing"
    with pytest.raises(FeatureError, match="the dataset contains no images"):
        extract(tiny.dataset(0, 0, 0), EXTRACTOR, out, quiet=True)
    with pytest.raises(
        FeatureError,
        match=r"flat returns the shape \(7,\) for 7 images: it must return features \(b, width\)",
    ):
        extract(tiny.dataset(), Extractor("flat", lambda x: x[:, 0, 0, 0]), out, quiet=True)
    vectors = Split(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), torch.zeros(3, 1))
    with pytest.raises(FeatureError, match="v contains vectors"):
        extract(Dataset("v", vectors, vectors, vectors, ("0",), (Column("z"),), ""), EXTRACTOR, out)
    assert not list(tmp_path.iterdir())


def test_the_whole_dataset_holds_nothing_out(tmp_path: Path) -> None:
    whole = load_all_rows("colordigits", options={"colors": "uniform"})
    assert (len(whole.train), len(whole.validation), len(whole.test)) == (1400, 0, 397)
    assert "uniform" in whole.description
    with pytest.raises(ValueError, match="leave out the option holdout"):
        load_all_rows("colordigits", options={"holdout": 20})
    # The rows that an .npz file says are for validation stay that.
    np.savez(
        tmp_path / "mine.npz",
        x=np.zeros((6, 3, 8, 8), np.uint8),
        y=np.arange(6) % 2,
        condition=np.arange(6.0),
        split=[0, 0, 0, 1, 2, 2],
    )
    mine = load_all_rows(str(tmp_path / "mine.npz"))
    assert (len(mine.train), len(mine.validation), len(mine.test)) == (3, 1, 2)


def test_progress_is_shown_unless_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extract(tiny.dataset(), EXTRACTOR, tmp_path / "f.npz", quiet=True)
    assert capsys.readouterr() == ("", "")
    extract(tiny.dataset(), EXTRACTOR, tmp_path / "f.npz")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "11/11" in shown.err
