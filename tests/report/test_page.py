"""The page without a browser: its content, order, size and safety."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from evaluation.made_up_scores import panel
from made_up_runs import categorical, evaluation, make, several_columns, two_runs

from cclk.evaluation import Evaluation, FeatureScores, Leakage
from cclk.report import RunView, plots, write_report
from cclk.report.view import embed2d, kernel_figure
from cclk.training.settings import load


class Reader(HTMLParser):
    """Visible text, opened tags, and everything that a tag refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.references: list[str] = []
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "img", "br"):
            self.stack.append(tag)
        self.references += [
            value or ""
            for name, value in attrs
            if name in ("src", "href", "srcset", "action", "data")
        ]

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.stack):
            self.words.append(data)


def read(path: Path) -> tuple[str, Reader, dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    assert not reader.stack, "all tags are closed"
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.S)
    assert found
    return " ".join(reader.words), reader, json.loads(found[1])


def test_everything_is_there_in_order(tmp_path: Path) -> None:
    out = write_report(two_runs(), tmp_path / "new" / "report.html", command="cclk report a b")
    words, reader, drawn = read(out)
    expected = [
        "Compared with infonce, fair-cclk has higher digit accuracy",
        "Settings",
        "ColorDigits: scikit-learn's handwritten digits",
        "method",
        "settings are the same in all runs",
        "Evaluation",
        "92.8 %",
        "R² 0.99",
        "infonce: every probe",
        "Accuracy against leakage",
        "Training",
        "loss",
        "Embedding",
        "by digit",
        "by color",
        "Kernel and weights",
        "Images and their two views",
        "cclk 0.1.0",
        "cclk report a b",
        "cclk train --preset fair-cclk",
    ]
    words = words.replace("\xa0", " ")
    place = 0
    for text in expected:
        assert text in words[place:], text
        place = words.index(text, place)
    assert len(drawn) == 1 + 4 + 4 + 2, "plane, curves, embeddings, K and W"
    assert all(reference.startswith("data:") for reference in reader.references)
    assert sum(reference.startswith("data:image/png") for reference in reader.references) == 18, (
        "the same images are shown once"
    )
    assert out.stat().st_size < 5.25e6
    assert out.read_text().count("plotly.js v") == 1
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_figures_are_what_plotly_accepts() -> None:
    first, second = two_runs()
    assert first.embedding is not None
    assert second.embedding is not None
    assert second.kernel is not None
    table = np.random.default_rng(0).normal(size=(50, 3))
    other = embed2d(
        table, np.zeros(50, int), table, classes="a", condition_names=["age", "dose", "x"]
    )
    sites = embed2d(
        table,
        np.zeros(50, int),
        np.stack([table[:, 0], np.arange(50) % 3], 1),
        classes="a",
        condition_names=["age", "site"],
        categories={"site": ["Bonn", "Lyon", "Oslo"]},
    )
    drawn = [
        *plots.tradeoffs([first, second]).values(),
        *plots.curves([first, second]).values(),
        *plots.kernel(second.kernel),
    ]
    drawn += [
        plots.by_label(first.embedding, 2),
        *(plots.by_condition(e, 2) for e in (first.embedding, other, sites)),
    ]
    drawn += [choice for figure in drawn for choice in figure.get("others", [])]
    for figure in drawn:
        go.Figure({"data": figure["data"], "layout": figure["layout"]})
    chosen = plots.by_condition(other, 1)
    assert [figure["name"] for figure in (chosen, *chosen["others"])] == ["age", "dose", "x"]


