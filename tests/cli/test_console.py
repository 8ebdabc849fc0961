from __future__ import annotations

import io
import warnings

import pytest
from rich.console import Console

from bispectral_ot.cli import console
from bispectral_ot.errors import DataWarning, NotConvergedWarning
from bispectral_ot.progress import silent


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a user at a terminal would see on standard error."""
    text = io.StringIO()
    monkeypatch.setattr(console, "errors", Console(file=text, force_terminal=True, width=100, highlight=False))
    return text


def test_warnings_of_ours_are_shown_once_and_others_never(capsys):
    before = warnings.showwarning
    with console.shown_warnings() as told:
        for _ in range(3):
            warnings.warn("2 images are [blank]", DataWarning, stacklevel=1)
        warnings.warn("not converged", NotConvergedWarning, stacklevel=1)
        warnings.warn("somebody else's", FutureWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: 2 images are [blank]\nwarning: not converged\n"
    assert told == ["2 images are [blank]", "not converged"]
    assert warnings.showwarning is before


def test_long_messages_stay_on_one_line(capsys):
    console.complain("error", "word " * 100)
    console.say("path/" * 100)
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert shown.out == "path/" * 100 + "\n"


def test_no_bars_off_a_terminal_or_when_quiet(terminal, capsys):
    with console.progress_bars(quiet=True) as progress:
        assert progress is silent
    assert terminal.getvalue() == ""


def test_a_line_for_each_stage_where_standard_error_is_a_file(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(console, "errors", Console(file=text, width=20, highlight=False))
    with console.progress_bars() as progress:
        for done in range(3):
            progress("read [bold] " + "long " * 5, done, 2000)
        progress("prepare", 0, 1)
        progress("prepare", 1, 1)
    assert text.getvalue() == f"stage: read [bold] {'long ' * 5} (2,000)\nstage: prepare\n"
    with console.progress_bars(quiet=True) as progress:
        assert progress is silent


def test_one_bar_for_each_stage_with_the_time_left(terminal):
    with console.progress_bars() as progress:
        progress("features", 3, 10)
        progress("features", 10, 10)
        progress("features", 2, 20)  # the other side: the same bar starts again
        progress("features", 20, 20)
        progress("transport", 0, 0)  # no end in sight
    shown = terminal.getvalue()
    assert "features" in shown
    assert "100%" in shown
    assert "so far" in shown
    assert "✓" in shown


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0:00"), (75.0, "1:15"), (3725.0, "1:02:05")])
def test_clock(seconds: float, text: str):
    assert console._clock(seconds) == text
