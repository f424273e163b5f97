"""The worked example on images, at small size, on real garments."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cclk import augment
from cclk.augment.images import Images
from cclk.datasets import load
from cclk.training.run_folder import RunFolder
from examples import rotated_fashion
from examples.rotated_fashion import ANGLE, CHOICES, COLUMNS, main, make_images, rotated

ROOT = Path(rotated_fashion.__file__).parents[1]
SAMPLE = ROOT / "examples" / "data" / "fashion-sample.npz"


def rows(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_images_and_table_are_what_a_user_has(tmp_path: Path) -> None:
    garments = load(str(SAMPLE))
    found = rows(make_images(tmp_path / "a", garments, 200))
    again = rows(make_images(tmp_path / "b", garments, 200))
    assert found == again, "the same seed gives the same images"
    angles = np.array([float(row["angle"]) for row in found])
    assert (np.abs(angles) <= ANGLE).all()
    assert len(np.unique(angles)) > 190, "any angle, not a few"
    assert angles.std() == pytest.approx(2 * ANGLE / np.sqrt(12), rel=0.1), "drawn evenly"
    assert {
        name: sum(row["split"] == name for row in found) for name in ("train", "validation", "test")
    } == {"train": 140, "validation": 30, "test": 30}
    assert {row["garment"] for row in found} == set(garments.classes)
    images = [np.asarray(Image.open(tmp_path / "a" / row["path"])) for row in found]
    assert {image.shape for image in images} == {(40, 40)}
    # The angle that the table tells is the one the image was turned by: turned back, it is a
    # garment of the sample again.
    originals = garments.train.x[:, 0, 2:-2, 2:-2].numpy().astype(float)
    for row, image in list(zip(found, images, strict=True))[:5]:
        back = np.asarray(
            Image.fromarray(image).rotate(-float(row["angle"]), resample=Image.Resampling.BILINEAR)
        )[6:-6, 6:-6].astype(float)
        nearest = int(np.abs(originals - back).mean(axis=(1, 2)).argmin())
        assert garments.classes[int(garments.train.y[nearest])] == row["garment"]
        assert np.abs(originals[nearest] - back).mean() < 12


def test_no_corner_is_lost() -> None:
    full = np.pad(np.full((28, 28), 255, np.uint8), 2)
    for angle in (0.0, 45.0, -60.0):
        assert int(np.asarray(rotated(full, angle)).sum()) == pytest.approx(28 * 28 * 255, rel=0.03)


def test_it_goes_the_users_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCLK_DATA", str(tmp_path / "cache"))
    few = {"infonce": CHOICES["infonce"][-2:], "fair-cclk": CHOICES["fair-cclk"][-1:]}
    monkeypatch.setattr(rotated_fashion, "CHOICES", few)
    out = tmp_path / "result.json"
    small = ["--rows", "120", "--steps", "2", "--batch-size", "32", "--seeds", "1"]
    main(["--out", str(tmp_path), "--dataset", str(SAMPLE), "--json", str(out), *small])
    result = json.loads(out.read_text())
    assert result["command"].startswith("python -m examples.rotated_fashion --out")
    assert result["seeds"] == [0]
    for method, told in result["methods"].items():
        assert len(told["tried"]) == len(few[method])
        best = max(
            told["tried"],
            key=lambda one: (
                one["validation"]["accuracy"] - max(0, one["validation"]["nonlinear_r2"])
            ),
        )
        assert told["settings"] == best["settings"]
        for seed, evaluation in enumerate(told["evaluations"]):
            assert set(evaluation["encoder"]["leakage"]["columns"]) == {"angle"}
            run = RunFolder(tmp_path / "runs" / f"{method}-choice{best['number']}-seed{seed}")
            assert (run.settings.method, run.settings.seed) == (method, seed)
            assert run.settings.train.steps == 2
            views = augment.preset(
                run.settings.augment.augmentation,
                size=32,
                channels=1,
                **run.settings.augment.augmentation_options,
            )
            assert isinstance(views, Images)
            assert views.flip == 0, (
                "no view is turned or mirrored: what removes the angle is the condition"
            )
    assert len(list((tmp_path / "runs").iterdir())) == 3, "the seed that chose is not trained again"
    with pytest.raises(SystemExit, match="was trained with --steps 2, not 3: choose another --out"):
        main(["--out", str(tmp_path), "--dataset", str(SAMPLE), *small, "--steps", "3"])


def test_the_page_has_the_settings_that_were_chosen() -> None:
    text = (ROOT / "docs" / "tutorials" / "own-images.md").read_text()
    result = json.loads((ROOT / "results" / "example-rotated-fashion.json").read_text())
    assert f"columns=(--data rotated/rotated.csv {' '.join(COLUMNS)})" in text
    for method, told in result["methods"].items():
        options = told["settings"] | {
            "steps": result["settings"]["steps"],
            "warmup": result["settings"]["warmup"],
        }
        spelled = " ".join(f"--{name} {shlex.quote(value)}" for name, value in options.items())
        assert (
            f'cclk train "${{columns[@]}}" --method {method} --remove none {spelled} --out' in text
        )
        assert [
            one["settings"] for one in sorted(told["tried"], key=lambda one: one["number"])
        ] == CHOICES[method]


def test_methods_have_as_many_choices() -> None:
    assert len({len(choices) for choices in CHOICES.values()}) == 1


@pytest.mark.parametrize(
    ("option", "words"), [("--json", "there is no folder"), ("--dataset", "unknown dataset")]
)
def test_mistakes_are_told_before_the_work(
    option: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path / "out"), option, str(tmp_path / "nowhere" / "result")])
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_too_few_rows(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"--rows is 10000: fashion-sample has 340 images"):
        main(["--out", str(tmp_path), "--dataset", str(SAMPLE)])