def test_categories_have_names_and_a_legend() -> None:
    """As one of several columns of the condition too, where a color scale from 0 to 2 would mean
    nothing.
    """
    random = np.random.default_rng(0)
    condition = np.stack([random.uniform(18, 90, 60), random.permutation(60) % 3], axis=1)
    named = {"site": ["Bonn", "Lyon", "Oslo"]}
    for columns, names in ((slice(0, 2), ["age", "site"]), (slice(1, 2), ["site"])):
        found = embed2d(
            condition,
            np.zeros(60),
            condition[:, columns],
            classes=["a"],
            condition_names=names,
            categories=named,
        )
        figure = plots.by_condition(found, 1)
        (sites,) = [
            choice for choice in (figure, *figure.get("others", [])) if choice["name"] == "site"
        ]
        assert [trace["name"] for trace in sites["data"]] == ["Bonn", "Lyon", "Oslo"]
        assert sites["layout"]["showlegend"]
        assert len({trace["marker"]["color"] for trace in sites["data"]}) == 3
        assert not any("colorscale" in trace["marker"] for trace in sites["data"])
    assert (
        "colorscale"
        in plots.by_condition(
            embed2d(
                condition, np.zeros(60), condition, classes=["a"], condition_names=["age", "x"]
            ),
            1,
        )["data"][0]["marker"]
    ), "a number stays on a scale"


def test_kernels_of_categories_are_ordered_by_them_and_name_them() -> None:
    random = np.random.default_rng(0)
    condition = np.stack([random.uniform(18, 90, 30), random.permutation(30) % 2], axis=1)
    same = (condition[:, None, 1] == condition[None, :, 1]).astype(float)
    named = {"site": ["Bonn", "Oslo"]}
    heat, *strip = plots.kernel(
        kernel_figure(same, same, condition, condition_names=["age", "site"], categories=named)
    )[0]["data"]
    assert np.array_equal(heat["z"], np.kron(np.eye(2), np.ones((15, 15)))), (
        "one block for each category"
    )
    assert [(trace["name"], trace["x"]) for trace in strip] == [
        ("Bonn", list(range(15))),
        ("Oslo", list(range(15, 30))),
    ]
    layout = plots.kernel(
        kernel_figure(same, same, condition, condition_names=["age", "site"], categories=named)
    )[0]["layout"]
    assert layout["showlegend"]
    assert layout["legend"]["title"]["text"] == "site"
    assert re.fullmatch(r"age \d+\.?\d*, site Bonn", layout["xaxis"]["ticktext"][0])


def test_more_categories_than_colors_share_one() -> None:
    random = np.random.default_rng(0)
    found = embed2d(
        random.normal(size=(500, 3)),
        np.arange(500) % 50,
        np.zeros(500),
        classes=list(map(str, range(50))),
        condition_names="z",
    )
    traces = plots.by_label(found, 1)["data"]
    assert [trace["name"] for trace in traces] == [*map(str, range(19)), "31 others"]
    assert len({trace["marker"]["color"] for trace in traces}) == 20
    assert sum(len(trace["x"]) for trace in traces) == 500


def test_four_runs_of_two_methods_are_four_runs(tmp_path: Path) -> None:
    """Settings other than the seed make other runs, which no mean joins."""
    changes = {
        "untrained": ("infonce", 1, 1e-9),
        "plain": ("infonce", 60, 1e-3),
        "default": ("fair-cclk", 60, 3e-3),
        "recipe": ("fair-cclk", 60, 0.2),
    }
    found = Evaluation(categorical(0.9, 0.5, 0.6))
    runs = [
        RunView(
            name, load(overrides={"method": method, "steps": steps, "lr": lr}), evaluation=found
        )
        for name, (method, steps, lr) in changes.items()
    ]
    words, _, _ = read(write_report(runs, tmp_path / "r.html"))
    header = words.partition("Settings")[0]
    assert "mean of" not in header
    for name in changes:
        assert re.search(rf"Compared with plain, {name} |Compared with {name}, ", header), name
    assert " ".join(header.split()).endswith(
        "untrained infonce, lr 1e-09, steps 1 plain infonce, lr 0.001, steps 60 default fair-cclk,"
        " lr 0.003 recipe fair-cclk, lr 0.2"
    )


def test_learning_rates_have_a_log_axis() -> None:
    runs = [
        RunView("a", metrics=[{"step": 1, "lr": 1e-9, "loss": 2.0}]),
        RunView("b", metrics=[{"step": s, "lr": 0.1, "loss": 1.0} for s in (1, 2)]),
    ]
    found = plots.curves(runs)
    assert found["learning rate"]["layout"]["yaxis"]["type"] == "log"
    assert "type" not in found["loss"]["layout"]["yaxis"]
    assert [trace["mode"] for trace in found["loss"]["data"]] == ["markers", "lines"], (
        "a single step is visible too"
    )


