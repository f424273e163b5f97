"""Names of settings: where they are found, and what is said about unknown ones."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from cclk import registry
from cclk.errors import DataError, SettingsError
from cclk.registry import (
    AUGMENTATIONS,
    DATASETS,
    ENCODERS,
    HEADS,
    KERNELS,
    METHODS,
    OPTIMIZERS,
    PENALTIES,
    Registry,
    call,
)
from cclk.training.methods import MethodSpec

EVERY = (METHODS, KERNELS, DATASETS, AUGMENTATIONS, OPTIMIZERS, ENCODERS, HEADS, PENALTIES)


@pytest.fixture
def shapes() -> Registry[object]:
    return Registry("shape", {"square": 4, "turn": "math:tau"}, suffixes={".svg": "math:inf"})


@pytest.mark.parametrize("every", EVERY, ids=lambda every: every.kind)
def test_every_name_leads_to_something(every: Registry[object]) -> None:
    for name in every:
        assert name in every
        assert every.check(name) == name
        thing = every[name]
        assert isinstance(thing, MethodSpec) if every is METHODS else callable(thing)
    for suffix in every.suffixes:
        assert callable(every[f"folder/file{suffix}"])


def test_things_by_name_by_file_and_by_import_path(shapes: Registry[object]) -> None:
    assert (shapes["square"], shapes["turn"], shapes["a/b.svg"]) == (
        4,
        pytest.approx(6.28, 1e-3),
        float("inf"),
    )
    assert shapes["math:pi"] == pytest.approx(3.1416, 1e-4)
    assert shapes["collections:abc.Mapping"] is not None
    shapes.register("circle", "math:pi")
    assert list(shapes) == ["square", "turn", "circle"]
    assert "math:pi" not in shapes
    assert shapes.accepts("math:pi")


def test_unknown_names_are_one_line(shapes: Registry[object]) -> None:
    message = (
        "unknown shape 'sqare' (did you mean 'square'?): choose square, turn, a file (.svg), or"
        " an import path package.module:thing"
    )
    with pytest.raises(SettingsError, match=f"^{re.escape(message)}$"):
        shapes["sqare"]
    with pytest.raises(DataError, match="unknown dataset 'x'"):
        DATASETS.check("x")
    for name in ("", ":", "a:", ":a", "a b:c", "a:b:c", "http://x"):
        assert not shapes.accepts(name)


@pytest.mark.parametrize("path", ["no_such_module:f", "math:no_such_name"])
def test_what_cannot_be_imported_is_named(shapes: Registry[object], path: str) -> None:
    assert shapes.check(path) == path, "names are checked without importing anything"
    with pytest.raises(SettingsError, match=f"^the shape '{path}' cannot be imported: .*no_such"):
        shapes[path]


def test_entry_points_come_after_the_names_of_the_package(
    shapes: Registry[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = EntryPoints(
        EntryPoint(name, value, group)
        for name, value, group in (
            ("square", "math:nan", "cclk.shapes"),
            ("line", "math:e", "cclk.shapes"),
            ("broken", "no_such_module:f", "cclk.shapes"),
            ("other", "math:e", "cclk.kernels"),
        )
    )
    monkeypatch.setattr(registry, "entry_points", lambda: points)
    assert list(shapes) == ["square", "turn", "broken", "line"]
    assert (shapes["square"], shapes["line"]) == (4, pytest.approx(2.718, 1e-3))
    assert "other" in KERNELS
    with pytest.raises(SettingsError, match="the shape 'broken' cannot be imported"):
        shapes["broken"]


def test_things_are_called_with_what_they_take() -> None:
    def shape(size: int, *rest: int, color: str = "red", **more: object) -> tuple[object, ...]:
        return size, rest, color, more

    arguments = {"size": 3, "width": 4}
    assert call(shape, arguments, {"color": "blue", "x": 1}, what="it") == (3, (), "blue", {"x": 1})
    with pytest.raises(SettingsError, match=r"^it needs size: set them as its options$"):
        call(shape, {}, {}, what="it")
    for option in ("size", "width"):
        with pytest.raises(SettingsError, match=f"^it has no option '{option}': it takes corners$"):
            call(lambda size, corners=4: size, arguments, {option: 5}, what="it")


def test_names_are_known_without_torch() -> None:
    code = (
        "import sys, cclk.registry as r; names = list(r.METHODS), list(r.ENCODERS);"
        " r.DATASETS.check('a:b'); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
