"""The readers as targets of `benchmarks.fuzz`: valid files, their mutations, and what is done with
what was read.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import math
import random
import shutil
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import ANY, patch

import numpy as np
import torch
from cclk_paper.datasets import feature_files
from cclk_paper.experiments import results
from cclk_paper.experiments.markdown import markdown

from benchmarks.fuzz_mutations import (
    ODD_TEXTS,
    as_json,
    mutate_bytes,
    mutate_npz,
    mutate_safetensors,
    mutate_tree,
)
from cclk.backbones import build_extractor
from cclk.data import arrays, manifest
from cclk.data.fingerprint import fingerprint
from cclk.errors import CclkError
from cclk.estimator import ConditionalEncoder
from cclk.evaluation import Evaluation, card, read_evaluation, score_table
from cclk.report import RunView, plots
from cclk.report.page import render
from cclk.training import loop as training
from cclk.training import settings as training_settings
from cclk.training.encoder import TrainedEncoder
from cclk.training.metrics import read_metrics
from cclk.training.run_folder import RunFolder
from cclk.training.samples import _array
from cclk.training.trainer import Trainer

Case = Callable[[random.Random], str]
ROWS = 40


class Unclear(Exception):  # noqa: N818 (a finding)
    """An error of this package that does not name the file."""


def readers(folder: Path) -> dict[str, Callable[[], Case]]:
    """The readers by name; each is set up when it is called.

    Args:
        folder: for files.
    """
    make: dict[str, Callable[[Path], Case]] = {
        "csv": _csv,
        "parquet": _parquet,
        "settings.json": _settings_json,
        "settings.toml": _settings_toml,
        "metrics": _metrics,
        "evaluation": _evaluation,
        "results": _results,
        "npz": _npz,
        "features.npz": _features,
        "encoder": _encoder,
        "extractor": _extractor,
        "estimator": _estimator,
        "checkpoint": _checkpoint,
    }
    return {
        name: (lambda name=name, each=each: each(_empty(folder / name)))  # type: ignore[misc]
        for name, each in make.items()
    }


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def reader(
    path: Path,
    mutate: Callable[[random.Random], bytes],
    read: Callable[[], object],
) -> Case:
    """A case that writes a mutated file and reads it.

    Args:
        path: of the file.
        mutate: returns the content.
        read: reads it, uses what it has read, and returns numbers that must be finite.
    """

    def case(source: random.Random) -> str:
        path.write_bytes(mutate(source))
        try:
            numbers = read()
        except CclkError as error:
            text = str(error)
            named = path.name in text or str(path.parent.parent) in text
            if not named:
                raise Unclear(f"{type(error).__name__}: {text[:200]!r}") from error
            raise
        finite = all(map(math.isfinite, numbers)) if isinstance(numbers, list) else True
        return "accepted" if finite else "silent"

    return case


def _bytes_or(
    seeds: Sequence[bytes], edit: Callable[[random.Random], bytes], share: float = 0.5
) -> Callable[[random.Random], bytes]:
    """Mutations of bytes, and of structure."""

    def mutate(source: random.Random) -> bytes:
        if source.random() < share:
            return mutate_bytes(source.choice(seeds), seeds, source)
        return edit(source)

    return mutate


@cache
def _table(seed: int = 0) -> dict[str, list[Any]]:
    draw = np.random.default_rng(seed)
    return {
        "s_1": draw.normal(size=ROWS).round(3).tolist(),
        "s_2": draw.integers(0, 99, ROWS).tolist(),
        "age": draw.uniform(20, 80, ROWS).round(1).tolist(),
        "site": draw.choice(["Oslo", "Bonn", "Pau; X"], ROWS).tolist(),
        "label": draw.choice(["a", "b"], ROWS).tolist(),
    }


_COLUMNS: dict[str, Any] = {
    "features": "s_*", "condition": ["age", "site"], "label": "label", "missing": "drop",
}  # fmt: skip


def _csv(folder: Path) -> Case:
    cells = _table()
    rows = [list(cells), *(list(map(str, row)) for row in zip(*cells.values(), strict=True))]
    odd = (
        *ODD_TEXTS[:-4], '"', '""', 'a"b', '"a', "a,b", "2024-02-30", "2024-02-29", "1_000",
        "0x10", "1e39", "9" * 400, "NaT", "true", "é" * 50, "\x85", "\u2028", "\ufeff",
    )  # fmt: skip

    def text(source: random.Random) -> str:
        table = copy.deepcopy(rows)
        for _ in range(source.choice((1, 1, 3))):
            row = source.randrange(len(table))
            column = source.randrange(5)
            match source.randrange(6):
                case 0:
                    table[row] = table[row][:column]
                case 1:
                    table[row] = table[row] + [source.choice(odd)]
                case 2:
                    table[0] = source.sample(table[0], len(table[0]))
                case _ if column < len(table[row]):
                    table[row][column] = source.choice(odd)
        sign = source.choice(",,,,;\t")
        return source.choice(("\n", "\n", "\r\n")).join(map(sign.join, table)) + "\n"

    def edit(source: random.Random) -> bytes:
        encoding = source.choice(("utf-8",) * 6 + ("latin-1", "utf-16", "utf-8-sig", "utf-32-be"))
        return text(source).encode(encoding, "replace")

    seed = "\n".join(map(",".join, rows)).encode()
    path = folder / "people.csv"
    return reader(path, _bytes_or([seed, seed[::-1]], edit), lambda: _load_table(path))


def _load_table(path: Path) -> list[float]:
    dataset = manifest.load(path, **_COLUMNS)
    split = dataset.train
    assert isinstance(split.x, torch.Tensor)
    return [float(split.x.double().sum()), float(split.condition.double().sum())]


def _parquet(folder: Path) -> Case:
    import pyarrow as pa
    from pyarrow import parquet

    def stored(table: Any, **options: Any) -> bytes:
        stream = io.BytesIO()
        parquet.write_table(table, stream, **options)
        return stream.getvalue()

    table = pa.table(_table())
    seeds = [
        stored(table, compression=how, use_dictionary=dictionary)
        for how in ("snappy", "none", "gzip", "zstd")
        for dictionary in (True, False)
    ]
    kinds = (
        pa.float32(), pa.float16(), pa.decimal128(9, 2), pa.string(), pa.large_string(),
        pa.binary(), pa.bool_(), pa.date32(), pa.date64(), pa.timestamp("ns"),
        pa.timestamp("s", "Europe/Oslo"), pa.time32("s"), pa.duration("us"), pa.null(),
        pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.float64()), pa.list_(pa.string()),
        pa.struct([("a", pa.int64())]), pa.int8(), pa.uint64(),
    )  # fmt: skip

    def edit(source: random.Random) -> bytes:
        name, kind = source.choice(table.column_names), source.choice(kinds)
        try:
            column = table.column(name).cast(kind, safe=False)
        except (pa.ArrowException, ValueError):
            values = [source.choice((None, 0, 1, 2**40, -(2**40))) for _ in range(ROWS)]
            try:
                column = pa.array(values, pa.int64()).cast(kind, safe=False)
            except (pa.ArrowException, ValueError):
                empty: list[Any] = [None, []] if pa.types.is_list(kind) else [None]
                column = pa.array([source.choice(empty) for _ in range(ROWS)], kind)
        changed = table.set_column(table.column_names.index(name), name, column)
        try:
            return stored(changed)
        except pa.ArrowException:
            return seeds[0]

    path = folder / "people.parquet"
    return reader(path, _bytes_or(seeds, edit, 0.7), lambda: _load_table(path))


@cache
def _vectors() -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
    return {"x": x, "y": (x[:, 0] > 0).astype(np.int64), "condition": x[:, 1].copy()}


@cache
def _run(folder: Path) -> RunFolder:
    """A small finished run."""
    data = folder.parent / "data.npz"
    np.savez(data, **_vectors())
    overrides: dict[str, object] = {"dataset": str(data), "encoder": "mlp", "projection": 2}
    overrides |= {"encoder_options": {"hidden": [4]}, "augmentation": "vectors", "batch_size": 16}
    overrides |= {"steps": 4, "checkpoint_every": 2, "log_every": 1, "threads": 1}
    settings = training_settings.load(overrides=overrides)
    run = training.train(settings, folder / "run", quiet=True)
    return RunFolder(run.folder)


def _json_of(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _settings_json(folder: Path) -> Case:
    run = _run(folder)
    path = run.folder / "settings.json"
    tree, seed = _json_of(path), path.read_bytes()

    def edit(source: random.Random) -> bytes:
        return as_json(mutate_tree(tree, source), source)

    return reader(path, _bytes_or([seed, b'{"seed": 1}'], edit, 0.3), lambda: _use_settings(run))


def _use_settings(run: RunFolder) -> None:
    json.dumps(RunFolder(run.folder).settings.model_dump(mode="json"), allow_nan=False)


def _settings_toml(folder: Path) -> Case:
    seed = b"""method = "fair-cclk"
