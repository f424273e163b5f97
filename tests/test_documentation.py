"""The documentation shows what was measured, its links lead somewhere, and its code and commands
work.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
import statistics
from importlib import resources
from pathlib import Path

import pytest
from cclk_paper.cli.main import PAPER
from cclk_paper.cli.results import results
from cclk_paper.experiments.frontier import within_leakage
from cclk_paper.experiments.registry import removal
from cclk_paper.experiments.results import read
from pages import PAGES, ROOT, blocks, commands

import cclk
from benchmarks import figures, reference, tables
from cclk import registry
from cclk.cli.demo import RUNS
from cclk.cli.main import CCLK
from cclk.training.settings import load
from examples import adult

README = (ROOT / "README.md").read_text()
BRITISH = re.compile(
    r"colour|grey|neighbour|behaviour|licence|\w+(?:ard|mal|ion|ori|tim)is(?:e|ed|ation|er)\b",
    re.IGNORECASE,
)
GENERATED = ("docs/results.md", *(f"docs/reference/{name}" for name in reference.pages()))
"""Pages whose words come from the code or from committed results."""
LOOP = "docs/tutorials/own-loop.md"


def words(text: str) -> int:
    """The number of words outside of code, tables, comments, link targets and images."""
    text = re.sub(
        r"```.*?```|<!--.*?-->|^\|.*?$|!\[.*?\]\(.*?\)", "", text, flags=re.DOTALL | re.MULTILINE
    )
    return len(re.findall(r"\w[\w'-]*", re.sub(r"\]\(.*?\)", "]", text)))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short() -> None:
    assert words(README) <= 500


@pytest.mark.parametrize("page", tables.PAGES)
def test_tables_match_the_results(page: str) -> None:
    text = (ROOT / page).read_text()
    assert tables.render(text) == text, "run python -m benchmarks.tables"


def test_the_readmes_figure_matches_the_result() -> None:
    committed = (figures.FOLDER / "embedding.svg").read_text()
    assert figures.embedding() == committed, "run python -m benchmarks.figures"
    assert len(committed) < 150_000


def test_every_table_is_on_a_page() -> None:
    shown = {
        name
        for page in tables.PAGES
        for name in re.findall(r"<!-- table ([\w-]+) -->", (ROOT / page).read_text())
    }
    assert shown == set(tables.TABLES)


@pytest.mark.parametrize(("name", "text"), reference.pages().items())
def test_the_reference_matches_the_code(name: str, text: str) -> None:
    assert (reference.FOLDER / name).read_text() == text, "run python -m benchmarks.reference"


def test_the_results_page_matches_the_results(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text((ROOT / "docs" / "results.md").read_text())
    results(ROOT / "results", out=page, quiet=True)
    assert page.read_text() == (ROOT / "docs" / "results.md").read_text(), (
        "run cclk-paper results --out docs/results.md"
    )


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(((?!http).*?)\)", (ROOT / page).read_text()):
        path, _, anchor = target.partition("#")
        linked = (ROOT / page).parent / path if path else ROOT / page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked.read_text()), target


def test_contributing_lists_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("| package |") : text.index("| outside")]
    first = "\n".join(line.split("|")[1] for line in table.splitlines() if line)
    listed = set(re.findall(r"`(\w+(?:/|\.py))`", first))
    entries = (ROOT / "src" / "cclk").iterdir()
    names = {f"{path.name}/" if path.is_dir() else path.name for path in entries}
    assert listed == {name for name in names if not name.startswith("_") and name != "py.typed"}


def test_the_guide_to_extensions_has_every_registry() -> None:
    text = (ROOT / "docs" / "how-to" / "extend.md").read_text()
    every = [each for each in vars(registry).values() if isinstance(each, registry.Registry)]
    groups = {each.group for each in every}
    assert {"cclk.methods", "cclk.penalties"} < groups
    first = text[: text.index("of your own")].lower()
    assert {f"cclk.{word}" for word in re.findall(r"\w+", first)} >= groups
    assert set(re.findall(r"`(cclk\.\w+s)`", text)) - {"cclk.kernels"} == groups - {"cclk.kernels"}
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert rows == {each.kind for each in every} - {"method"}, "methods have a section of their own"


def test_the_demo_is_described_as_it_is() -> None:
    """Two encoders are trained; README and Makefile agree."""
    trained = [name for name, (_, changes) in RUNS.items() if changes.get("steps") != 1]
    number = {2: "two", 3: "three"}[len(trained)]
    described = [
        re.search(r"trains (\w+) encoders.*?: ([\w ]+) minutes the first time", text, re.IGNORECASE)
        for text in (README, (ROOT / "Makefile").read_text())
    ]
    assert {found and found.groups() for found in described} == {(number, "three to five")}


def test_presets_say_from_how_many_settings_they_were_selected() -> None:
    (cell,) = (
        cell
        for cell in read(ROOT / "results" / "fair.json").cells
        if (cell.row, cell.column) == ("InfoNCE", "our recipe")
    )
    presets = resources.files("cclk.training") / "presets"
    comment = (presets / "colormnist-infonce.toml").read_text()
    assert len(cell.choices) == 12
    assert "Best of the twelve settings in results/fair.json" in comment


def test_presets_of_the_demo_are_selected_from_the_same_settings() -> None:
    rows = json.loads((ROOT / "results" / "demo-recipe.json").read_text())["choices"]
    choices = {}
    for preset, method in (("digits-infonce", "infonce"), ("digits-fair", "fair-cclk")):
        tried = [row for row in rows if row["method"] == method]
        choices[method] = sorted(str(row["choice"]) for row in tried)
        best = max(statistics.mean(row["accuracy"]) for row in tried)
        good = [row for row in tried if statistics.mean(row["accuracy"]) >= best - 0.02]
        selected = min(good, key=lambda row: statistics.mean(row["color_r2"]))["choice"]
        settings = load(preset=preset)
        used = {**settings.loss.model_dump(), **settings.optim.model_dump()}
        assert {name: used[name] for name in selected} == selected
    assert choices["infonce"] == choices["fair-cclk"]
    assert len(choices["infonce"]) == 17


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert "(docs/README.md" in README
    for page in PAGES:
        if page.startswith("docs/") and page != "docs/README.md":
            assert f"({page.removeprefix('docs/')})" in index, page


@pytest.mark.parametrize("page", [page for page in PAGES if page not in GENERATED])
def test_spelling_is_american(page: str) -> None:
    text = (ROOT / page).read_text()
    assert not BRITISH.findall(text)


def test_the_citation_has_the_version() -> None:
    assert f"\nversion: {cclk.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_readmes_example_is_short() -> None:
    (example,) = blocks(README, "python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if page not in (*GENERATED, LOOP) and blocks((ROOT / page).read_text(), "python")
    ],
)
def test_code_runs(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks((ROOT / page).read_text(), "python")).replace("steps=1000", "steps=5")
    exec(compile(code, page, "exec"), {"__name__": page})
    if "print(" in code:
        assert capsys.readouterr().out


def test_the_tutorial_removes_the_age(capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(blocks((ROOT / LOOP).read_text(), "python"))
    exec(compile(code, LOOP, "exec"), {"__name__": LOOP})
    found = [line for line in capsys.readouterr().out.splitlines() if ": age " in line]
    plain, fair, penalized = [list(map(float, re.findall(r"-?\d\.\d\d", line))) for line in found]
    assert penalized[0] < 0.05 < fair[0] < 0.25 < 0.5 < plain[0], "the age"
    assert min(penalized[1], fair[1]) > 0.9 > plain[1], "the content"
    shown = re.search(r"^InfoNCE: age.*?(?=^```)", (ROOT / LOOP).read_text(), re.DOTALL | re.M)
    assert shown is not None
    numbers = [float(number) for number in re.findall(r"-?\d\.\d\d", shown[0])]
    assert numbers == pytest.approx([*plain, *fair, *penalized], abs=0.05), "what the page shows"


def test_the_tutorial_on_images_trains_what_its_table_measured() -> None:
    result = json.loads((ROOT / "results" / "example-rotated-fashion.json").read_text())
    page = (ROOT / "docs" / "tutorials" / "own-images.md").read_text()
    trained = [command[1:] for command in commands(page) if command[1] == "train"]
    assert len(trained) == len(result["methods"])
    for command, (method, detail) in zip(trained, result["methods"].items(), strict=True):
        options = dict(itertools.pairwise(command))
        budget = {name: result["settings"][name] for name in ("steps", "warmup")}
        wanted = {"method": method, "remove": "none", **detail["settings"], **budget}
        assert {name: options.get(f"--{name}") for name in wanted} == wanted
        assert set(options) >= set(result["settings"]["columns"].split()) - {"split"}


def test_the_tutorial_on_a_table_trains_what_its_table_measured() -> None:
    result = json.loads((ROOT / "results" / "example-adult.json").read_text())
    (choice,) = (
        row["choice"] for row in result["choices"] if row["method"] == "fair" and row["selected"]
    )
    plan = adult.Plan(steps=result["plan"]["steps"])
    (code,) = blocks((ROOT / "docs" / "tutorials" / "own-table.md").read_text(), "python")
    (made,) = re.findall(r"^encoder = (cclk\.ConditionalEncoder\(.*?^\))", code, re.DOTALL | re.M)
    encoder = eval(made, {"cclk": cclk})
    assert encoder.get_params() == adult.encoder("fair", 8, plan, 0, choice).get_params()


def test_what_the_pages_say_of_the_benchmark_of_removal() -> None:
    """Weights with the penalty, known labels, and cells with fewer seeds."""
    result = read(ROOT / "results" / "removal.json")
    frontier = result.frontier
    assert frontier is not None

    def kept(row: str, column: str, limit: float = 0.2) -> float | None:
        cell = within_leakage(frontier, result.columns[column], row, column, limit)
        return None if cell is None else statistics.mean(cell.values(frontier.utility[column]))

    loo = {column: kept(removal.LOO, column) for column in result.columns}
    nw = {column: kept(removal.PENALTY, column) for column in result.columns}
    assert [column for column in nw if nw[column] is None] == ["adult", "crime"]
    gains = {name: (loo[name] or 0) - value for name, value in nw.items() if value is not None}
    assert {name for name, gain in gains.items() if gain > 1} == {"rotated-fashion", "cells"}
    assert -1 < gains["colormnist"] < 0 < gains["health"] < 0.5
    measured = {
        column: (kept(removal.KEEP, column), kept(removal.LOO, column))
        for column in result.columns
        if any(cell.row == removal.KEEP and cell.runs for cell in result.columns[column])
    }
    assert [name for name, (keep, other) in measured.items() if (keep or 0) < (other or 0)] == [
        "crime"
    ]
    assert len(measured) == 5
    fewer = {
        (cell.row, cell.column, len(cell.runs))
        for cell in result.cells
        if 0 < len(cell.runs) < result.column_seeds[cell.column]
    }
    assert fewer == {
        (removal.HSIC, "colormnist", 1),
        (removal.HSIC, "colormnist", 2),
        (removal.KEEP, "rotated-fashion", 4),
    }


def test_the_readme_compares_fair_cclk_with_infonce_by_the_same_function() -> None:
    times = json.loads((ROOT / "results" / "benchmark-loss.json").read_text())["times"]
    rows = {(row["way"], row["width"]): row for row in times if row["size"] == 8192}
    ratios = [
        row["milliseconds"] / rows["InfoNCE", width]["milliseconds"]
        for (way, width), row in rows.items()
        if way.startswith("FairCCLK")
    ]
    text = f"for a batch of 8,192, Fair-CCLK takes {min(ratios):.1f} to {max(ratios):.1f} times"
    for page in (README, (ROOT / "docs" / "explanation" / "speed.md").read_text()):
        assert text in page
    fair = [row for (way, _), row in rows.items() if way.startswith("FairCCLK")]
    assert max(row["ratio_to_plain"] for row in fair) < 1, "less than by a dense cross_entropy"


@pytest.mark.parametrize(
    ("page", "command"),
    [(page, one) for page in PAGES for one in commands((ROOT / page).read_text())],
)
def test_commands_are_understood(page: str, command: list[str]) -> None:
    """Every command parses, and its settings are valid."""
    program = CCLK if command[0] == "cclk" else PAPER
    function, bound, _ = program.app(command[1]).parse_args(
        command[1:], exit_on_error=False, print_error=False
    )
    settings = bound.arguments.get("settings")
    if settings is not None:
        load(None, bound.arguments.get("preset"), settings.passed())
    assert inspect.signature(function).bind(*bound.args, **bound.kwargs)
