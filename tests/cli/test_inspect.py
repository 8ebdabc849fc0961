"""Commands that show something: help, datasets, info, report."""

import re
from typing import get_args

import pytest
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

import bispectral_ot
from bispectral_ot.checks import Symmetry
from bispectral_ot.cli.main import app


@pytest.fixture
def show(program, monkeypatch, tmp_path):
    """Standard output of a command; neither this machine's data folder nor its cache may decide a test."""
    for variable in ("BISPECTRAL_OT_DATA", "BISPECTRAL_OT_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name, **_: str(tmp_path / "cache" / name))

    def call(*words):
        outcome = program(*words)
        assert outcome.code == 0, outcome.stderr
        return " ".join(outcome.stdout.split())

    return call


def commands(group, *before: str) -> list[tuple[str, ...]]:
    """Every command of the program, as the words that call it."""
    inner = getattr(group, "commands", None)
    return [words for name, each in inner.items() for words in commands(each, *before, name)] if inner else [before]


@pytest.mark.parametrize("words", [(), ("datasets",), *commands(get_command(app))], ids=" ".join)
def test_help_fits_80_columns_and_has_an_example(words):
    page = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).stdout
    assert "…" not in page  # nothing is cut off
    assert "<bool>" not in page
    assert all(len(line) <= 80 for line in page.splitlines())
    assert not re.search(r"<(str|path|int|list)", page)
    assert words == ("datasets",) or f"Example: bispectral-ot {' '.join(words)}".strip() in " ".join(page.split())


def test_choices_are_readable_and_checked(program):
    page = CliRunner().invoke(app, ["match", "--help"], env={"COLUMNS": "80"}).stdout
    assert f"One of {', '.join(get_args(Symmetry))}." in " ".join(page.replace("│", " ").split())
    outcome = program("match", "digits", "digits", "--out", "x", "--symmetry", "rotatoin")
    assert "unknown symmetry 'rotatoin'; did you mean 'rotation'" in outcome.complaint


def test_info(show, program, monkeypatch, tmp_path):
    monkeypatch.setenv("BISPECTRAL_OT_CACHE", str(tmp_path / "cache"))
    text = show("info")
    for word in (bispectral_ot.__version__, "numpy", "threads", "BISPECTRAL_OT_CACHE"):
        assert word in text
    found = program("info", "--json").json
    assert found["cache"] == str(tmp_path / "cache")
    assert found["threads"] >= 1


def test_datasets_are_listed_with_their_places_and_fetched_by_name(show, program):
    text = show("datasets", "list")
    for word in ("fashion-mnist", "kmnist", "emnist-letters", "mnist-5k", "digits", "124,800", "to fetch"):
        assert word in text
    assert "did you mean 'mnist'" in program("datasets", "fetch", "digits", "mnits").complaint
    assert "nothing to fetch" in show("datasets", "fetch", "digits")
    assert {"mnist", "digits"} <= {each["name"] for each in program("datasets", "list", "--json").json}
    text = show("datasets", "show", "digits")
    assert all(word in text for word in ("1,797", "8x8", "uint8, 0 to 16", "178"))


def test_a_dataset_is_summarized(show, program, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, size, mode in (("a", (40, 30), "L"), ("b", (80, 90), "RGB")):
        Image.new(mode, size, {"RGB": "red"}.get(mode, 0)).save(folder / f"{name}.png")
    text = show("datasets", "show", folder)
    assert all(words in text for words in ("90x90x3", "no labels"))
    assert program("datasets", "show", folder, "--json").json["images"] == 2
