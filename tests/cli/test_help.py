"""Help texts on 80 columns: flags look like flags, and long lists of choices do not squeeze the descriptions."""

from __future__ import annotations

from typing import get_args

import typer
from typer.testing import CliRunner

from bispectral_ot.choices import Symmetry
from bispectral_ot.cli.main import app


def test_flags_have_no_type_and_long_choices_are_in_the_text():
    group = typer.main.get_command(app)
    options = {option.name: option for option in group.commands["match"].params}
    assert options["report"].metavar == ""
    assert options["limit"].metavar == "N"
    assert options["source_split"].metavar is None  # short enough to stay
    for choice in get_args(Symmetry):
        assert choice in options["symmetry"].help
    page = CliRunner().invoke(app, ["match", "--help"], env={"COLUMNS": "80"}).stdout
    shown = next(line for line in page.splitlines() if "--report" in line)
    assert "<" not in shown


def test_choices_that_are_in_the_text_are_still_checked():
    outcome = CliRunner().invoke(app, ["match", "digits", "digits", "--out", "x", "--symmetry", "rotatoin"])
    assert outcome.exit_code == 2
    assert "rotation" in outcome.output


def test_paragraphs_are_not_broken_twice():
    group = typer.main.get_command(app)
    paragraphs = group.commands["match"].help.split("\n\n")
    assert len(paragraphs) > 5
    assert not any("\n" in paragraph for paragraph in paragraphs)