def test_planes_keep_data_apart() -> None:
    runs = [
        RunView(
            name,
            load(overrides={"dataset": name}),
            evaluation=Evaluation(evaluation(0.9, 0.5, 0.5)),
            label="digit",
            condition="color",
        )
        for name in ("colordigits", "colormnist")
    ]
    found = plots.tradeoffs(runs)
    assert [[trace["name"] for trace in figure["data"]] for figure in found.values()] == [
        ["colordigits", "ideal"],
        ["colormnist", "ideal"],
    ]
    assert list(found) == ["color", "color (colormnist)"]


def test_plane_puts_runs_where_they_are() -> None:
    (figure,) = plots.tradeoffs(two_runs()).values()
    fair = figure["data"][1]
    assert (fair["x"], fair["y"]) == ([0.42], [pytest.approx(96.5)])
    assert fair["error_x"]["array"] == [pytest.approx(0.02)]
    assert fair["error_y"]["arrayminus"] == [pytest.approx(1.5)]
    assert figure["data"][-1]["name"] == "ideal"
    assert (figure["data"][-1]["x"], figure["data"][-1]["y"]) == ([0], [100])


def test_curves_skip_what_was_not_logged_and_thin_long_ones() -> None:
    lines = [
        {"step": step, "loss": float("nan") if step < 3 else step, "note": "hello", "done": True}
        for step in range(10_000)
    ]
    found = plots.curves([RunView("a", metrics=lines), RunView("b")])
    assert list(found) == ["loss"]
    (trace,) = found["loss"]["data"]
    assert 50 < len(trace["x"]) < 500
    np.testing.assert_allclose(trace["x"], trace["y"], rtol=1e-3, atol=1)


def test_nothing_known_of_a_run_is_said_not_hidden(tmp_path: Path) -> None:
    words, _, drawn = read(write_report([RunView("bare")], tmp_path / "r.html"))
    assert drawn == {}
    for text in (
        "not evaluated",
        "have no settings",
        "Nothing was logged",
        "No embedding",
        "No weights",
        "No images",
    ):
        assert text in words, text


def test_one_run_of_two_is_not_evaluated(tmp_path: Path) -> None:
    first, second = two_runs()
    words, _, _ = read(
        write_report([first, dataclasses.replace(second, evaluation=None)], tmp_path / "r.html")
    )
    assert "not evaluated" in words
    assert "The features of infonce predict the digit with 92.8" in words


