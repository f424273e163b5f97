"""`cclk-paper results` and the mistakes one can make with `cclk-paper reproduce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cclk_paper.cli.main import main
from cclk_paper.experiments.measure import Measure
from experiments.made_up_results import cell, result

FAIR: dict[Measure, float] = {"accuracy": 0.95, "knn": 0.9, "nonlinear_r2": 0.25}


def fair(accuracy: float = 0.95, **others: Any) -> dict[str, object]:
    made = result(
        cell("Fair-CCLK", "our recipe", FAIR | {"accuracy": accuracy}),
        measures=("accuracy", "knn", "nonlinear_r2"),
    )
    return made.to_json() | {"experiment": "fair", "title": "Fair learning"} | others


def hardneg(**others: Any) -> dict[str, object]:
    return (
        result(cell("InfoNCE", "CIFAR-10", {"accuracy": 0.5, "knn": 0.25})).to_json()
        | {"experiment": "hardneg", "title": "Hard negatives", "note": r"with a \d"}
        | others
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Results of two experiments, a sweep and a smoke test, among files of other kinds."""
    made = tmp_path / "results"
    made.mkdir()
    sweep = {"experiment": "frontier", "title": "The frontier"}
    for name, content in (
        ("hardneg", hardneg()),
        ("fair", fair()),
        ("a-frontier", fair() | sweep),
        ("weaksup-smoke", hardneg(experiment="weaksup", size="smoke")),
    ):
        (made / f"{name}.json").write_text(json.dumps(content, indent=1))
    (made / "benchmark.json").write_text('{"times": [1, 2]}')
    (made / "notes.txt").write_text('"experiment"')
    return made


def shown(page: Path) -> list[str]:
    return [
        line
        for line in page.read_text().splitlines()
        if line.startswith("<!-- ") and line != "<!-- end -->"
    ]


