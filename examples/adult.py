"""Tabular fairness on the Adult census data: predict income from features without the age.

    python -m examples.adult --sample                             a small sample, a few seconds
    python -m examples.adult --json results/example-adult.json    the full data

Age is the continuous sensitive variable, income the label, the other columns are the inputs.
Compared on the official test split:

    inputs               the columns, one-hot and standardized
    CorrelationRemover   fairlearn's: subtracts the share alpha of what is linear in the age
    contrastive          an encoder trained without the age
    fair                 the same encoder, trained to ignore the age

Both encoders have the same network, budget and choices of settings, which are selected on rows held
out of the training split; then the width is varied. The seed determines which rows are held out,
the network and the probes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from cclk_paper.probes import two_probes
from fairlearn.metrics import demographic_parity_difference, equalized_odds_difference  # type: ignore[import-untyped]
from fairlearn.preprocessing import CorrelationRemover  # type: ignore[import-untyped]
from sklearn.compose import make_column_transformer  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler  # type: ignore[import-untyped]

import cclk
from cclk.data.folder import data_folder
from cclk.evaluation import Samples

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip
CATEGORIES = [
    "workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
]  # fmt: skip
AMOUNTS, NUMBERS = ["capital-gain", "capital-loss"], ["education-num", "hours-per-week"]
SAMPLE = Path(__file__).parent / "data" / "adult-sample.csv"
Method = Literal["contrastive", "fair"]
METHODS: tuple[Method, ...] = ("contrastive", "fair")


@dataclass(frozen=True)
class Plan:
    """The grid of runs."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    choice_seeds: tuple[int, ...] = (0,)
    steps: int = 1000
    temperatures: tuple[float, ...] = (0.1, 0.2, 0.5)
    rates: tuple[float, ...] = (3e-3, 1e-2)
    widths: tuple[int, ...] = (4, 8, 16, 64)
    choice_width: int = 8
    alphas: tuple[float, ...] = (0.25, 0.5, 1.0)

    def choices(self) -> list[dict[str, float]]:
        """Return the settings that are tried for each encoder."""
        return [
            {"temperature": temperature, "lr": rate}
            for temperature in self.temperatures
            for rate in self.rates
        ]


QUICK = Plan(
    seeds=(0,), steps=40, temperatures=(0.2, 0.5), rates=(1e-2,), widths=(8,), alphas=(1.0,)
)


@dataclass(frozen=True)
class People:
    """A split: inputs without the age, the age, and whether the income is above 50,000."""

    inputs: pd.DataFrame
    age: pd.Series
    rich: pd.Series


@dataclass(frozen=True)
class Splits:
    """Training rows, rows held out of them, and the rows that are evaluated on."""

    train: People
    validation: People
    reported: People


