import io
import warnings

from rich.console import Console

from bispectral_ot import runtime
from bispectral_ot.cli import console
from bispectral_ot.errors import DataWarning, NotConvergedWarning


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


def test_a_line_for_each_stage_where_standard_error_is_a_file(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(console, "errors", Console(file=text, width=20, highlight=False))
    with console.progress_bars():
        for done in range(3):
            runtime.progress("read [bold] " + "long " * 5, done, 2000)
        runtime.progress("prepare", 0, 1)
        runtime.progress("prepare", 1, 1)
    assert text.getvalue() == f"stage: read [bold] {'long ' * 5} (2,000)\nstage: prepare\n"
