"""A run appears whole or not at all."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bispectral_ot import InputError, RunExistsError
from bispectral_ot.errors import RunKeptError
from bispectral_ot.files import write_json
from bispectral_ot.runs import check_free, new_run


def make_run(folder: Path, content: str, *, verb: str = "match", during=lambda: None, **options) -> None:
    with new_run(folder, verb=verb, **options) as partial:
        (partial / "figures").mkdir()
        (partial / "figures" / "a.png").write_text(content)
        write_json(partial / "run.json", {"config": {"verb": verb}, "content": content})
        during()


def content(folder: Path) -> str:
    return json.loads((folder / "run.json").read_text())["content"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_is_not_there_until_it_is_whole(tmp_path):
    folder = tmp_path / "deep" / "run"
    make_run(folder, "a", during=lambda: None if not folder.exists() else pytest.fail("too early"))
    assert names(tmp_path / "deep") == ["run"]
    assert json.loads((folder / "run.json").read_text())["files"] == ["figures/a.png", "run.json"]
    (tmp_path / "plain").mkdir()  # rights are those of any new folder
    assert folder.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_nothing(tmp_path, error):
    def stop() -> None:
        raise error

    with pytest.raises(error):
        make_run(tmp_path / "run", "", during=stop)
    assert names(tmp_path) == []


def test_what_a_killed_run_has_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    killed = f"with new_run({str(tmp_path / 'run')!r}, verb='match'): os.kill(os.getpid(), 9)"
    code = f"import os; from bispectral_ot.runs import new_run\n{killed}"
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9

    def begin_another() -> None:
        (mine,) = tmp_path.iterdir()
        os.utime(mine, (0, 0))
        make_run(tmp_path / "run", "first")

    os.utime(next(tmp_path.iterdir()), (0, 0))  # killed some time ago
    with pytest.raises(RunKeptError):
        make_run(tmp_path / "run", "second", during=begin_another)
    assert [content(tmp_path / name) for name in names(tmp_path)] == ["first", "second"]


def test_overwriting_replaces_the_whole_run(tmp_path):
    (tmp_path / "run").mkdir()  # an empty folder may be used
    make_run(tmp_path / "run", "old")
    (tmp_path / "run" / "report.html").write_text("")  # written later, by the verb report
    with pytest.raises(RunExistsError, match="--overwrite"):
        make_run(tmp_path / "run", "new")
    (tmp_path / "link").symlink_to("run")
    make_run(tmp_path / "link", "new", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "run") == ["figures", "run.json"]
    assert content(tmp_path / "run") == "new"
    assert names(tmp_path) == ["link", "run"]


def test_the_old_run_comes_back_when_the_last_step_fails(tmp_path, monkeypatch):
    make_run(tmp_path / "run", "old")
    rename = os.rename

    def fail(path, target) -> None:
        if "-partial-" in str(path):
            raise KeyboardInterrupt
        rename(path, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(KeyboardInterrupt):
        make_run(tmp_path / "run", "new", overwrite=True)
    assert names(tmp_path) == ["run"]
    assert content(tmp_path / "run") == "old"


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_appears_during_a_run_stays_and_the_run_is_kept_under_another_name(tmp_path, overwrite):
    def appear() -> None:
        make_run(tmp_path / "run", "first")
        (tmp_path / "run-2").mkdir()  # taken as well

    with pytest.raises(RunKeptError, match=r"kept at .*run-3") as raised:
        make_run(tmp_path / "run", "second", overwrite=overwrite, during=appear)
    assert raised.value.folder == tmp_path / "run-3"
    assert [content(tmp_path / name) for name in ("run", "run-3")] == ["first", "second"]
    assert names(tmp_path) == ["run", "run-2", "run-3"]


@pytest.mark.parametrize("change", ["another run", "a file added", "a file in its place"])
def test_overwriting_replaces_only_the_run_that_was_there_at_the_start(tmp_path, change):
    make_run(tmp_path / "run", "old")

    def appear() -> None:
        if change == "another run":
            make_run(tmp_path / "run", "first", overwrite=True)
        elif change == "a file added":
            (tmp_path / "run" / "notes.txt").write_text("mine")
        else:
            shutil.rmtree(tmp_path / "run")
            (tmp_path / "run").write_text("mine")

    with pytest.raises(RunKeptError):
        make_run(tmp_path / "run", "second", overwrite=True, during=appear)
    if change == "a file in its place":
        assert (tmp_path / "run").read_text() == "mine"
    else:
        assert content(tmp_path / "run") == ("first" if change == "another run" else "old")
    assert content(tmp_path / "run-2") == "second"
    assert names(tmp_path) == ["run", "run-2"]


def test_what_the_verb_did_not_write_is_never_deleted(tmp_path, monkeypatch):
    def refused(folder: Path, words: str, **options) -> None:
        with pytest.raises(RunExistsError, match=words):
            check_free(folder, **{"verb": "match", "overwrite": True, **options})

    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_text("")
    refused(tmp_path / "photos", "not a run")
    refused(tmp_path / "photos" / "a.png", "is a file")
    make_run(tmp_path / "run", "")
    assert check_free(tmp_path / "run", verb="match", overwrite=True)
    refused(tmp_path / "run", "a run of 'match', not of 'demo'", verb="demo")
    refused(tmp_path / "run", "the input .*a.png is inside", inputs=[None, tmp_path / "run" / "figures" / "a.png"])
    refused(tmp_path / "run", "the input .*run is inside", inputs=["mnist", tmp_path / "run"])
    for name in ("figures/mine.png", ".hidden", "empty"):
        (tmp_path / "run" / name).write_text("") if "." in name else (tmp_path / "run" / name).mkdir()
        refused(tmp_path / "run", f"contains {name}, which")
        (tmp_path / "run" / name).unlink() if "." in name else (tmp_path / "run" / name).rmdir()
    (tmp_path / "run" / "link").symlink_to(tmp_path / "photos")
    refused(tmp_path / "run", "contains link, which")
    for damaged in ("", "[]", '{"config": 3}', '{"config": {"verb": ["match"]}}', "[" * 100_000):
        (tmp_path / "run" / "run.json").write_text(damaged)
        refused(tmp_path / "run", "no valid run.json")
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "run")
    refused(tmp_path / "run", "is a mount point")
    monkeypatch.chdir(tmp_path / "photos")
    refused(Path("."), "current folder")
    with pytest.raises(InputError, match="cannot write to"):
        make_run(tmp_path / "photos" / "a.png" / "run", "")
