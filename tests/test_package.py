"""What holds for the package as a whole."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_import_is_light() -> None:
    """Little more than torch itself: nothing that only training, data or reports need."""
    use = "import cclk; [getattr(cclk, name) for name in cclk.__all__]"
    code = (
        f"import torch, time, sys; t = time.perf_counter(); {use}; print(time.perf_counter() - t,"
        " *sys.modules)"
    )
    tries = [run(code).split() for _ in range(3)]  # the machine may be busy with other tests
    assert min(float(seconds) for seconds, *_ in tries) < 0.3
    modules = tries[0][1:]
    heavy = {
        "sklearn",
        "scipy",
        "PIL",
        "pandas",
        "pyarrow",
        "matplotlib",
        "plotly",
        "pydantic",
        "lightning_fabric",
        "cyclopts",
        "rich",
    }
    assert not heavy & set(modules)


def test_public_names() -> None:
    import cclk

    assert set(cclk.__all__) >= {
        "InfoNCE",
        "WeaklySupCCLK",
        "FairCCLK",
        "HardNegCCLK",
        "HardNegInfoNCE",
        "WeaklySupInfoNCE",
        "FairInfoNCE",
        "kernels",
        "conditional_weights",
        "diagnose",
    }
    assert all(hasattr(cclk, name) for name in cclk.__all__)
    assert cclk.__version__


def test_names_are_imported_when_they_are_used() -> None:
    assert (
        run("import sys, cclk; print('torch' in sys.modules, cclk.__version__ != '')")
        == "False True\n"
    )
    assert run("import cclk; print(cclk.kernels.RBF(length_scale=2.0))").startswith("RBF(")
    assert (
        run("import cclk; print(cclk.losses.InfoNCE.__name__, cclk.ConditionalEncoder.__name__)")
        == "InfoNCE ConditionalEncoder\n"
    )
    assert (
        run(
            "import cclk; print(cclk.losses.FairCCLK is cclk.FairCCLK, cclk.weights.diagnose is"
            " cclk.diagnose)"
        )
        == "True True\n"
    )
    assert (
        run("from cclk import *; print(FairCCLK.__name__, kernels.RBF.__name__)")
        == "FairCCLK RBF\n"
    )
    assert (
        run(
            "import cclk; print({*cclk.__all__, 'ConditionalEncoder', '__version__'} <="
            " {*dir(cclk)})"
        )
        == "True\n"
    )
    assert run("import cclk; print(hasattr(cclk, 'FairCLK'))") == "False\n"


@pytest.mark.parametrize(
    "start",
    [["-m", "cclk"], ["-c", "import sys; from cclk.cli.start import main; sys.exit(main())"]],
)
def test_the_version_is_told_at_once(start: list[str]) -> None:
    """In CPU seconds, which other tests run beside it hardly change."""
    import cclk

    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, *start, "--version"], check=True, capture_output=True, text=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert (done.stdout, done.stderr) == (f"{cclk.__version__}\n", "")
    assert min(seconds) < 0.3


def test_the_lowest_versions_are_listed() -> None:
    """constraints-lowest.txt, which CI tests and audits, has the lower bounds of pyproject.toml."""
    wanted: set[str] = set()
    for file in ("pyproject.toml", "paper/pyproject.toml"):
        project = tomllib.loads((ROOT / file).read_text())["project"]
        wanted.update(project["dependencies"], *project.get("optional-dependencies", {}).values())
    bounds = {
        requirement.replace(">=", "==")
        for requirement in wanted
        if not requirement.startswith("cclk[")
    }
    listed = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    assert listed == sorted(bounds)
    pinned = (ROOT / "constraints.txt").read_text().lower().splitlines()
    names = {line.partition("==")[0] for line in pinned}
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", line) for line in listed)
    assert {line.partition("==")[0] for line in listed} <= names
