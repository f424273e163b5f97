"""The pages of the documentation, and the code and commands on them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    )
]


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[list[str]]:
    """Every command of `cclk` and `cclk-paper` in the shell blocks of a page, with shell arrays
    expanded.
    """
    arrays: dict[str, list[str]] = {}
    found = []
    for line in "\n".join(blocks(text, "sh")).splitlines():
        if array := re.fullmatch(r"(\w+)=\((.*)\)", line):
            arrays[array[1]] = shlex.split(array[2])
            continue
        words: list[str] = []
        for word in shlex.split(line, comments=True):
            use = re.fullmatch(r"\$\{(\w+)\[@\]\}", word)
            words += arrays[use[1]] if use else [word]
        if words[:1] in (["cclk"], ["cclk-paper"]):
            found.append(words)
    return found
