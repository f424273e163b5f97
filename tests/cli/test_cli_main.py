"""The help pages: what every command is for, in words that show as they are meant."""

from __future__ import annotations

import importlib
import inspect

import pytest
from cclk_paper.cli.main import PAPER

from cclk.cli.main import CCLK, Program, main


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments, "--help"]) == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("program", [CCLK, PAPER], ids=lambda program: program.name)
def test_every_command_says_what_it_is_for(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--help"], program) == 0
    listed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for command, summary in program.commands.items():
        module = importlib.import_module(f"{program.package}.{command}")
        doc = inspect.getdoc(getattr(module, command))
        assert doc
        assert doc.splitlines()[0] == summary
        assert f"{command} {summary.replace('`', '')}" in listed
        assert inspect.cleandoc(program.app(command)[command].help) == doc, (
            "its own page has all of it"
        )


def test_the_help_of_train_shows_as_it_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    page = told(capsys, "train")
    assert "`" not in page
    assert "cclk train --resume --out RUN resumes it" in page
    assert "runs/METHOD-DATASET-seedSEED" in page


def test_check_says_that_it_takes_the_settings_of_train(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Takes every setting of cclk train by its name" in told(capsys, "check")
