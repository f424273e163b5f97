"""Training: every method runs, a run explains itself, and an interrupted one ends as if it had
not been.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cclk.cli.main import main
from cclk.data.dataset import Split
from cclk.errors import CclkWarning, RunError, SettingsError
from cclk.registry import METHODS
from cclk.training import loop as training
from cclk.training import methods
from cclk.training.callbacks import Callback, Embed
from cclk.training.checkpoints import KEPT
from cclk.training.resolve import resolve
from cclk.training.run_folder import RunFolder, load_dataset
from cclk.training.settings import Settings, load
from cclk.training.trainer import Trainer

ROOT = Path(__file__).parents[2]
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """A small table: two columns tell the class, the others the nuisance."""
    random_state = np.random.default_rng(0)
    y = random_state.integers(0, 3, 300)
    nuisance = random_state.normal(size=(300, 1))
    x = np.concatenate(
        [np.eye(3)[y] * 2, nuisance @ random_state.normal(size=(1, 5))], axis=1
    ) + 0.3 * random_state.normal(size=(300, 8))
    path = tmp_path / "table.npz"
    np.savez(path, x=x.astype(np.float32), y=y, condition=nuisance.astype(np.float32))
    return path


def small(data: Path, **overrides: object) -> Settings:
    chosen = {
        "dataset": str(data),
        "encoder": "mlp",
        "encoder_options": {"hidden": [16]},
        "augmentation": "vectors",
        "batch_size": 64,
        "steps": 12,
        "log_every": 4,
        "checkpoint_every": 5,
        "projection": 8,
        "clusters": 4,
    }
    return load(overrides=chosen | overrides)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "encoder.safetensors")


def test_speed_is_in_samples(
    vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = training.train(small(vectors), tmp_path / "run")
    assert " samples/s" in capsys.readouterr().err
    assert run.metrics()[0]["samples_per_second"] > 0


def test_a_loss_that_diverges_names_the_learning_rate(vectors: Path, tmp_path: Path) -> None:
    settings = small(vectors, lr=1e18, remove="medium")
    with pytest.raises(ValueError, match="lower the learning rate if the network has diverged"):
        training.train(settings, tmp_path / "run", quiet=True)


@pytest.mark.parametrize("method", tuple(METHODS._entries))
def test_every_method_trains(method: str, vectors: Path, tmp_path: Path) -> None:
    run = training.train(
        small(vectors, method=method), tmp_path / "run", command="test", quiet=True
    )
    lines = run.metrics()
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert all(np.isfinite(line["loss"]) for line in lines)
    assert ("effective_neighbors" in lines[0]) == (method in ("weaksup-cclk", "fair-cclk"))
    features, projections = run.embed_split(run.dataset.test)
    assert features.shape == (len(run.dataset.test), 16)
    assert projections.shape == (len(run.dataset.test), 8)
    assert features.isfinite().all()
    scales = {} if run.kernel is None else run.kernel.state_dict()
    assert (scales != {}) == (method in ("weaksup-cclk", "fair-cclk"))
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["command"] == "test"
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == KEPT


@pytest.mark.parametrize("method", tuple(METHODS._entries))
def test_every_method_trains_with_a_queue(method: str, vectors: Path, tmp_path: Path) -> None:
    settings = small(
        vectors,
        method=method,
        queue=90,
        symmetric=method != "infonce",
        views="cross" if method == "fair-cclk" else "all",
    )
    run = training.train(settings, tmp_path / "run", quiet=True)
    assert all(np.isfinite(line["loss"]) for line in run.metrics())
    assert run.embed_split(run.dataset.test)[0].std(dim=0).max() > 0.01


@pytest.mark.parametrize(
    "overrides",
    [
        {"sampler": "local"},
        {"optimizer": "lars", "lr": 1.0, "scale_lr": True, "warmup": 0.5},
        {"kernel": "laplacian"},
    ],
)
def test_other_settings_train(overrides: dict[str, object], vectors: Path, tmp_path: Path) -> None:
    training.train(small(vectors, **overrides), tmp_path / "run", quiet=True)


def test_a_seed_is_a_run(vectors: Path, tmp_path: Path) -> None:
    first, same, other = (
        training.train(small(vectors, seed=seed), tmp_path / name, quiet=True)
        for seed, name in ((3, "a"), (3, "b"), (4, "c"))
    )
    assert all(
        torch.equal(value, weights(same.folder)[key])
        for key, value in weights(first.folder).items()
    )
    assert any(
        not torch.equal(value, weights(other.folder)[key])
        for key, value in weights(first.folder).items()
    )


@pytest.mark.parametrize("queue", [0, 90])
def test_bfloat16_is_for_the_way_through_the_network_only(
    queue: int, vectors: Path, tmp_path: Path
) -> None:
    precise, rough = (
        training.train(
            small(vectors, precision=precision, queue=queue), tmp_path / precision, quiet=True
        )
        for precision in ("float32", "bfloat16")
    )
    kept = weights(rough.folder)
    assert {value.dtype for value in kept.values() if value.is_floating_point()} == {torch.float32}
    assert any(not torch.equal(value, kept[key]) for key, value in weights(precise.folder).items())
    assert rough.metrics()[0]["loss"] == pytest.approx(precise.metrics()[0]["loss"], rel=0.02)


def test_outcomes_are_clusters(tmp_path: Path) -> None:
    """Two columns of whole numbers: six outcomes, of which k-means would make four clusters."""
    random_state = np.random.default_rng(0)
    condition = random_state.integers(0, (2, 3), (300, 2)).astype(np.float32)
    path = tmp_path / "discrete.npz"
    np.savez(
        path,
        x=random_state.normal(size=(300, 8)).astype(np.float32),
        y=np.arange(300) % 3,
        condition=condition,
    )
    settings = small(path, method="weaksup-infonce", clusters="values", holdout=0)
    dataset = load_dataset(settings)
    built = methods.build(resolve(settings, dataset), dataset).condition
    assert built is not None
    clusters = built.values[:, 0]
    assert len(clusters.unique()) == 6
    rows = dataset.train.condition
    assert torch.equal(clusters[:, None] == clusters, (rows[:, None] == rows).all(dim=2))
    training.train(settings, tmp_path / "run", quiet=True)


def test_outcomes_that_never_repeat_are_no_fair_clusters(vectors: Path) -> None:
    settings = small(vectors, method="fair-infonce", clusters="values")
    dataset = load_dataset(settings)
    with pytest.raises(SettingsError, match=r"no two rows of .* have the same: set a number"):
        methods.build(resolve(settings, dataset), dataset)


def measure(embed: Embed, split: Split) -> dict[str, float]:
    """A measurement without manners: it uses and sets random states."""
    torch.manual_seed(0)
    np.random.seed(0)
    features, projections = embed(split)
    return {
        "size": float(features.norm()),
        "projected": float(projections.norm() + torch.rand(()) + np.random.rand()),
    }


@pytest.mark.parametrize("encoder", ["mlp", "noisy_encoder:make"])
def test_a_watch_leaves_no_trace(
    encoder: str, vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit the same weights, also of a network with dropout, which takes its random
    numbers where a measurement does.
    """
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "noisy_encoder.py").write_text(
        "from torch import nn\ndef make(channels, hidden):\n    return"
        " nn.Sequential(nn.Linear(channels, hidden[0]), nn.BatchNorm1d(hidden[0]),"
        " nn.Dropout(0.1))\n"
    )
    settings = small(vectors, encoder=encoder)
    split = load_dataset(settings).validation
    torch.manual_seed(5)
    plain = training.train(settings, tmp_path / "plain", quiet=True)
    torch.manual_seed(5)
    np.random.seed(5)
    expected = np.random.get_state()[1][:4].tolist()
    watched = training.train(
        settings,
        tmp_path / "watched",
        quiet=True,
        callback=Callback(5, lambda embed: measure(embed, split)),
    )
    assert np.random.get_state()[1][:4].tolist() == expected
    assert all(
        torch.equal(value, weights(watched.folder)[key])
        for key, value in weights(plain.folder).items()
    )
    lines = {line["step"]: line for line in watched.metrics()}
    assert [step for step, line in lines.items() if "size" in line] == [5, 10, 12]
    assert list(lines) == [4, 5, 8, 10, 12]
    assert [line["loss"] for line in plain.metrics()] == [
        lines[step]["loss"] for step in (4, 8, 12)
    ]
    # The last look is at the weights that are kept, in evaluation mode.
    assert lines[12]["size"] == float(watched.embed_split(split)[0].norm())
    assert lines[5]["size"] != lines[10]["size"]


