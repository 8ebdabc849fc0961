"""Help texts on 80 columns."""

from __future__ import annotations

from typing import get_args

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bispectral_ot.cli.main import app
from bispectral_ot.literals import Symmetry


def commands(group, *before: str) -> list[tuple[str, ...]]:
    """Every command of the program, as the words that call it."""
    inner = getattr(group, "commands", None)
    return [words for name, each in inner.items() for words in commands(each, *before, name)] if inner else [before]


@pytest.mark.parametrize("words", [(), *commands(get_command(app))], ids=" ".join)
def test_help_fits_80_columns_and_has_an_example(words):
    page = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).stdout
    assert "…" not in page  # nothing is cut off
    assert "<bool>" not in page
    assert all(len(line) <= 80 for line in page.splitlines())
    assert f"Example: bispectral-ot {' '.join(words)}".strip() in " ".join(page.split())


def test_choices_are_readable_and_checked():
    page = CliRunner().invoke(app, ["match", "--help"], env={"COLUMNS": "80"}).stdout
    text = " ".join(page.replace("│", " ").split())
    assert f"One of {', '.join(get_args(Symmetry))}." in text
    outcome = CliRunner().invoke(app, ["match", "digits", "digits", "--out", "x", "--symmetry", "rotatoin"])
    assert outcome.exit_code == 2
    assert "unknown symmetry 'rotatoin'; did you mean 'rotation'" in outcome.stderr