def read(data_dir: Path | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the official training and test split from tabular/ in the data folder."""
    folder = data_folder(data_dir) / "tabular"
    frames = []
    for name, skipped in (("adult.data", 0), ("adult.test", 1)):
        if not (folder / name).is_file():
            raise ValueError(
                f"{name} is not in {folder}: put it there from"
                " https://archive.ics.uci.edu/dataset/2/adult, or use --sample"
            )
        frames.append(
            pd.read_csv(folder / name, names=COLUMNS, skiprows=skipped, skipinitialspace=True)
        )
    return frames[0], frames[1]


def read_sample() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the committed sample: 1,000 rows of the training split and 500 of the test split."""
    rows = pd.read_csv(SAMPLE)
    return rows[rows["split"] == "train"], rows[rows["split"] == "test"]


def preparation() -> Any:
    """Encode columns: categories one-hot, amounts as logarithms, everything standardized.

    Rare categories are merged. Excluded are the age, fnlwgt, which is the weight of a row in the
    survey, and education, which education-num encodes as a number.
    """
    categories = OneHotEncoder(
        min_frequency=0.005, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    amounts = FunctionTransformer(np.log1p, feature_names_out="one-to-one")
    columns = make_column_transformer(
        (categories, CATEGORIES), (amounts, AMOUNTS), ("passthrough", NUMBERS)
    )
    return make_pipeline(columns, StandardScaler()).set_output(transform="pandas")


def splits(train: pd.DataFrame, reported: pd.DataFrame | None, seed: int) -> Splits:
    """Hold out a fifth of the training rows, and fit the preparation on the rest.

    Args:
        train: the training rows.
        reported: the test rows; None to evaluate on another fifth of the training rows, which
            serves to select settings.
        seed: of the random split.
    """
    if reported is None:
        train, reported = train_test_split(
            train, test_size=0.2, random_state=seed, stratify=train["income"]
        )
    kept, held = train_test_split(
        train, test_size=0.2, random_state=seed + 1000, stratify=train["income"]
    )
    prepare = preparation().fit(kept)

    def people(rows: pd.DataFrame) -> People:
        return People(prepare.transform(rows), rows["age"], rows["income"].str.startswith(">50K"))

    return Splits(people(kept), people(held), people(reported))


def measure(features: Sequence[Any], data: Splits, seed: int) -> dict[str, float]:
    """Measure accuracy on income, leakage of the age, and fairness between age groups.

    Args:
        features: of the three splits.
        data: the splits.
        seed: seed of the probes.
    """
    parts = (data.train, data.validation, data.reported)
    train, held, reported = (
        Samples(np.asarray(array), part.rich, part.age)
        for array, part in zip(features, parts, strict=True)
    )
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(
        train.features, data.train.rich
    )
    predicted, truth = classifier.predict(reported.features), data.reported.rich.to_numpy()
    groups = pd.cut(
        data.reported.age,
        [0, 29, 44, 59, np.inf],
        labels=["under 30", "30 to 44", "45 to 59", "60 and over"],
    ).astype(str)
    correct = predicted == truth
    return {
        "accuracy": float(correct.mean()),
        "balanced_accuracy": float((correct[truth].mean() + correct[~truth].mean()) / 2),
        "auc": float(roc_auc_score(truth, classifier.decision_function(reported.features))),
        **two_probes(train, held, reported, seed),
        "majority": float(max(truth.mean(), 1 - truth.mean())),
        "demographic_parity": float(
            demographic_parity_difference(truth, predicted, sensitive_features=groups)
        ),
        "equalized_odds": float(
            equalized_odds_difference(truth, predicted, sensitive_features=groups)
        ),
    }


def raw(data: Splits) -> list[Any]:
    """Return the inputs."""
    return [data.train.inputs, data.validation.inputs, data.reported.inputs]


def decorrelated(data: Splits, alpha: float) -> list[Any]:
    """Apply fairlearn's CorrelationRemover, which needs the age at prediction time too."""
    parts = [
        part.inputs.assign(age=part.age) for part in (data.train, data.validation, data.reported)
    ]
    remover = CorrelationRemover(sensitive_feature_ids=["age"], alpha=alpha).fit(parts[0])
    return [remover.transform(part) for part in parts]


def encoder(
    method: Method, width: int, plan: Plan, seed: int, choice: dict[str, Any]
) -> cclk.ConditionalEncoder:
    """Return the fair encoder, or the same without a condition."""
    # The loss alone, without a penalty: `cclk-paper bench removal` compares ways to remove more.
    options: dict[str, Any] = (
        {"method": "fair", "sampler": "local", "remove": "none"}
        if method == "fair"
        else {"method": "infonce"}
    )
    return cclk.ConditionalEncoder(
        **options,
        **choice,
        encoder_options={"hidden": [2 * width, width]},
        weight_decay=0.1,
        steps=plan.steps,
        random_state=seed,
    )


def encoded(data: Splits, fitted: cclk.ConditionalEncoder) -> list[Any]:
    """Fit an encoder on the training rows, and transform all of them.

    Only the fair encoder uses the age, and only for fitting.
    """
    age = data.train.age if fitted.method == "fair" else None
    fitted.fit(data.train.inputs, sensitive_features=age)
    return [fitted.transform(inputs) for inputs in raw(data)]


def balance(scores: dict[str, float], inputs: dict[str, float]) -> float:
    """The selection criterion: accuracy minus age R^2, both relative to those of the inputs."""
    gain = (scores["accuracy"] - scores["majority"]) / (inputs["accuracy"] - inputs["majority"])
    return gain - scores["nonlinear_r2"] / inputs["nonlinear_r2"]


def choose(train: pd.DataFrame, plan: Plan) -> list[dict[str, Any]]:
    """Try every choice of both encoders on held-out training rows; test rows are not used."""
    rows: list[dict[str, Any]] = [
        {"method": method, "choice": choice, "balance": [], "runs": []}
        for method in METHODS
        for choice in plan.choices()
    ]
    for seed in plan.choice_seeds:
        data = splits(train, None, seed)
        inputs = measure(raw(data), data, seed)
        for row in rows:
            fitted = encoder(row["method"], plan.choice_width, plan, seed, row["choice"])
            scores = measure(encoded(data, fitted), data, seed)
            row["runs"].append({"seed": seed} | scores)
            row["balance"].append(balance(scores, inputs))
            _print(f"choice {row['choice']} of {row['method']}, seed {seed}", scores)
    for method in METHODS:
        best = max(
            (row for row in rows if row["method"] == method),
            key=lambda row: statistics.mean(row["balance"]),
        )
        for row in rows:
            if row["method"] == method:
                row["selected"] = row is best
    return rows


def compare(train: pd.DataFrame, test: pd.DataFrame, plan: Plan) -> dict[str, Any]:
    """Select settings, then measure everything on the test rows."""
    started = time.perf_counter()
    choices = choose(train, plan)
    selected = {row["method"]: row["choice"] for row in choices if row["selected"]}
    rows: list[dict[str, Any]] = [{"method": "inputs", "knob": None, "runs": []}]
    rows += [{"method": "CorrelationRemover", "knob": alpha, "runs": []} for alpha in plan.alphas]
    rows += [
        {"method": method, "knob": width, "runs": []} for method in METHODS for width in plan.widths
    ]
    for seed in plan.seeds:
        data = splits(train, test, seed)
        for row in rows:
            before = time.perf_counter()
            if row["method"] == "inputs":
                features = raw(data)
            elif row["method"] == "CorrelationRemover":
                features = decorrelated(data, row["knob"])
            else:
                choice = selected[row["method"]]
                fitted = encoder(row["method"], row["knob"], plan, seed, choice)
                features = encoded(data, fitted)
            fit_seconds = round(time.perf_counter() - before, 1)
            scores = measure(features, data, seed)
            row["runs"].append({"seed": seed, "fit_seconds": fit_seconds} | scores)
            _print(f"{row['method']} {row['knob'] or ''}, seed {seed}", scores)
    return {
        "version": cclk.__version__,
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "seconds": round(time.perf_counter() - started),
        "sizes": {"train": len(train), "test": len(test)},
        "plan": asdict(plan),
        "choices": choices,
        "rows": rows,
    }


def _print(run: str, scores: dict[str, float]) -> None:
    print(
        f"{run:<70} accuracy {scores['accuracy']:.3f}  age R^2 linear {scores['linear_r2']:.3f},"
        f" nonlinear {scores['nonlinear_r2']:.3f}  parity {scores['demographic_parity']:.3f}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="has tabular/adult.data and adult.test (default: CCLK_DATA, else ~/.cache/cclk)",
    )
    parser.add_argument("--sample", action="store_true", help="use the small sample and few steps")
    parser.add_argument(
        "--seeds",
        type=int,
        default=5,
        help="seeds (default: %(default)s; with --sample 1)",
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    typed = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(typed)
    if options.json and not options.json.resolve().parent.is_dir():  # before hours of training
        parser.error(f"there is no folder {options.json.resolve().parent} for --json: create it")
    try:
        train, test = read_sample() if options.sample else read(options.data_dir)
    except ValueError as error:
        parser.error(str(error))
    result = compare(
        train, test, QUICK if options.sample else Plan(seeds=tuple(range(options.seeds)))
    )
    if options.json:
        command = " ".join(["python -m examples.adult", *typed])
        text = json.dumps({"command": command} | result, indent=1) + "\n"
        options.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