def test_a_watch_goes_on_with_the_run(vectors: Path, tmp_path: Path) -> None:
    settings = small(vectors)
    split = load_dataset(settings).validation
    watch = Callback(3, lambda embed: measure(embed, split))
    whole = training.train(settings, tmp_path / "whole", quiet=True, callback=watch)
    cut = training.train(settings, tmp_path / "cut", quiet=True, callback=watch)
    max((cut.folder / "checkpoints").glob("*.safetensors")).unlink()  # step 12; 10 is left
    training.resume(cut.folder, quiet=True, callback=watch)
    shown = [
        [
            {key: line.get(key) for key in ("step", "loss", "size", "projected")}
            for line in run.metrics()
        ]
        for run in (whole, cut)
    ]
    assert shown[0] == shown[1]


def test_a_watch_is_told_what_is_wrong(vectors: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every is 0"):
        Callback(0, lambda embed: {})
    with pytest.raises(ValueError, match=r"the callback measures .loss., which is logged already"):
        training.train(
            small(vectors),
            tmp_path / "run",
            quiet=True,
            callback=Callback(3, lambda embed: {"loss": 0.0}),
        )


def start(data: Path, folder: Path, steps: int, queue: int) -> subprocess.Popen[str]:
    arguments = [
        "--dataset",
        str(data),
        "--encoder",
        "mlp",
        "--encoder-options",
        "{ hidden = [16] }",
        "--augmentation",
        "vectors",
        "--batch-size",
        "64",
        "--steps",
        str(steps),
        "--log-every",
        "7",
        "--checkpoint-every",
        "10",
        "--projection",
        "8",
        "--queue",
        str(queue),
        "--out",
        str(folder),
    ]
    command = [sys.executable, "-m", "cclk", "train", *arguments]
    return subprocess.Popen(command, env=ONE_THREAD, stderr=subprocess.PIPE, text=True)


def resume(folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "cclk", "train", "--resume", "--quiet", "--out", str(folder)],
        env=ONE_THREAD,
        check=True,
    )


