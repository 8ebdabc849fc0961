from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from bispectral_ot.cli.inspect_commands import datasets as app
from bispectral_ot.errors import InputError


@pytest.fixture(autouse=True)
def no_machine_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this machine's data folder nor its cache may decide a test."""
    for variable in ("BISPECTRAL_OT_DATA", "BISPECTRAL_OT_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name, **_: str(tmp_path / "cache" / name))


def run(*words: str) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_all_sets_and_their_places(tmp_path: Path):
    text = run("list")
    for word in (
        "mnist",
        "fashion-mnist",
        "kmnist",
        "emnist-letters",
        "mnist-5k",
        "digits",
        "124,800",
        "to fetch",
    ):
        assert word in text


@pytest.mark.parametrize("verb", ["list", "fetch", "show"])
def test_help_has_an_example(verb: str):
    assert f"Example: bispectral-ot datasets {verb}" in " ".join(run(verb, "--help").split())


def test_fetch_checks_all_names_first():
    with pytest.raises(InputError, match="did you mean 'mnist'"):
        run("fetch", "digits", "mnits")
    assert "nothing to fetch" in run("fetch", "digits")


def test_show_counts_and_draws(tmp_path: Path):
    out = tmp_path / "sheets" / "digits.png"
    text = run("show", "digits", "--out", str(out), "--per-class", "4")
    for word in ("1,797", "8x8", "uint8, 0 to 16", "178"):
        assert word in text
    with Image.open(out) as sheet:
        assert np.asarray(sheet.convert("L")).std() > 10
    assert [path.name for path in out.parent.iterdir()] == ["digits.png"]


@pytest.mark.parametrize("channels", [(), (2,), (3,)])
def test_show_without_labels_in_grey_and_colour(tmp_path: Path, channels: tuple[int, ...]):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(5, 9, 7, *channels)))
    text = run("show", str(tmp_path / "a.npy"), "--resize", "12x10", "--out", str(tmp_path / "a.png"))
    assert "no labels" in text
    assert "12x10" in text
    assert (tmp_path / "a.png").exists()


def test_show_lists_at_most_sixty_classes(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.zeros((70, 2, 2)), y=np.arange(70))
    assert "and 10 more classes" in run("show", str(tmp_path / "a.npz"), "--out", str(tmp_path / "a.png"))


def test_show_refuses_other_pictures_and_places_it_cannot_write(tmp_path: Path):
    with pytest.raises(InputError, match=r"does not end with \.png"):
        run("show", "digits", "--out", "sheet.pdf")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        run("show", "digits", "--out", str(tmp_path / "file" / "a.png"))


def test_show_gives_ranges_of_sizes_and_modes(tmp_path: Path):
    for name, size, mode in (("a", (40, 30), "L"), ("b", (80, 90), "RGB"), ("c", (60, 50), "RGB")):
        Image.new(mode, size).save(tmp_path / f"{name}.png")
    text = " ".join(run("show", str(tmp_path)).split())
    assert "30 x 40 to 90 x 80, read at 90x90x3" in text
    assert "2 colour, 1 grey" in text
    assert "read at 20x20x3" in " ".join(run("show", str(tmp_path), "--resize", "20").split())
