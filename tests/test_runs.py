"""A run appears whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bispectral_ot import InputError, RunExistsError
from bispectral_ot.errors import RunKeptError
from bispectral_ot.files import to_json, write_json
from bispectral_ot.runs import check_free, check_resumable, new_run, provenance, resumed_run, run_record


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


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_an_error_leaves_nothing(tmp_path, error):
    def stop() -> None:
        raise error

    with pytest.raises(error):
        make_run(tmp_path / "run", "", during=stop)
    assert names(tmp_path) == []


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


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_the_old_run_comes_back_when_the_last_step_fails(tmp_path, monkeypatch, error):
    make_run(tmp_path / "run", "old")
    rename = os.rename

    def fail(path, target) -> None:
        if "-partial-" in str(path):
            raise error
        rename(path, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(error):
        make_run(tmp_path / "run", "new", overwrite=True)
    assert names(tmp_path) == ["run"]
    assert content(tmp_path / "run") == "old"


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    """As NFS is for folders; nothing there ever counts as left over."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", refuse)
    left = tmp_path / ".run-partial-0123456789abcdef"
    left.mkdir()
    make_run(tmp_path / "run", "old")
    make_run(tmp_path / "run", "new", overwrite=True)
    assert content(tmp_path / "run") == "new"
    assert names(tmp_path) == [left.name, "run"]


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


@pytest.mark.parametrize("change", ["another run", "a file added", "a file in its place", "deleted"])
def test_overwriting_replaces_only_the_run_that_was_there_at_the_start(tmp_path, change):
    make_run(tmp_path / "run", "old")

    def appear() -> None:
        if change == "another run":
            make_run(tmp_path / "run", "first", overwrite=True)
        elif change == "a file added":
            (tmp_path / "run" / "notes.txt").write_text("mine")
        else:
            shutil.rmtree(tmp_path / "run")
            if change == "a file in its place":
                (tmp_path / "run").write_text("mine")

    if change == "deleted":
        make_run(tmp_path / "run", "second", overwrite=True, during=appear)
        assert content(tmp_path / "run") == "second"
        return
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


def test_what_a_killed_run_left_is_removed_by_the_next_one(tmp_path):
    program = (
        "import os, signal, sys; from bispectral_ot.runs import new_run\n"
        "with new_run(sys.argv[1], verb='match') as partial:\n"
        "    (partial / 'large').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "run"])
    (left,) = names(tmp_path)
    assert left.startswith(".run-partial-")
    time.sleep(0.3)
    for mine in (".run-partial-notes", ".other-partial-0123456789abcdef"):
        (tmp_path / mine).mkdir()
    with new_run(tmp_path / "run", verb="match") as first:
        make_run(tmp_path / "run", "second")
        assert first.is_dir()  # in use, so it stays
        shutil.rmtree(tmp_path / "run")
    assert names(tmp_path) == [".other-partial-0123456789abcdef", ".run-partial-notes", "run"]


def test_a_record_has_config_versions_and_machine():
    record = run_record({"seed": 3}, seconds=1.5)
    assert (record["config"], record["wall_seconds"]) == ({"seed": 3}, 1.5)
    assert record["peak_memory_bytes"] > 10**6
    assert {"numpy", "scipy", "numba", "scikit-learn", "POT"} == set(record["libraries"])
    assert json.loads(to_json(provenance()))["date"].endswith("+00:00")


def fill(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("{}") if "." in name else (folder / name).mkdir()
    return folder


def test_a_resumed_run_recognizes_its_own_folder(tmp_path):
    def check(folder: Path) -> None:
        check_resumable(folder, verb="study x", outputs=("cells", "results.json"))

    check(tmp_path / "new")
    check(fill(tmp_path / "empty", ".hidden"))
    check(fill(tmp_path / "older", "cells", "results.json"))
    (tmp_path / "older" / "run.json").write_bytes(b"\xff\xfe")  # damaged: the cells stay usable
    check(tmp_path / "older")
    with resumed_run(tmp_path / "own", {"verb": "study x"}):
        (tmp_path / "own" / "notes.txt").write_text("")
    check(tmp_path / "own")
    for name, files in (("photos", ("a.png", "cells")), ("results", ("results.json",)), ("unknown", ("run.json",))):
        with pytest.raises(RunExistsError, match=r"and no valid run\.json; choose another --out"):
            check(fill(tmp_path / name, *files))
    with resumed_run(tmp_path / "other", {"verb": "match"}):
        pass
    with pytest.raises(RunExistsError, match="is a run of 'match', not of 'study x'"):
        check(tmp_path / "other")
    with pytest.raises(RunExistsError, match="is a file"):
        check(tmp_path / "own" / "notes.txt")


def test_a_resumed_run_is_recorded_from_its_start_also_if_it_is_stopped(tmp_path):
    def recorded() -> dict:
        return json.loads((tmp_path / "run" / "run.json").read_text())

    def stop() -> None:
        with resumed_run(tmp_path / "run", {"verb": "study x", "seed": 3}):
            assert recorded()["wall_seconds"] == 0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert recorded()["wall_seconds"] > 0
    assert recorded()["config"] == {"verb": "study x", "seed": 3}
