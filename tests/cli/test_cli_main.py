"""The help pages: what every command is for, in words that show as they are meant."""

from __future__ import annotations

import importlib
import inspect

import pytest

from cclk.cli.main import app, main

COMMANDS = {
    "check": "check",
    "embed": "use",
    "export": "use",
    "features": "features",
    "reproduce": "experiments",
    "results": "experiments",
    "sweep": "experiments",
}
"""Those that are imported only when they are used, and where they are."""


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments, "--help"]) == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_every_command_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    listed = told(capsys)
    for command, module in COMMANDS.items():
        words = inspect.getdoc(getattr(importlib.import_module(f"cclk.cli.{module}"), command))
        assert words
        assert f"{command} {words.splitlines()[0].replace('`', '')}" in listed
        assert app[command].help == words, "its own page has all of it"


def test_the_help_of_train_shows_as_it_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    page = told(capsys, "train")
    assert "`" not in page
    assert "cclk train --resume --out RUN resumes it" in page
    assert "runs/METHOD-DATASET-seedSEED" in page


def test_check_says_that_it_takes_the_settings_of_train(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Any setting of cclk train may be given by its name" in told(capsys, "check")
