"""Without an optional dependency every entry point names the missing module and a command that
installs it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cclk._extras import MissingExtraError, needed_for

ROOT = Path(__file__).parents[1]
BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
import cclk
try:
    {code}
except ImportError as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
LIGHT = {
    "cyclopts",
    "lightning_fabric",
    "PIL",
    "pyarrow",
    "pydantic",
    "rich",
    "safetensors",
    "sklearn",
}


def without(blocked: set[str], code: str) -> str:
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BLOCKED.format(blocked=blocked, code=code)],
        check=True,
        capture_output=True,
        text=True,
    )
    return found.stdout.strip()


@pytest.mark.parametrize(
    ("blocked", "code", "module", "extra"),
    [
        ({"sklearn"}, "cclk.ConditionalEncoder", "sklearn", "train"),
        ({"pydantic"}, "cclk.ConditionalEncoder", "pydantic", "train"),
        (LIGHT, "cclk.load('run')", "pydantic", "train"),
        (LIGHT, "import cclk.datasets; cclk.datasets.load('colordigits')", "sklearn", "train"),
        (
            LIGHT,
            "import cclk.datasets; cclk.datasets.load('people.csv', features='a', condition='b')",
            "pyarrow",
            "train",
        ),
        (
            {"sklearn"},
            "from cclk.evaluation.probes import fit_classifier as fit; fit([], [], 2, [], [])",
            "sklearn",
            "train",
        ),
        (
            {"plotly"},
            "from cclk.report import write_report; write_report([1], None)",
            "plotly",
            "report",
        ),
    ],
)
def test_a_missing_module_is_named_with_what_to_type(
    blocked: set[str], code: str, module: str, extra: str
) -> None:
    message = without(blocked, code)
    assert re.fullmatch(
        rf"MissingExtraError: .* needs the module {module}, which is not installed: "
        rf"run pip install '\.\[{extra}\]' in the source folder of cclk",
        message,
    )


def test_the_extras_that_messages_name_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert "cclk[" not in source, (
        "the package is not on an index: name the extra of a source checkout"
    )
    named = set(re.findall(r"needed_for\([^()]*, \"(\w+)\"\)", source))
    assert named
    assert named < set(extras)


def test_only_missing_dependencies_are_explained() -> None:
    with (
        pytest.raises(MissingExtraError, match="reading needs the module nowhere"),
        needed_for("loading"),
        needed_for("reading"),
    ):
        import nowhere  # type: ignore[import-not-found]  # noqa: F401
    with (
        pytest.raises(ModuleNotFoundError, match=r"No module named 'cclk\.nowhere'") as caught,
        needed_for("loading"),
    ):
        import cclk.nowhere  # type: ignore[import-not-found]  # noqa: F401
    assert not isinstance(caught.value, MissingExtraError)
