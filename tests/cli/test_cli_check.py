"""The look at data before training: what it finds, and how it ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cclk.cli.main import main
from cclk.data.dataset import Dataset
from cclk.evaluation import Leakage, Samples, run_evaluation
from cclk.training import check as checking
from cclk.training.run_folder import load_dataset
from cclk.training.settings import Settings, load

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def table(folder: Path, rows: int = 80) -> Path:
    random = np.random.default_rng(0)
    lines = ["path,age,name,flat,kind,s_1,s_2"]
    for row in range(rows):
        Image.fromarray(random.integers(0, 255, (8, 8, 3), np.uint8)).save(folder / f"{row}.png")
        lines.append(
            f"{row}.png,{20 + row * 0.5},n{row},same,{'rare' if row == 0 else row % 2},"
            f"{random.normal():.2f},7"
        )
    path = folder / "t.csv"
    path.write_text("\n".join(lines))
    return path


def check(
    capsys: pytest.CaptureFixture[str], *arguments: object, batch_size: int = 32
) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(
            main(["check", *map(str, arguments), "--batch-size", str(batch_size), "--steps", "10"])
        )
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().out


def test_good_data_end_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = check(
        capsys,
        "--data",
        table(tmp_path),
        "--image",
        "path",
        "--condition",
        "age",
        "--encoder",
        "lenet5",
        "--augmentation",
        "digits",
        "--data-dir",
        tmp_path,
    )
    assert code == 0
    for words in (
        "age is a number from 20 to 59.5",
        "rows: 56 to train on, 12 to validate on, 12 to test on",
        "all 80 images can be read",
    ):
        assert words in told
    assert "there is no label" in told
    assert "in a batch of 32 the median anchor has" in told
    assert "training lenet5 will take about" in told
    assert "--gray" not in told
    assert "!!" not in told


def test_gray_images_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path)
    for image in tmp_path.glob("*.png"):
        Image.open(image).convert("L").save(image)
    arguments = (
        "--data",
        path,
        "--image",
        "path",
        "--condition",
        "age",
        "--encoder",
        "lenet5",
        "--data-dir",
        tmp_path,
    )
    code, told = check(capsys, *arguments)
    assert code == 0
    assert "the images seem to be gray: --gray reads one channel instead of three" in told
    assert "--gray" not in check(capsys, *arguments, "--gray")[1]


def test_problems_are_named_and_end_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path)
    (tmp_path / "3.png").write_text("no image")
    (tmp_path / "50.png").write_bytes((tmp_path / "50.png").read_bytes()[:40])
    conditions = ["--condition", "age", "--condition", "name", "--condition", "flat"]
    code, told = check(
        capsys,
        "--data",
        path,
        "--image",
        "path",
        *conditions,
        "--label",
        "kind",
        "--encoder",
        "lenet5",
        "--data-dir",
        tmp_path,
    )
    assert code == 1
    assert "2 of 80 images cannot be read" in told
    assert "3.png" in told
    assert "50.png" in told
    assert "condition name has 56 categories in 56 rows" in told
    assert "condition flat never changes" in told
    assert "rare classes will hardly be learned" in told
    assert "fewer condition columns" in told


def train(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    arguments = ["--data", folder / "t.csv", "--image", "path", "--condition", "age"]
    network = ["--encoder", "lenet5", "--data-dir", folder, "--steps", "2", "--out", folder / "run"]
    code = main(["train", *map(str, [*arguments, *network]), "--batch-size", "32", "--quiet"])
    return code, capsys.readouterr().err


def test_training_lists_all_unreadable_images_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(tmp_path)
    for row in range(3, 8):
        (tmp_path / f"{row}.png").write_text("no image")
    (tmp_path / "50.png").write_bytes((tmp_path / "50.png").read_bytes()[:150])
    code, told = train(tmp_path, capsys)
    assert code == 2
    assert told.startswith("cclk: 6 of 80 images cannot be read: ")
    assert " and 2 more (not an image in a supported format); 50.png (it may be truncated" in told
    assert not (tmp_path / "run").exists()


def test_git_lfs_pointers_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path)
    for image in tmp_path.glob("*.png"):
        image.write_bytes(POINTER)
    code, told = train(tmp_path, capsys)
    assert code == 2
    assert "80 of 80 images cannot be read: " in told
    assert " and 77 more (a Git LFS pointer): " in told
    assert "run git lfs pull" in told
    arguments = ["--image", "path", "--condition", "age", "--data-dir", tmp_path]
    code, told = check(capsys, "--data", path, *arguments)
    assert code == 1
    assert "(a Git LFS pointer)" in told


def test_images_are_checked_for_a_limited_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path)
    monkeypatch.setattr(checking, "_SECONDS", 0)
    arguments = ["--image", "path", "--condition", "age", "--encoder", "lenet5"]
    code, told = check(capsys, "--data", path, *arguments, "--data-dir", tmp_path)
    assert code == 0
    assert "0 of 80 images were read, within 0 seconds, without a fault" in told


def test_long_training_comes_with_faster_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps take as long as a patched clock says: 10 seconds, or 0.1 with lenet5."""
    path = table(tmp_path)

    def step_time(settings: Settings, _: Dataset) -> tuple[float, int]:
        return (0.1 if settings.model.encoder == "lenet5" else 10.0), 1175

    monkeypatch.setattr(checking, "_step_time", step_time)
    arguments = ["--image", "path", "--condition", "age", "--remove", "none"]
    code, told = check(capsys, "--data", path, *arguments, "--data-dir", tmp_path)
    assert code == 0
    assert "?? training resnet18 of width 16 will take about 3.3 hours: 1,175 steps of" in told
    assert "--encoder lenet5 takes 118 seconds; --steps 60 takes 10 minutes" in told