def test_a_new_page_has_all_in_the_papers_order(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    assert main(["results", str(folder), "--out", str(page)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "".join(captured.err.split()) == f"written:{page}".replace(" ", "")
    text = page.read_text()
    assert text.startswith("# Results\n")
    assert shown(page) == [
        "<!-- fair -->",
        "<!-- hardneg -->",
        "<!-- frontier -->",
    ], "the paper's own first; none of a smoke test"
    assert text.count("<!-- end -->") == 3
    assert "| Fair-CCLK | 95.0 | 90.0 | 0.25 |" in text
    assert "![Fair learning](figures/fair.svg)" in text
    assert "![The frontier](figures/frontier.svg)" in text
    assert "![Hard negatives]" not in text
    assert sorted(path.name for path in (page.parent / "figures").iterdir()) == [
        "fair.svg",
        "frontier.svg",
    ]


def test_words_around_the_blocks_are_kept(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text(
        "# Ours\n\nBefore ± all.\n\n<!-- hardneg -->\nold words\n<!-- end -->\n\nBetween"
        " \\1.\n\n<!-- fair -->\n<!-- end -->\nAfter.\n"
    )
    assert main(["results", str(folder), "--out", str(page), "--quiet"]) == 0
    text = page.read_text()
    assert "old words" not in text
    assert text.startswith("# Ours\n\nBefore ± all.\n\n<!-- hardneg -->\n## Hard negatives\n")
    assert "<!-- end -->\n\nBetween \\1.\n\n<!-- fair -->\n## Fair learning\n" in text
    assert "<!-- end -->\nAfter.\n\n<!-- frontier -->\n## The frontier\n" in text, (
        "what is new comes last"
    )
    assert text.endswith("<!-- end -->\n")
    assert shown(page) == [
        "<!-- hardneg -->",
        "<!-- fair -->",
        "<!-- frontier -->",
    ], "in the page's own order"

    assert main(["results", str(folder), "--out", str(page), "--quiet"]) == 0
    assert page.read_text() == text, "a second time changes nothing"
    (folder / "fair.json").write_text(json.dumps(fair(accuracy=0.5)))
    assert main(["results", str(folder), "--out", str(page), "--quiet"]) == 0
    assert page.read_text() == text.replace(
        "| Fair-CCLK | 95.0 | 90.0", "| Fair-CCLK | 50.0 | 90.0", 1
    )


def test_a_new_page_is_the_same_the_second_time(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    for _ in range(2):
        assert main(["results", str(folder), "--out", str(page), "--quiet"]) == 0
        before = {path: path.read_bytes() for path in (page, *(tmp_path / "figures").iterdir())}
    assert main(["results", str(folder), "--out", str(page), "--quiet"]) == 0
    assert {path: path.read_bytes() for path in before} == before


def test_without_a_page_it_is_printed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results", str(folder)]) == 0
    captured = capsys.readouterr()
    assert [line for line in captured.out.splitlines() if line.startswith("## ")] == [
        "## Fair learning",
        "## Hard negatives",
        "## The frontier",
    ]
    assert captured.err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["results"], "nothing is written"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "fair.json",
            b'{"experiment": "fair", "size"',
            "fair.json is not a valid result of an experiment (invalid JSON: EOF",
        ),
        ("x.json", b'{"experiment": \xff}', "x.json is not a valid result of an experiment (inv"),
        (
            "x.json",
            b'["experiment"]',
            "x.json is not a valid result of an experiment (input should be an object)",
        ),
        (
            "x.json",
            b'{"experiment": "of somebody else", "results": []}',
            "x.json is not a valid result of an experiment (size: field required)",
        ),
        (
            "x.json",
            json.dumps(fair(cells=[])).replace('"cells"', '"rows"').encode(),
            "an experiment (cells: field required)",
        ),
        (
            "x.json",
            json.dumps(fair(seeds=["0"])).encode(),
            "an experiment (seeds.0: input should be a valid integer)",
        ),
        (
            "x.json",
            json.dumps(fair()).replace('"knn": 0.9', '"knn": "high"').encode(),
            "(cells.0.runs.0.measures.knn: input should be a",
        ),
    ],
)
def test_a_damaged_result_is_one_line(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    message: str,
) -> None:
    (folder / name).write_bytes(content)
    page = tmp_path / "results.md"
    page.write_text("as it was")
    assert main(["results", str(folder), "--out", str(page)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"cclk: {folder}")
    assert message in told
    assert told.count("\n") == 1
    assert page.read_text() == "as it was"


def test_results_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, message in (
        (
            tmp_path,
            (
                f"cclk: {tmp_path} contains no results at size cpu or paper: run cclk-paper"
                " reproduce first\n"
            ),
        ),
        (
            tmp_path / "no",
            (
                f"cclk: there is no folder {tmp_path / 'no'}: run an experiment first, such as"
                " cclk-paper reproduce fair --size smoke\n"
            ),
        ),
    ):
        assert main(["results", str(folder)]) == 2
        assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fare"], "cclk: unknown experiment 'fare': choose all, weaksup,"),
        (["fair", "fare"], "cclk: unknown experiment 'fare'"),
        (["fair", "--size", "large"], "cclk: "),
        (["fair", "--seeds", "0"], "cclk: --seeds is 0: it must be at least 1"),
        (["fair", "--workers", "-1"], "cclk: --workers is -1: it must be at least 1"),
        (
            ["fair", "--size", "smoke", "--only", "nobody"],
            "cclk: no cell of fair contains 'nobody': choose from InfoNCE, ",
        ),
        ([], "cclk: "),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert (
        main(
            [
                "reproduce",
                *arguments,
                "--results",
                str(tmp_path / "results"),
                "--runs",
                str(tmp_path / "runs"),
            ]
        )
        == 2
    )
    told = capsys.readouterr().err
    assert told.startswith(message)
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_experiment_without_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    assert main(["reproduce", "weights", "--size", "smoke", *folders]) == 0
    assert "From kernel to weights" in capsys.readouterr().out
    content = json.loads((tmp_path / "results" / "weights-smoke.json").read_text())
    assert (content["experiment"], content["size"], content["command"]) == (
        "weights",
        "smoke",
        "cclk-paper reproduce weights --size smoke",
    )
    assert not (tmp_path / "runs").exists()
    assert main(["reproduce", "weights", "--size", "smoke", "--quiet", *folders]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    for command, lesson in (
        ("reproduce", "cclk-paper reproduce fair --size cpu"),
        ("results", "cclk-paper results --out docs/results.md"),
        (
            "sweep",
            "cclk-paper sweep --preset digits-fair --over fair-cclk:leakage_penalty=1,3,10",
        ),
    ):
        assert main([command, "--help"]) == 0
        assert lesson in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(command in listed for command in ("reproduce", "results", "sweep"))