@pytest.mark.parametrize(
    ("how", "queue"), [(signal.SIGKILL, 90), (signal.SIGTERM, 0), (signal.SIGINT, 0)]
)
def test_an_interrupted_run_ends_the_same(
    how: signal.Signals, queue: int, vectors: Path, tmp_path: Path
) -> None:
    steps = 300 if queue else 500
    settings = small(vectors, steps=steps, log_every=7, checkpoint_every=10, queue=queue)
    whole = training.train(settings, tmp_path / "whole", quiet=True)
    folder = tmp_path / "cut"
    process = start(vectors, folder, steps, queue)
    deadline = time.time() + 60
    while not list(folder.glob("checkpoints/step-*.safetensors")):
        assert time.time() < deadline
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.01)
    time.sleep(random.random() / 4)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert not (folder / "encoder.safetensors").exists()
    if how == signal.SIGKILL:
        assert process.returncode == -how
    else:
        assert process.returncode == 128 + how
        assert f"resume with: cclk train --resume --out {folder}" in said
    resume(folder)
    assert all(
        torch.equal(value, weights(folder)[key]) for key, value in weights(whole.folder).items()
    )
    kept = [
        {key: line[key] for key in ("step", "loss", "lr")} for line in RunFolder(folder).metrics()
    ]
    assert kept == [{key: line[key] for key in ("step", "loss", "lr")} for line in whole.metrics()]


def test_a_finished_run_is_not_overwritten(vectors: Path, tmp_path: Path) -> None:
    run = training.train(small(vectors), tmp_path / "run", quiet=True)
    with pytest.raises(RunError, match="already contains a run: resume it"):
        training.train(small(vectors), tmp_path / "run", quiet=True)
    before = weights(run.folder)
    training.resume(run.folder, quiet=True)  # nothing left to do
    assert all(torch.equal(value, weights(run.folder)[key]) for key, value in before.items())


