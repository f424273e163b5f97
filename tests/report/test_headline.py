"""The headline claims what the intervals allow, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evaluation.made_up_scores import number, panel, scores
from made_up_runs import categorical, evaluation, several_columns

from cclk.evaluation import Accuracy, Evaluation, FeatureScores, Leakage
from cclk.report import RunView, summarize
from cclk.training.settings import parse


def run(
    method: str,
    part: FeatureScores | None,
    name: str = "",
    seed: int = 0,
    data_fingerprint: str = "",
    **settings: Any,
) -> RunView:
    known = parse({"method": method, "seed": seed, **settings})
    found = Evaluation(part) if part else None
    return RunView(
        name or method,
        known,
        evaluation=found,
        label="digit",
        condition="color",
        data_fingerprint=data_fingerprint,
    )


def said(*runs: RunView) -> str:
    return " ".join(summarize(runs))


def seeds(
    method: str, accuracies: list[float], name: str, leaked: float = 0.9, **settings: Any
) -> list[RunView]:
    return [
        run(method, evaluation(value, leaked, leaked), f"{name}-seed{seed}", seed, **settings)
        for seed, value in enumerate(accuracies)
    ]


def test_two_runs() -> None:
    assert (
        said(
            run("infonce", evaluation(0.928, 0.99, 0.999)),
            run("fair-cclk", evaluation(0.965, 0.37, 0.42)),
        )
        == "Compared with infonce, fair-cclk has higher digit accuracy (92.8 % → 96.5 %) and leaks"
        " less of the color (linear R² 0.99 → 0.37; worst R² 1.00 → 0.42)."
    )


def test_order_does_not_matter_and_worse_is_said() -> None:
    words = said(
        run("fair-cclk", evaluation(0.7, 0.99, 0.999)), run("infonce", evaluation(0.9, 0.4, 0.5))
    )
    assert words.startswith(
        "Compared with infonce, fair-cclk has lower digit accuracy (90.0 % → 70.0 %) and leaks more"
        " of the color (linear R² 0.40 → 0.99;"
    )


def test_runs_with_other_settings_are_named_and_not_averaged() -> None:
    """Untrained, InfoNCE and Fair-CCLK with two recipes: four runs, four settings."""
    runs = [
        run(
            "infonce",
            evaluation(0.9, 0.98, 0.99),
            "untrained",
            0,
            train={"steps": 1},
            optim={"lr": 1e-9},
        ),
        run(
            "infonce",
            evaluation(0.88, 0.98, 0.99),
            "plain",
            0,
            train={"steps": 60},
            optim={"lr": 1e-3},
        ),
        run(
            "fair-cclk",
            evaluation(0.777, 0.9, 0.9),
            "default",
            0,
            train={"steps": 60},
            optim={"lr": 3e-3},
        ),
        run(
            "fair-cclk",
            evaluation(0.98, 0.4, 0.5),
            "recipe",
            0,
            train={"steps": 60},
            optim={"lr": 0.2},
        ),
    ]
    sentences = summarize(runs)
    assert "mean" not in " ".join(sentences)
    assert [sentence.split(maxsplit=4)[:4] for sentence in sentences] == [
        ["Compared", "with", "plain,", name] for name in ("recipe", "untrained", "default")
    ], "the one trained for longest is the baseline, not the first"
    assert "default has lower digit accuracy (88.0 % → 77.7 %)" in sentences[2]


@pytest.mark.parametrize(
    "changed",
    [
        {"train": {"steps": 2}},
        {"data": {"dataset": "colordigits", "dataset_options": {"noise": 0.1}}},
        {"loss": {"weights": "nw"}},
        {"data_fingerprint": "ff"},
    ],
)
def test_every_setting_but_the_seed_counts(changed: dict[str, Any]) -> None:
    same = {
        "train": {"steps": 1},
        "data": {"dataset": "colordigits", "dataset_options": {"noise": 0.0}},
        "loss": {"weights": "loo"},
    }
    one = run("fair-cclk", evaluation(0.9, 0.9, 0.9), "a", 0, **same)
    assert "a and b (mean of 2 seeds)" in said(
        one, run("fair-cclk", evaluation(0.9, 0.9, 0.9), "b", 1, **same)
    )
    assert "mean" not in said(
        one, run("fair-cclk", evaluation(0.9, 0.9, 0.9), "b", 1, **{**same, **changed})
    )


def test_where_data_and_runs_lie_does_not_count() -> None:
    runs = [
        run(
            "infonce",
            evaluation(0.9, 0.9, 0.9),
            f"a{seed}",
            seed,
            data={"dataset": f"/{seed}/mine.csv", "data_dir": f"/{seed}"},
        )
        for seed in range(3)
    ]
    runs = [
        replace(one, command=f"cclk train --out a{one.name}", version=f"0.{one.name}")
        for one in runs
    ]
    assert said(*runs).startswith("The features of a (mean of 3 seeds) predict")


def test_a_seed_twice_is_no_second_seed() -> None:
    words = said(
        run("infonce", evaluation(0.9, 0.9, 0.9), "a", 0),
        run("infonce", evaluation(0.9, 0.9, 0.9), "copy", 0),
    )
    assert words.startswith("Compared with a, copy ")
    unknown = [RunView(name, evaluation=Evaluation(evaluation(0.9, 0.9, 0.9))) for name in "ab"]
    assert said(*unknown).startswith("Compared with a, b "), (
        "runs of unknown settings may differ in anything"
    )


def test_seeds_are_averaged_under_the_name_they_share() -> None:
    words = said(
        *seeds("infonce", [0.90, 0.91, 0.92], "plain"),
        *seeds("fair-cclk", [0.96, 0.97, 0.98], "fair", 0.3),
    )
    assert words.startswith(
        "Compared with plain (mean of 3 seeds), fair (mean of 3 seeds) has higher digit accuracy"
        " (91.0 % → 97.0 %) and leaks less"
    )
    two = [
        *seeds("fair-cclk", [0.9, 0.9], "fair", loss={"loss_options": {"ridge": 1.0}}),
        *(run("fair-cclk", evaluation(0.9, 0.9, 0.9), f"fair-seed{s}", s) for s in (2, 3)),
    ]
    assert "fair-seed0 and fair-seed1 (mean of 2 seeds)" in said(*two), (
        "a name that two sets of runs share would name neither"
    )
    assert "fair-seed2 and fair-seed3 (mean of 2 seeds)" in said(*two)


def test_seeds_that_differ_much_show_no_clear_change() -> None:
    plain, wild = (
        seeds("infonce", [0.9, 0.9, 0.9], "plain"),
        seeds("fair-cclk", [0.86, 0.99, 0.95], "fair"),
    )
    assert "and shows no clear change in digit accuracy (90.0 % → 93.3 %, change between" in said(
        *plain, *wild
    )


def test_equal_is_what_the_interval_says_is_equal() -> None:
    """77.7 % → 73.4 % within wide intervals is no equality: nobody knows."""
    wide = [evaluation(value, 0.5, 0.6, spread=0.045) for value in (0.777, 0.734)]
    words = said(run("infonce", wide[0]), run("fair-cclk", wide[1]))
    assert (
        "shows no clear change in digit accuracy (77.7 % → 73.4 %, change between -10.7 and +2.1"
        " points)" in words
    )
    assert (
        "leaks the same amount of the color to within 0.05 (linear R² 0.50 → 0.50; worst R²"
        in words
    )
    for word in ("equal", "as well", "as much"):
        assert word not in words
    narrow = [
        evaluation(value, leaked, leaked, spread=0.003, leak_spread=0.003)
        for value, leaked in ((0.777, 0.5), (0.779, 0.504))
    ]
    words = said(run("infonce", narrow[0]), run("fair-cclk", narrow[1]))
    assert "has the same digit accuracy to within 1 point (77.7 % → 77.9 %)" in words
    assert (
        "leaks the same amount of the color to within 0.05 (linear R² 0.50 → 0.50; worst R²"
        " 0.50 → 0.50)" in words
    )


def test_probes_that_disagree_are_told_apart() -> None:
    words = said(
        run("infonce", evaluation(0.9, 0.9, 0.95)), run("fair-cclk", evaluation(0.9, 0.5, 0.95))
    )
    assert "leaks less of the color (linear R² 0.90 → 0.50), leaks the same amount" in words
    assert "of the color to within 0.05 (worst R² 0.95 → 0.95)" in words


def test_a_difference_too_small_to_matter_is_none() -> None:
    """R² 0.99 → 0.98 and 92.8 % → 93.5 %, known to the third digit, and a change of 0.04 of
    which nobody knows whether it matters.
    """
    plain, other = (
        evaluation(*values, spread=0.001, leak_spread=0.001)
        for values in ((0.928, 0.99, 0.99), (0.935, 0.98, 0.98))
    )
    words = said(run("infonce", plain), run("fair-cclk", other))
    assert "has the same digit accuracy to within 1 point (92.8 % → 93.5 %)" in words
    assert "leaks the same amount of the color to within 0.05 (linear R² 0.99 → 0.98;" in words
    nearly = evaluation(0.928, 0.95, 0.95, spread=0.001, leak_spread=0.02)
    assert "shows no clear change in leakage of the color" in said(
        run("infonce", plain), run("fair-cclk", nearly)
    )
    tiny = evaluation(0.9, 0.03, 0.03, leak_spread=0.001)
    assert "explain less than 5 % of the variance of the color" in said(run("fair-cclk", tiny))


def test_the_worst_of_a_panel_is_not_compared_with_the_worst_of_two_probes() -> None:
    new = replace(evaluation(0.9, 0.5, 0.5), leakage=Leakage({"color": panel(0.5, 0.6, 0.8)}))
    words = said(run("infonce", evaluation(0.9, 0.9, 0.95)), run("fair-cclk", new))
    assert "linear R² 0.90 → 0.50" in words
    assert "worst" not in words
    both = said(run("infonce", new), run("fair-cclk", new))
    assert "worst R² 0.80 → 0.80" in both


def test_what_training_removed() -> None:
    part = run("fair-cclk", evaluation(0.9, 0.1, 0.2))
    assert part.evaluation is not None
    baselines = {"untrained": scores(0.95, color=number(0.8, 0.9)), "inputs": scores(0.97)}
    alone = replace(part, evaluation=replace(part.evaluation, baselines=baselines))
    assert said(alone).endswith("(worst of 2 probes: mostly removed).")


def test_runs_on_other_data_are_not_compared() -> None:
    digits = run("infonce", evaluation(0.8, 0.9, 0.9), "digits", data={"dataset": "colordigits"})
    mnist = run("fair-cclk", evaluation(0.9, 0.3, 0.3), "mnist", data={"dataset": "colormnist"})
    assert "Compared" not in said(digits, mnist)
    people = [
        {"dataset": "p.csv", "dataset_options": {"condition": [column]}}
        for column in ("age", "site")
    ]
    assert "Compared" in said(
        *(
            run(method, evaluation(0.8, 0.9, 0.9), data=data)
            for method, data in zip(("infonce", "fair-cclk"), people, strict=True)
        )
    )


def test_one_run() -> None:
    assert (
        said(run("infonce", evaluation(0.928, 0.99, 1.0)))
        == "The features of infonce predict the digit with 92.8 % accuracy (linear probe; 95"
        " % interval 91.3 to 94.3 %) and explain 100 % of the variance of the color (worst of 2"
        " probes)."
    )
    assert (
        "do not clearly explain any of the variance of the color (worst of 2 probes: R² 0.00, 95 %"
        " interval -0.02 to 0.02)" in said(run("infonce", evaluation(0.928, -0.01, 0.0)))
    )


def test_without_labels_leaks_are_told() -> None:
    assert (
        said(run("infonce", replace(evaluation(0.9, 0.3, 0.4), accuracy=Accuracy())))
        == "The features of infonce explain 40 % of the variance of the color (worst of"
        " 2 probes)."
    )


def test_seeds_with_nothing_in_common() -> None:
    whole = evaluation(0.9, 0.3, 0.4)
    runs = [
        run("infonce", replace(whole, accuracy=Accuracy()), "a-seed0", 0),
        run("infonce", replace(whole, leakage=Leakage()), "a-seed1", 1),
    ]
    assert said(*runs) == "The evaluations of a (mean of 2 seeds) have no measure in common."


def test_several_condition_columns() -> None:
    assert (
        said(run("fair-cclk", several_columns()))
        == "The features of fair-cclk predict the digit with 90.0 % accuracy"
        " (linear probe; 95 % interval 88.5 to 91.5 %), explain 40 % of the variance of the age"
        " (worst of 2 probes) and explain 70 % of the variance of the site (worst of 2 probes)."
    )
    words = said(run("infonce", several_columns()), run("fair-cclk", several_columns()))
    assert "leaks the same amount of the age to within 0.05 (worst R² 0.40 → 0.40)" in words
    assert "leaks the same amount of the site to within 0.05 (worst R² 0.70 → 0.70)" in words


def test_what_was_not_measured_is_not_told() -> None:
    assert (
        said(run("infonce", None))
        == "infonce has not been evaluated: evaluate it, then write this report again."
    )
    assert said(run("infonce", None), run("fair-cclk", None, "b")).startswith(
        "infonce and b have not been evaluated: evaluate them"
    )
    mixed = said(
        run("infonce", evaluation(0.8, 0.9, 0.9)),
        run("fair-cclk", categorical(0.95, 0.9, 0.9), "b"),
        run("fair-cclk", None, "c"),
    )
    assert mixed.startswith(
        "Compared with infonce, b has higher digit accuracy (80.0 % → 95.0 %) and leaks the same"
        " amount of the color to within 0.05 (linear R² 0.90 → 0.90; worst R² 0.90 → 0.90). c has"
        " not been evaluated"
    )