seed = 3
[data]
dataset = "people.csv"
dataset_options = { condition = ["age"], label = "smiling", size = 32 }
[model]
encoder = "resnet18"
encoder_options = { stem = "cifar", width = 16 }
[loss]
temperature = 0.2
length_scale = "auto"
[train]
batch_size = 64
epochs = 1.5
"""
    tree = tomllib.loads(seed.decode())
    path = folder / "run.toml"

    def edit(source: random.Random) -> bytes:
        if source.random() < 0.05:
            return seed + b"deep = " + b"[" * source.choice((100, 10_000)) + b"\n"
        return _toml(mutate_tree(tree, source)).encode("utf-8", "replace")

    seeds = [seed, b"[train]\nsteps = 3\n"]
    return reader(path, _bytes_or(seeds, edit), lambda: training_settings.load(path))


def _toml(tree: Any) -> str:
    """TOML with every value on one line."""
    if not isinstance(tree, dict):
        return f"value = {_toml_value(tree)}\n"
    return "".join(f"{json.dumps(name)} = {_toml_value(value)}\n" for name, value in tree.items())


def _toml_value(value: Any) -> str:
    match value:
        case dict():
            inner = ", ".join(f"{json.dumps(k)} = {_toml_value(v)}" for k, v in value.items())
            return f"{{ {inner} }}"
        case list():
            return f"[{', '.join(map(_toml_value, value))}]"
        case float() | bool() | None:
            return str(value).lower()
    return json.dumps(value)


def _metrics(folder: Path) -> Case:
    line = {"step": 1, "epoch": 0.5, "loss": 2.25, "lr": 0.003, "clamped": 0.0}
    lines = [line | {"step": step, "effective_neighbors": 3.1} for step in range(1, 9)]
    seed = "".join(json.dumps(each) + "\n" for each in lines).encode()
    path = folder / "metrics.jsonl"

    def edit(source: random.Random) -> bytes:
        texts = [json.dumps(each).encode() for each in lines]
        at = source.randrange(len(texts))
        texts[at] = as_json(mutate_tree(lines[at], source), source)
        return b"\n".join(texts) + source.choice((b"", b"\n"))

    def use() -> list[float]:
        logged = read_metrics(folder)
        plots.curves([RunView("run", metrics=logged)])
        return [value for each in logged for value in each.values()]

    return reader(path, _bytes_or([seed, b"garbage\n"], edit), use)


def _evaluation(folder: Path) -> Case:
    def interval(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 0.02, "high": value + 0.02}

    def r2(value: float) -> dict[str, object]:
        return {**interval(value), "unit": "r2"}

    accuracy = {"linear": interval(0.9), "knn": interval(0.8)}
    how = {"train": 100, "seed": 0, "bootstrap": 1000, "alpha": [0.1, 1.0]}
    leakage: dict[str, Any] = {
        "columns": {
            "age": {"by_probe": {"linear": r2(0.2), "bins": r2(0.3)}},
            "site": {
                "by_probe": {"linear": r2(0.1)}, "accuracy": {"linear": interval(0.6)},
                "majority": interval(0.5),
            },
        },
        "sizes": {"train": 100, "validation": 20, "test": 30}, "seed": 0,
    }  # fmt: skip
    alone = {"accuracy": accuracy, "how": how}
    measured = {"accuracy": accuracy, "leakage": leakage, "how": how}
    trees: list[dict[str, Any]] = [
        {"encoder": each, "projection": each, "version": "0.1"} for each in (alone, measured)
    ]
    trees[-1]["baselines"] = {"untrained": measured, "inputs": measured}

    def sealed(tree: Any) -> Any:
        """A tree with the digest that its content has."""
        text = json.dumps(tree, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return {**tree, "digest": digest} if isinstance(tree, dict) else tree

    seeds = [json.dumps(sealed(tree)).encode() for tree in trees]
    path = folder / "evaluation.json"

    def edit(source: random.Random) -> bytes:
        return as_json(sealed(mutate_tree(source.choice(trees), source)), source)

    first = Evaluation.from_json(trees[0])

    def use() -> list[float]:
        evaluation = read_evaluation(folder)
        if evaluation is None:
            return []
        runs = [RunView("a", evaluation=first), RunView("b", evaluation=evaluation)]
        str(evaluation), render(runs), card(evaluation.leakages)
        score_table({"b": evaluation})
        return list(_numbers(evaluation))

    return reader(path, _bytes_or(seeds, edit, 0.3), use)


def _numbers(evaluation: Evaluation) -> list[float]:
    accuracies = [vars(scores.accuracy).values() for scores in evaluation.features.values()]
    columns = [one for each in evaluation.leakages.values() for one in each.columns.values()]
    leakages = [(*one.by_probe.values(), *one.accuracy.values(), one.majority) for one in columns]
    estimates = [each for group in (*accuracies, *leakages) for each in group if each]
    return [bound for each in estimates for bound in (each.value, each.low, each.high)]


def _results(folder: Path) -> Case:
    run = {
        "key": "0123456789abcdef", "seed": 0, "split": "test", "version": "0.1",
        "measures": {"accuracy": 0.9, "knn": 0.8}, "train_seconds": 1.5, "measure_seconds": 0.5,
        "curve": [{"epoch": 1.0, "accuracy": 0.5, "knn": 0.4}],
    }  # fmt: skip
    cells = [
        {
            "row": row, "column": "digits", "settings": {"method": row, "lr": 0.1}, "selected": 0,
            "paper": {"accuracy": [90.0, 0.5]}, "choices": [{"lr": 0.1}, {"lr": 0.2}],
            "tuning": [run | {"choice": 0}], "runs": [run, run | {"seed": 1}],
        }
        for row in ("fair-cclk", "infonce")
    ]  # fmt: skip
    tree = {
        "experiment": "fair", "size": "cpu", "title": "Table", "source": "paper", "command": "x",
        "version": "0.1", "torch": "2", "cores": 2, "note": "", "seeds": [0, 1], "split": "test",
        "measures": ["accuracy", "knn"], "axis": "", "common": {"steps": 3},
        "claims": [{"measure": "accuracy", "row": "fair-cclk", "others": ["infonce"]}],
        "process_seconds": 3, "cells": cells,
    }  # fmt: skip
    curve = copy.deepcopy(tree) | {"axis": "lr"}
    for number, cell in enumerate(curve["cells"]):  # type: ignore[arg-type, var-annotated]
        cell["x"] = float(number)
    trees = [tree, curve]
    path = folder / "fair.json"

    def edit(source: random.Random) -> bytes:
        return as_json(mutate_tree(source.choice(trees), source), source)

    def use() -> list[float]:
        result = results.read(path)
        markdown(result)
        return [
            value
            for cell in result.cells
            for run in (*cell.runs, *cell.tuning)
            for value in run.measures.values()
        ]

    return reader(path, _bytes_or([json.dumps(each).encode() for each in trees], edit, 0.3), use)


def _saved(parts: dict[str, Any], compressed: bool = False) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **parts)
    return stream.getvalue()


def _npz(folder: Path) -> Case:
    parts = _vectors() | {"classes": np.array(["no", "yes"])}
    seeds = [_saved(parts), _saved(parts, compressed=True)]
    path = folder / "data.npz"

    def use() -> list[float]:
        _array(path)
        train = arrays.load(path).train
        assert isinstance(train.x, torch.Tensor)
        return [float(train.x.double().sum()), float(train.condition.double().sum())]

    return reader(path, _bytes_or(seeds, lambda source: mutate_npz(parts, source)), use)


def _features(folder: Path) -> Case:
    parts = {
        "features": _vectors()["x"],
        "ids": feature_files.row_ids("train", ROWS),
        "metadata": np.array(json.dumps({"dataset": "cifar10", "encoder": "mobilenetv2"})),
    }
    path = folder / "features.npz"

    def edit(source: random.Random) -> bytes:
        if source.random() < 0.4:
            text = as_json(mutate_tree({"dataset": "cifar10"}, source), source)
            return _saved(parts | {"metadata": np.array(text.decode("utf-8", "replace"))})
        return mutate_npz(parts, source)

    def use() -> list[float]:
        file = feature_files.read_features(path, "cifar10")
        return [float(file.features.astype(np.float64).sum())]

    return reader(path, _bytes_or([_saved(parts)], edit), use)


def _encoder(folder: Path) -> Case:
    run = _run(folder)
    path = run.folder / "encoder.safetensors"
    seed = path.read_bytes()

    def use() -> None:
        opened = RunFolder(run.folder)
        TrainedEncoder(opened)

    return reader(
        path, _bytes_or([seed], lambda source: mutate_safetensors(seed, source), 0.3), use
    )


def _extractor(folder: Path) -> Case:
    from cclk._files import write_tensors
    from cclk.models import build_encoder

    path = folder / "encoder.safetensors"
    network = build_encoder("lenet5", channels=1, size=32)
    model = {"encoder": "lenet5", "encoder_options": {}}
    write_tensors(path, network.state_dict(), {"settings": json.dumps({"model": model})})
    seed = path.read_bytes()

    def use() -> list[float]:
        extractor = build_extractor(str(path), channels=1, pixels=32)
        return extractor(torch.zeros(1, 1, 32, 32, dtype=torch.uint8)).flatten().tolist()

    return reader(
        path, _bytes_or([seed], lambda source: mutate_safetensors(seed, source), 0.3), use
    )


def _estimator(folder: Path) -> Case:
    path = folder / "estimator.safetensors"
    x = _vectors()["x"]
    fitted = ConditionalEncoder(steps=1, encoder_options={"hidden": [4]}).fit(x)
    fitted.save(path)
    seed = path.read_bytes()

    def use() -> list[float]:
        loaded = ConditionalEncoder.load(path)
        features: list[float] = loaded.transform(x[:2, : loaded.n_features_in_]).ravel().tolist()
        return features

    return reader(
        path, _bytes_or([seed], lambda source: mutate_safetensors(seed, source), 0.3), use
    )


def _checkpoint(folder: Path) -> Case:
    run = _run(folder)
    paths = sorted((run.folder / "checkpoints").glob("*.safetensors"))
    seeds = [path.read_bytes() for path in reversed(paths)]
    paths[0].unlink()
    path = paths[-1]
    trainer = Trainer(run.settings, run.dataset)
    loop = training._Loop(trainer, run.folder, fingerprint(run.dataset), True, None)
    intact = {name: value.clone() for name, value in trainer.network.state_dict().items()}

    def use() -> list[float]:
        with patch("cclk._files._digest", return_value=ANY):  # others are refused before
            loop._restore()
        sums = [float(value.double().sum()) for value in trainer.network.state_dict().values()]
        trainer.network.load_state_dict(intact)
        return sums

    return reader(path, _bytes_or(seeds, lambda source: mutate_safetensors(seeds[0], source)), use)