def test_a_rejected_run_leaves_its_folder_free(vectors: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be imported"):
        training.train(
            small(vectors, encoder="torch.nn:Absent", encoder_options={}),
            tmp_path / "run",
            quiet=True,
        )
    training.train(small(vectors), tmp_path / "run", quiet=True)


@pytest.mark.parametrize("how", ["data", "encoder", "first step", "stopped"])
def test_a_run_that_does_not_begin_leaves_nothing(
    how: str, vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the folder nor the parents that were made for it; what was there before stays."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    def fail(*_: object) -> None:
        raise ValueError("out of luck")

    if how in ("first step", "stopped"):
        monkeypatch.setattr(Trainer, "step", fail if how == "first step" else stop)
    settings = {
        "data": small(tmp_path / "nowhere.npz"),
        "encoder": small(vectors, encoder="torch.nn:Absent", encoder_options={}),
    }.get(how, small(vectors))
    (tmp_path / "old" / "checkpoints").mkdir(parents=True)
    (tmp_path / "old" / "notes.txt").write_text("mine")
    (tmp_path / "old" / "metrics.jsonl").write_text("")
    before = sorted(tmp_path.rglob("*"))
    for folder in (tmp_path / "new" / "deep" / "run", tmp_path / "old", tmp_path / "old" / "run"):
        with pytest.raises((ValueError, KeyboardInterrupt)):
            training.train(settings, folder, quiet=True)
        assert sorted(tmp_path.rglob("*")) == before


def test_a_run_that_has_begun_is_kept(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer.step

    def fails_later(self: Trainer, number: int) -> torch.Tensor:
        if number == 2:
            raise ValueError("out of luck")
        return step(self, number)

    monkeypatch.setattr(Trainer, "step", fails_later)
    with pytest.raises(ValueError, match="out of luck"):
        training.train(small(vectors), tmp_path / "run", quiet=True)
    monkeypatch.undo()
    training.resume(tmp_path / "run", quiet=True)


@pytest.mark.parametrize("method", ["infonce", "hardneg-infonce", "hardneg-cclk"])
@pytest.mark.parametrize("queue", [0, 90])
def test_arrays_without_a_condition(method: str, queue: int, vectors: Path, tmp_path: Path) -> None:
    with np.load(vectors) as arrays:
        np.savez(tmp_path / "plain.npz", x=arrays["x"], y=arrays["y"])
    run = training.train(
        small(tmp_path / "plain.npz", method=method, queue=queue), tmp_path / "run", quiet=True
    )
    assert run.dataset.columns == ()
    assert all(np.isfinite(line["loss"]) for line in run.metrics())
    with pytest.raises(
        SettingsError, match="weaksup-infonce needs a condition: add an array `condition`"
    ):
        load_dataset(small(tmp_path / "plain.npz", method="weaksup-infonce"))


TWO, THREE = ["--devices", "2"], ["--devices", "3"]


@pytest.mark.parametrize(
    ("options", "processes"),
    [
        ({}, TWO),
        ({"queue": "100"}, ["--nodes", "2"]),
        ({"queue": "100", "loss_options": "{ symmetric = false }"}, TWO),
        ({"head": "mlp"}, TWO),
        ({"leakage_penalty": "1", "penalty_rows": "101"}, TWO),
        ({"batch_size": "2"}, THREE),
    ],
    ids=str,
)
@pytest.mark.usefixtures("float64")
def test_several_processes_train_as_one(
    options: dict[str, str], processes: list[str], tmp_path: Path
) -> None:
    """Same rows, views, keys and batch statistics, joined loss: only the order of sums differs. In
    float64, because rounding errors of float32 grow to 1e-3 in eight steps, on some processors.
    Two machines, here the same one, have a process each. The first of three processes has no rows
    of a batch of 2.
    """
    nodes = 2 if "--nodes" in processes else 1
    chosen = {
        "method": "fair-cclk",
        "batch_size": "63",
        "steps": "8",
        "log_every": "1",
        "weights": "nw",
        **options,
    }
    alone = training.train(load(overrides=chosen), tmp_path / "one", quiet=True)
    words = [
        word for key, value in chosen.items() for word in (f"--{key.replace('_', '-')}", value)
    ]
    command = [sys.executable, "-m", "benchmarks.double", "train", *words, *processes, "--quiet"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    running = [
        subprocess.Popen(
            [*command, "--out", str(tmp_path / "two")],
            env=ONE_THREAD | (address | {"NODE_RANK": str(node)} if nodes == 2 else {}),
            cwd=ROOT,
        )
        for node in range(nodes)
    ]
    assert [process.wait(timeout=120) for process in running] == [0] * nodes
    losses = [
        [line["loss"] for line in RunFolder(folder).metrics()]
        for folder in (alone.folder, tmp_path / "two")
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-7)


def test_machines_need_the_address_of_the_first(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "SLURM_NTASKS", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match=r"train.nodes is 2, but MASTER_ADDR, MASTER_PORT and"):
        training.train(small(vectors, nodes=2), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_full_disk_leaves_earlier_checkpoints(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer.step

    def fails_later(self: Trainer, number: int) -> torch.Tensor:
        if number == 11:
            raise ValueError("out of luck")
        return step(self, number)

    monkeypatch.setattr(Trainer, "step", fails_later)
    with pytest.raises(ValueError, match="out of luck"):
        training.train(small(vectors, steps=40), tmp_path / "run", quiet=True)
    monkeypatch.undo()
    before = sorted((tmp_path / "run" / "checkpoints").iterdir())
    # No file may grow beyond a few KiB: what the process meets is what a full disk gives, a write
    # that fails.
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "cclk",
            "train",
            "--resume",
            "--quiet",
            "--out",
            str(tmp_path / "run"),
        ],
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "could not be written" in done.stderr
    assert sorted((tmp_path / "run" / "checkpoints").iterdir()) == before
    training.resume(tmp_path / "run", quiet=True)
    assert RunFolder(tmp_path / "run").metrics()[-1]["step"] == 40


def test_damaged_checkpoints_and_encoders_are_named(vectors: Path, tmp_path: Path) -> None:
    run = training.train(small(vectors), tmp_path / "run", quiet=True)
    older, newest = sorted((run.folder / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:200])
    with pytest.warns(CclkWarning, match=r"is damaged.*using the checkpoint before"):
        training.resume(run.folder, quiet=True)
    for path in (older, newest):
        path.write_bytes(path.read_bytes()[:200])
    with (
        pytest.warns(CclkWarning, match="is damaged"),
        pytest.raises(RunError, match=r"all checkpoints of .*run are damaged: train again"),
    ):
        training.resume(run.folder, quiet=True)
    (run.folder / "encoder.safetensors").write_bytes(b"nothing")
    with pytest.raises(RunError, match=r"encoder\.safetensors is damaged"):
        _ = RunFolder(run.folder).network


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--preset", "none"], "unknown preset 'none'"),
        (["train", "--learning-rate", "1"], "no option --learning-rate"),
        (["train", "--train.ridge", "1"], "no option --train.ridge"),
        (["train", "--lr=fast"], "lr: input should be a valid number"),
        (["train", "--dataset", "nowhere.npz"], "nowhere.npz"),
        (["train", "--dataset", "imagenet"], "unknown dataset 'imagenet'"),
        (["train", "--encoder", "vgg"], "unknown encoder 'vgg'"),
        (["train", "--batch-size", "5000"], "at most 1200"),
        (
            ["train", "--sampler", "local", "--batch-size", "250"],
            "group is 16: it must be at least 1 and divide the batch_size, 250",
        ),
        (["train", "--sampler", "clusters"], "fair-cclk has none"),
        (["train", "--resume"], "--resume needs --out"),
        (["train", "--resume", "--out", "nowhere"], "nowhere contains no settings.json"),
        (["train", "--dataset", "colormnist", "--data-dir", "{tmp}/empty"], "mnist"),
        (["train", "--seed", "1", "--out", "{tmp}/file/run"], "cannot be created"),
        (["evaluate", "nowhere"], "nowhere contains no settings.json"),
        (["evaluate"], "runs"),
        (["report", "nowhere"], "nowhere contains no settings.json"),
        (["fly"], "fly"),
        (["demo", "--seeds", "0"], "--seeds is 0"),
        (["train", "--seed", "18446744073709551615"], "seed: input should be less than"),
    ],
)
def test_the_command_line_says_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main([argument.replace("{tmp}", str(tmp_path)) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_settings_by_section_and_name(vectors: Path, tmp_path: Path) -> None:
    common = [
        "--dataset",
        str(vectors),
        "--encoder",
        "mlp",
        "--augmentation",
        "vectors",
        "--steps",
        "1",
        "--quiet",
        "--out",
        str(tmp_path / "run"),
    ]
    assert (
        main(
            [
                "train",
                *common,
                "--loss-options",
                "{ ridge = 0.5 }",
                "--batch-size=32",
                "--lr",
                "1e-4",
                "--projection=8",
            ]
        )
        == 0
    )
    settings = RunFolder(tmp_path / "run").settings
    assert (
        settings.loss.loss_options["ridge"],
        settings.train.batch_size,
        settings.optim.lr,
        settings.model.projection,
    ) == (0.5, 32, 1e-4, 8)


def test_from_training_to_report(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for method in ("infonce", "fair-cclk"):
        training.train(small(vectors, method=method), tmp_path / method, quiet=True)
    assert main(["evaluate", "infonce", "fair-cclk", "--bootstrap", "50"]) == 0
    found = json.loads((tmp_path / "fair-cclk" / "evaluation.json").read_text())
    for part in ("encoder", "projection"):
        assert 0 <= found[part]["accuracy"]["linear"]["value"] <= 1
        for panel in found[part]["leakage"]["columns"].values():
            linear = panel["by_probe"]["linear"]
            assert linear["low"] <= linear["value"] <= linear["high"]
    assert main(["report", "infonce", "fair-cclk", "--out", "page.html", "--quiet"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "fair-cclk" in page
    assert "infonce" in page


def test_data_that_changed_are_not_taken_for_the_same(vectors: Path, tmp_path: Path) -> None:
    """Rows in another order are split another way: what was trained on would be measured as if
    it were new.
    """
    run = training.train(small(vectors), tmp_path / "run", quiet=True)
    assert RunFolder(run.folder).dataset.train.y.equal(run.dataset.train.y)
    with np.load(vectors) as stored:
        np.savez(vectors, **{name: values[::-1] for name, values in stored.items()})
    for look in (
        lambda: RunFolder(run.folder).dataset,
        lambda: training.resume(run.folder, quiet=True),
    ):
        with pytest.raises(RunError, match=r"table\.npz has changed since .*run was started"):
            look()
    settings = json.loads((run.folder / "settings.json").read_text())
    del settings["data_fingerprint"]  # runs of before there were fingerprints
    (run.folder / "settings.json").write_text(json.dumps(settings))
    assert len(RunFolder(run.folder).dataset.train)


def test_equal_runs_are_equal_files(vectors: Path, tmp_path: Path) -> None:
    """In processes of their own, whose hash maps have other orders."""
    files = (
        "run/encoder.safetensors",
        "run/export.safetensors",
        "run/export.onnx",
        "run/export.pt2",
        "features.npz",
        "features.parquet",
    )
    found = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        code = (
            "import sys; from cclk.cli.main import main; sys.exit(any(main(line.split()) for line"
            " in sys.argv[1:]))"
        )
        commands = [
            (
                f"train --dataset {vectors} --encoder mlp --augmentation vectors --batch-size 64"
                " --steps 2 --out run"
            ),
            *(f"export run --format {form}" for form in ("safetensors", "onnx", "torch")),
            *(f"embed run {vectors} --out features.{form}" for form in ("npz", "parquet")),
        ]
        subprocess.run(
            [sys.executable, "-c", code, *(f"{command} --quiet" for command in commands)],
            cwd=folder, env=ONE_THREAD | {"PYTHONHASHSEED": seed}, check=True,
        )  # fmt: skip
        found.append(
            {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files}
        )
    assert found[0] == found[1]
