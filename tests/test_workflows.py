"""Workflows run fixed versions of actions, without write access or stored credentials."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WORKFLOWS = sorted((Path(__file__).parents[1] / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_pinned_and_cannot_write(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    actions = re.findall(r"uses: (.*)", text)
    assert actions
    for action in actions:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action), action
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")
    assert "\npermissions:\n  contents: read\n" in text
    assert ": write" not in text