def test_conditions_among_inputs_and_constant_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = check(capsys, "--data", table(tmp_path), "--features", "s_*", "--condition", "s_1")
    assert code == 0
    assert "the condition s_1 is also an input" in told
    assert "1 of 2 inputs never change" in told


def test_data_that_cannot_be_read_end_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = check(capsys, "--data", table(tmp_path), "--features", "s_*", "--condition", "height")
    assert code == 2


def test_a_batch_larger_than_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = check(
        capsys, "--data", table(tmp_path), "--features", "s_*", "--condition", "age", batch_size=500
    )
    assert code == 1
    assert "larger than the training split: batch_size must be at most 56" in told


def test_what_there_is_to_remove_is_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    dose = random.normal(size=400)
    inputs = np.stack([dose, random.normal(size=400)], axis=1).astype(np.float32)
    path = tmp_path / "doses.npz"
    label = (dose > 0).astype(np.int64)
    split = np.repeat(["train", "validation", "test"], [240, 60, 100])
    np.savez(path, x=inputs, y=label, condition=dose[:, None].astype(np.float32), split=split)
    options = ("--dataset", path, "--encoder", "mlp", "--augmentation", "vectors")
    _, text = check(capsys, *options)
    assert "probes read R^2 0.9" in text or "probes read R^2 1.0" in text
    assert "the label alone reveals 0.6" in text
    _, text = check(capsys, *options, "--method", "infonce")
    assert "probes read" not in text
    dose[split == "test"] = 1.0
    np.savez(path, x=inputs, y=label, condition=dose[:, None].astype(np.float32), split=split)
    assert "never changes in the test split: nothing can be forecast" in check(capsys, *options)[1]


def test_too_few_rows_to_forecast_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--data", table(tmp_path), "--features", "s_1", "--condition", "age")
    code, told = check(capsys, *options)
    assert code == 0
    assert "?? 56 rows to train on and 12 to test on are too few to forecast" in told
    assert "too few" not in check(capsys, *options, "--method", "infonce")[1]


@pytest.mark.parametrize("kind", ["table", "images"])
def test_inputs_that_are_all_equal_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = table(tmp_path)
    for image in tmp_path.glob("*.png"):
        Image.new("RGB", (8, 8), "red").save(image)
    images = ["--image", "path", "--encoder", "lenet5"]
    inputs = ["--features", "s_2"] if kind == "table" else images
    options = ["--data", path, *inputs, "--condition", "age", "--data-dir", tmp_path]
    code, told = check(capsys, *options)
    assert code == 1
    assert "!! all samples to train on are equal: there is nothing to learn" in told
    assert "will take about" not in told
    run = ["--steps", 2, "--batch-size", 32, "--out", tmp_path / "run"]
    assert main(["train", *map(str, [*options, *run])]) == 2
    assert "all samples to train on are equal" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_forecast_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random, measured = np.random.default_rng(0), []

    def measure(*parts: Samples, quick: bool = False, **_: object) -> Leakage:
        measured.append((max(map(len, parts)), quick))
        return Leakage()

    monkeypatch.setattr(run_evaluation, "measure_leakage", measure)
    path = tmp_path / "many.npz"
    np.savez(
        path,
        x=random.normal(size=(9000, 2)),
        y=np.zeros(9000, np.int64),
        condition=random.normal(size=9000),
    )
    settings = load(overrides={"dataset": str(path), "encoder": "mlp"})
    list(run_evaluation.predict_removal(settings, load_dataset(settings)))
    assert measured == [(1000, True)] * 2


def test_a_damaged_image_that_was_not_sampled_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path)
    for row in range(40):
        (tmp_path / f"{row}.png").write_text("no image")
    monkeypatch.setattr(checking, "_SECONDS", 0)
    arguments = ["--image", "path", "--condition", "age", "--encoder", "lenet5"]
    code, text = check(capsys, "--data", path, *arguments, "--data-dir", tmp_path)
    assert code == 1
    assert ".png is not an image" in text.partition("!! ")[2]