def test_all_text_is_escaped(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
    run = make(evil, "infonce", 0, 0.9, 0.5, 0.5)
    assert run.embedding is not None
    run = dataclasses.replace(
        run,
        label=evil,
        condition=evil,
        data=evil,
        embedding=dataclasses.replace(
            run.embedding, classes=[evil] * 10, condition_names=[evil] * 3
        ),
        settings=load(overrides={"dataset_options": {evil: evil}}),
        command=evil,
        version=evil,
        data_fingerprint=evil,
    )
    out = write_report([run, run], tmp_path / "r.html", command=evil)
    words, reader, _ = read(out)
    text = out.read_text()
    assert evil in words
    assert "<img src=x" not in text
    assert "<script>alert" not in text
    assert all(reference.startswith("data:") for reference in reader.references)


def test_settings_that_differ_are_marked(tmp_path: Path) -> None:
    settings = [load(overrides={"steps": steps, "lr": 0.1}) for steps in (2, None)]
    text = write_report([RunView("a", one) for one in settings], tmp_path / "r.html").read_text()
    rows = re.findall(
        r'<tr( class="differs")?><th scope="row">([^<]*)</th><td>([^<]*)</td><td>([^<]*)</td>', text
    )
    assert [row for row in rows if row[0]] == [(' class="differs"', "train.steps", "2", "none")]
    assert rows[0][0], "what differs comes first"
    assert ("", "optim.lr", "0.1", "0.1") in rows
    assert "a (2)" in text, "runs of one name are told apart"


def test_categorical_conditions_have_accuracies_too(tmp_path: Path) -> None:
    run = RunView("a", evaluation=Evaluation(categorical(0.9, 0.4, 0.5)), condition="color")
    words, _, _ = read(write_report([run], tmp_path / "r.html"))
    for text in ("R² 0.50", "accuracy 80.0 %", "predicting the most common 10.0 %"):
        assert text in words


def test_several_condition_columns_are_told_one_by_one(tmp_path: Path) -> None:
    run = RunView("a", evaluation=Evaluation(several_columns(), several_columns()), label="digit")
    words, _, drawn = read(write_report([run, RunView("b")], tmp_path / "r.html"))
    table = words.partition("Evaluation")[2]
    for text in ("R² 0.30", "R² 0.40", "accuracy 100.0 %", "predicting the most common"):
        assert table.count(text) == 2, text
    assert "not evaluated" in words
    titles = [figure["layout"]["xaxis"]["title"]["text"] for figure in drawn.values()]
    assert titles == [
        "leakage of the age (R² of the worst probe)",
        "leakage of the site (R² of the worst probe)",
    ]


def test_every_probe_is_shown_and_the_worst_in_bold_next_to_the_baselines(tmp_path: Path) -> None:
    leakages = [Leakage({"site": panel(*values)}) for values in ((0.1, 0.3), (0.2, 0.45))]
    part = dataclasses.replace(several_columns(), leakage=leakages[0])
    found = Evaluation(part, baselines={"untrained": FeatureScores(leakage=leakages[1])})
    words, _, _ = read(write_report([RunView("a", evaluation=found)], tmp_path / "r.html"))
    page = (tmp_path / "r.html").read_text()
    cells = re.findall(r"<th scope=\"row\">site, (\w+)</th><td>(.*?) <small>.*?<td>(.*?) <", page)
    assert cells == [
        ("linear", "0.10", "0.20"),
        ("squares", "<strong>0.30</strong>", "<strong>0.45</strong>"),
    ]
    for text in ("accuracy 80.0 %", "predicting the most common 50.0 %"):
        assert words.count(text) == 1, text
    assert ">untrained 0.45</small>" in page
    assert "a, site: the worst of 2 probes reads R² 0.30 (untrained 0.45): partly removed." in words


def test_runs_with_conditions_of_their_own(tmp_path: Path) -> None:
    parts = [
        dataclasses.replace(
            several_columns(), leakage=Leakage({name: several_columns().leakage[name]})
        )
        for name in ("age", "site")
    ]
    runs = [
        RunView("a", evaluation=Evaluation(parts[0]), label="income", condition="age"),
        RunView("b", evaluation=Evaluation(parts[1]), label="smile", condition="site"),
    ]
    words, _, drawn = read(write_report(runs, tmp_path / "r.html"))
    titles = [figure["layout"]["xaxis"]["title"]["text"] for figure in drawn.values()]
    assert titles == [
        "leakage of the age (R² of the worst probe)",
        "leakage of the site (R² of the worst probe)",
    ]
    page = (tmp_path / "r.html").read_text()
    assert re.findall("<td>(age|site)</td>", page) == ["age", "site"]
    assert "leakage of the age" not in words
    assert "income accuracy" not in words, "a heading is for both"


def test_many_runs_stay_small(tmp_path: Path) -> None:
    runs = [
        make(
            f"run {seed}", "infonce" if seed % 2 else "fair-cclk", seed, 0.9, 0.5, 0.5, samples=1500
        )
        for seed in range(6)
    ]
    assert write_report(runs, tmp_path / "r.html").stat().st_size < 5.25e6


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one run"):
        write_report([], tmp_path / "r.html")


def test_an_earlier_report_survives_a_failed_one(tmp_path: Path) -> None:
    out = write_report([RunView("a")], tmp_path / "r.html")
    before = out.read_bytes()
    with pytest.raises(UnicodeEncodeError):
        write_report([RunView("\ud800")], out)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
