"""The vocabulary of the code: no retired words, one name per thing, and typed signatures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "src" / "cclk").rglob("*.py"))
RETIRED = re.compile(
    r"(?<![a-z])(told|spread|nobody|everybody|rooms?|pictures?|partners?|outcomes?|anew|is no"
    r"|are no|goe?s? on|so many"
    r"|colour\w*|grey\w*|neighbour\w*|behaviour\w*|labelled|learnt"
    r"|(?:standard|normal|regular|optim|initial|factor|random|summar|recogn)"
    r"is(?:e|ed|er|ers|es|ing|ation))"
    r"(?![a-z])"
)
ALLOWED = {
    # Names that users may type, and seeds of random draws.
    *("colours", "grey", "greyscale", "partners", "pictures", "standardise", "inputs.spread"),
    *("uniform colour", "palette colour"),
}
PHRASES = re.compile(r"there is no|there are no|cannot be told|is no longer|`inputs.spread`")
"""Plain English in which these words carry their usual meaning."""


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Identifiers that this package defines, and its string literals."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Constant(value=str(text)):
                yield node.lineno, text


def retired(text: str) -> list[str]:
    if text in ALLOWED:
        return []
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).replace("_", " ").lower()
    return [match[0] for match in RETIRED.finditer(PHRASES.sub("", spaced))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_no_retired_words(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bad = [(line, word) for line, text in names(tree) for word in retired(text)]
    assert not bad, f"{path.name}: {bad[:20]}"


def test_no_two_classes_or_files_of_one_name() -> None:
    classes: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(path.name)
    assert not {name: where for name, where in classes.items() if len(where) > 1}


UNTYPED = re.compile(r"(dict|Mapping)\[str, Any\]")
STATES = ("state_dict", "load_state_dict", "load_checkpoint")
"""States follow the convention of torch."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_public_signatures_have_no_untyped_mappings(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    methods = [node for cls in body if isinstance(cls, ast.ClassDef) for node in cls.body]
    for node in (*body, *methods):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            annotations = [each.annotation for each in (*node.args.args, *node.args.kwonlyargs)]
            for annotation in filter(None, [*annotations, node.returns]):
                text = ast.unparse(annotation)
                assert node.name in STATES or not UNTYPED.search(text), f"{node.name}: {text}"


def test_no_method_is_known_by_its_spelling() -> None:
    for path in FILES:
        assert 'endswith("cclk")' not in path.read_text(encoding="utf-8"), path
