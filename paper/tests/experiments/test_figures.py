"""Figures of results: each kind is drawn, the same each time, with the Pareto front."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cclk_paper.experiments import ExperimentResult
from cclk_paper.experiments.figures import draw, pareto_optimal, tradeoff
from cclk_paper.experiments.measure import Measure
from cclk_paper.experiments.plan import WeightsFigure
from cclk_paper.experiments.results import CurvePoint
from hypothesis import given
from hypothesis import strategies as st
from made_up_results import cell, result
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

LEAK: dict[Measure, float] = {"accuracy": 0.9, "knn": 0.8, "nonlinear_r2": 0.2}
CURVE = (CurvePoint(1.0, 0.5, 0.4), CurvePoint(2.0, 0.6, 0.5))
PANELS = {"K": [[1.0, 0.5], [0.5, 1.0]], "W": [[0.0, -0.5], [1.0, 0.0]]}

RESULTS: dict[str, ExperimentResult] = {
    "curves": result(
        cell("a", "first", {"accuracy": 0.5, "knn": 0.5}, {"accuracy": 0.6, "knn": 0.5}, x=10.0),
        cell("a", "first", {"accuracy": 0.4, "knn": 0.5}, x=1.0),
        cell("b", "first", {"accuracy": 0.7, "knn": 0.5}, x=10.0),
        cell("b", "first", x=1.0),
        cell("a", "second", {"accuracy": 0.7, "knn": 0.5}, x=10.0),
        axis="images",
    ),
    "progress": result(
        cell("a", "c", LEAK, LEAK, curves=[CURVE, CURVE]),
        cell("b", "c", LEAK, curves=[CURVE]),
        cell("open", "c"),
    ),
    "plane": result(
        *(
            cell(f"method {number}", "c", LEAK | {"nonlinear_r2": number / 10}, LEAK)
            for number in range(8)
        ),
        cell("open", "c"),
        cell("open", "nothing yet"),
        measures=("accuracy", "knn", "nonlinear_r2"),
    ),
    "sweep": result(
        *(
            cell(
                "neighbors",
                "c",
                {"accuracy": 0.8 + x / 100, "knn": 0.5, "nonlinear_r2": x / 10},
                x=x,
            )
            for x in (1.5, 3.0, 6.0)
        ),
        cell("lr", "c", {"accuracy": 0.6, "knn": 0.5, "nonlinear_r2": 0.9}, x=0.1),
        measures=("accuracy", "knn", "nonlinear_r2"),
    ),
    "studies": result(
        *(
            cell(f"value {row}", f"study {column}", LEAK | {"nonlinear_r2": column / 10})
            for column in range(9)
            for row in range(2)
        ),
        cell("open", "study 9"),
        measures=("accuracy", "knn", "nonlinear_r2"),
    ),
    "weights": result(figure=WeightsFigure("colordigits", "RBF(2)", [], PANELS, {})),
}
NAMES = {
    "curves": ["made-up-1.svg", "made-up-2.svg"],
    "progress": ["made-up.svg"],
    "plane": ["made-up.svg"],
    "sweep": ["made-up.svg"],
    "studies": ["made-up.svg"],
    "weights": ["made-up.svg"],
}


@pytest.mark.parametrize("kind", RESULTS)
def test_every_kind_is_drawn_and_the_same_each_time(kind: str, tmp_path: Path) -> None:
    """Without a warning: those are errors here."""
    first, second = (
        draw(RESULTS[kind], tmp_path / "new" / "one"),
        draw(RESULTS[kind], tmp_path / "two"),
    )
    assert [path.name for path in first] == NAMES[kind]
    assert sorted(path.name for path in (tmp_path / "new" / "one").iterdir()) == NAMES[kind], (
        "and no draft is left"
    )
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
        assert ElementTree.parse(one).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert not re.search(r"<dc:date>|20\d\d-\d\d-\d\d", one.read_text())


def test_a_plain_table_has_no_image(tmp_path: Path) -> None:
    assert draw(result(cell("a", "c", {"accuracy": 0.5, "knn": 0.5})), tmp_path) == []
    assert draw(result(cell("a", "c"), axis="images"), tmp_path) == [], (
        "nor has what has not been run"
    )
    assert not list(tmp_path.iterdir())


def test_what_the_plane_shows() -> None:
    axes = Figure().subplots()
    cells = [
        cell(
            "Fair",
            "c",
            {"accuracy": 0.94, "nonlinear_r2": 0.25},
            {"accuracy": 0.96, "nonlinear_r2": 0.35},
            x=1.5,
        ),
        cell("Fair", "c", {"accuracy": 0.5, "nonlinear_r2": 0.1}, x=3.0),
        cell("plain", "c", {"accuracy": 0.75, "nonlinear_r2": 0.99}),
    ]
    tradeoff(axes, cells, "a title")
    fair, plain, best = axes.get_lines()
    np.testing.assert_allclose(fair.get_xydata(), [[0.3, 95.0], [0.1, 50.0]])
    np.testing.assert_allclose(plain.get_xydata(), [[0.99, 75.0]])
    np.testing.assert_allclose(best.get_xydata(), [[0.1, 50.0], [0.3, 95.0]])
    assert [text.get_text() for text in axes.texts] == ["1.5", "3"]
    assert axes.get_title() == "a title"


def test_seven_methods_have_seven_colors() -> None:
    """As many as the table of fair learning has."""
    axes = Figure().subplots()
    tradeoff(
        axes,
        [
            cell(f"method {number}", "c", LEAK | {"nonlinear_r2": number / 10})
            for number in range(7)
        ],
        "",
    )
    assert len({to_hex(line.get_color()) for line in axes.get_lines()[:7]}) == 7


points = st.dictionaries(
    st.integers(0, 20),
    st.tuples(st.integers(0, 4).map(float), st.integers(0, 4).map(float)),
    max_size=12,
)


@given(points)
def test_the_frontier_is_what_nobody_beats(made: dict[int, tuple[float, float]]) -> None:
    """Beaten: another leaks no more and is no less accurate, and is better in one of them."""
    expected = set()
    for name, (leak, right) in made.items():
        better = [
            (a, b)
            for a, b in made.values()
            if (a < leak and b >= right) or (a <= leak and b > right)
        ]
        if not better:
            expected.add(name)
    found = pareto_optimal(made)
    assert set(found) == expected
    assert len(found) == len(expected)
    assert [made[name] for name in found] == sorted(made[name] for name in found), (
        "from the least leak to the most"
    )
    assert bool(found) == bool(made)
