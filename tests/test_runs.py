"""A run appears whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bispectral_ot import DataWarning, InputError, RunExistsError
from bispectral_ot.errors import RunKeptError
from bispectral_ot.files import to_json, write_json
from bispectral_ot.runs import check_free, check_resumable, new_run, provenance, resumed_run, run_record


def make_run(folder: Path, content: str, *, verb: str = "match", **options) -> None:
    with new_run(folder, verb=verb, **options) as partial:
        (partial / "figures").mkdir()
        (partial / "figures" / "a.png").write_text(content)
        write_json(partial / "run.json", {"config": {"verb": verb}, "content": content})


def content(folder: Path) -> str:
    return json.loads((folder / "run.json").read_text())["content"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_is_not_there_until_it_is_whole(tmp_path):
    with new_run(tmp_path / "deep" / "run", verb="match") as partial:
        (partial / "a.txt").write_text("a")
        assert partial.name.startswith(".run-partial-")
        assert not (tmp_path / "deep" / "run").exists()
    assert names(tmp_path / "deep") == ["run"]
    assert (tmp_path / "deep" / "run" / "a.txt").read_text() == "a"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_an_error_leaves_nothing(tmp_path, error):
    def break_off() -> None:
        with new_run(tmp_path / "run", verb="match") as partial:
            (partial / "a.txt").write_text("a")
            raise error

    with pytest.raises(error):
        break_off()
    assert names(tmp_path) == []


def test_a_new_run_has_the_rights_of_any_new_folder(tmp_path):
    make_run(tmp_path / "run", "")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "file").write_text("")
    assert (tmp_path / "run").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "run" / "run.json").stat().st_mode == (tmp_path / "plain" / "file").stat().st_mode


def test_a_run_lists_its_files(tmp_path):
    make_run(tmp_path / "run", "")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["files"] == ["figures/a.png", "run.json"]


def test_overwriting_replaces_the_whole_run(tmp_path):
    make_run(tmp_path / "run", "old")
    (tmp_path / "run" / "report.html").write_text("")  # written later, by the verb report
    with pytest.raises(RunExistsError, match="--overwrite"):
        make_run(tmp_path / "run", "new")
    make_run(tmp_path / "run", "new", overwrite=True)
    assert names(tmp_path / "run") == ["figures", "run.json"]
    assert content(tmp_path / "run") == "new"
    assert names(tmp_path) == ["run"]


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


def test_an_empty_folder_may_be_used(tmp_path):
    (tmp_path / "run").mkdir()
    make_run(tmp_path / "run", "new")
    assert content(tmp_path / "run") == "new"


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_appears_during_a_run_stays_and_the_run_is_kept_under_another_name(tmp_path, overwrite):
    def work() -> None:
        with new_run(tmp_path / "run", verb="match", overwrite=overwrite) as partial:
            write_json(partial / "run.json", {"config": {"verb": "match"}, "content": "second"})
            make_run(tmp_path / "run", "first")
            (tmp_path / "run-2").mkdir()  # taken as well

    with pytest.raises(RunKeptError, match=r"kept at .*run-3") as raised:
        work()
    assert raised.value.folder == tmp_path / "run-3"
    assert content(tmp_path / "run") == "first"
    assert content(tmp_path / "run-3") == "second"
    assert names(tmp_path) == ["run", "run-2", "run-3"]


def test_a_file_that_appears_during_a_run_stays(tmp_path):
    def work() -> None:
        with new_run(tmp_path / "run", verb="match") as partial:
            (partial / "a.txt").write_text("result")
            (tmp_path / "run").write_text("mine")

    with pytest.raises(RunKeptError):
        work()
    assert (tmp_path / "run").read_text() == "mine"
    assert (tmp_path / "run-2" / "a.txt").read_text() == "result"


@pytest.mark.parametrize("change", ["another run", "a file added", "deleted"])
def test_overwriting_replaces_only_the_run_that_was_there_at_the_start(tmp_path, change):
    make_run(tmp_path / "run", "old")

    def work() -> None:
        with new_run(tmp_path / "run", verb="match", overwrite=True) as partial:
            write_json(partial / "run.json", {"config": {"verb": "match"}, "content": "second"})
            if change == "another run":
                make_run(tmp_path / "run", "first", overwrite=True)
            elif change == "a file added":
                (tmp_path / "run" / "notes.txt").write_text("mine")
            else:
                shutil.rmtree(tmp_path / "run")

    if change == "deleted":
        work()
        assert content(tmp_path / "run") == "second"
        return
    with pytest.raises(RunKeptError):
        work()
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
    for name in ("figures/mine.png", "notes.txt", ".hidden", "empty"):
        (tmp_path / "run" / name).write_text("") if "." in name else (tmp_path / "run" / name).mkdir()
        refused(tmp_path / "run", f"contains {name}, which")
        (tmp_path / "run" / name).unlink() if "." in name else (tmp_path / "run" / name).rmdir()
    (tmp_path / "run" / "link").symlink_to(tmp_path / "photos")
    refused(tmp_path / "run", "contains link, which")
    for damaged in ("", "{", "[]", '{"config": 3}', '{"config": {"verb": ["match"]}}'):
        (tmp_path / "run" / "run.json").write_text(damaged)
        refused(tmp_path / "run", "no valid run.json")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    refused(Path("."), "current folder")


def test_a_mount_point_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "volume").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "volume")
    with pytest.raises(RunExistsError, match="is a mount point"):
        check_free(tmp_path / "volume", verb="match")


def test_a_link_to_a_run_stays_a_link(tmp_path):
    make_run(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to("real")
    make_run(tmp_path / "link", "new", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "real") == "new"
    assert names(tmp_path) == ["link", "real"]


def test_what_a_killed_run_left_is_removed_by_the_next_one(tmp_path):
    program = (
        "import os, signal, sys; from bispectral_ot.runs import new_run\n"
        "with new_run(sys.argv[1], verb='match') as partial:\n"
        "    (partial / 'large').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "run"])
    (left,) = names(tmp_path)
    assert left.startswith(".run-partial-")
    for mine in (".run-partial-notes", ".other-partial-0123456789abcdef"):
        (tmp_path / mine).mkdir()
    with new_run(tmp_path / "run", verb="match") as first:
        make_run(tmp_path / "run", "second")
        assert first.is_dir()  # in use, so it stays
        shutil.rmtree(tmp_path / "run")
    assert names(tmp_path) == [".other-partial-0123456789abcdef", ".run-partial-notes", "run"]


def test_a_run_that_was_being_replaced_when_the_process_was_killed_comes_back(tmp_path):
    make_run(tmp_path / "run", "old")
    hidden = tmp_path / ".run-replaced-0123456789abcdef"
    (tmp_path / "run").rename(hidden)
    with pytest.raises(RunExistsError, match="--overwrite"):
        make_run(tmp_path / "run", "new")
    assert content(tmp_path / "run") == "old"
    shutil.copytree(tmp_path / "run", hidden)  # killed after the new one was in its place
    make_run(tmp_path / "other", "")
    make_run(tmp_path / "run", "new", overwrite=True)
    assert names(tmp_path) == ["other", "run"]


def test_a_place_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"), new_run(tmp_path / "file" / "run", verb="match"):
        pass


def test_a_record_tells_config_versions_and_machine():
    record = run_record({"seed": 3}, seconds=1.5)
    assert record["config"] == {"seed": 3}
    assert record["wall_seconds"] == 1.5
    assert record["peak_memory_bytes"] > 10**6
    assert {"numpy", "scipy", "numba", "scikit-learn", "POT"} == set(record["libraries"])
    assert record["machine"]["cores"] >= 1
    assert json.loads(to_json(provenance()))["date"].endswith("+00:00")


def fill(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("{}") if "." in name else (folder / name).mkdir()
    return folder


def test_a_run_that_goes_on_knows_its_own_folder(tmp_path):
    def check(folder: Path) -> None:
        check_resumable(folder, verb="study x", outputs=("cells", "results.json"))

    check(tmp_path / "new")
    check(fill(tmp_path / "empty", ".hidden"))
    check(fill(tmp_path / "older", "cells", "results.json"))  # before there was a run.json
    with resumed_run(tmp_path / "own", {"verb": "study x"}):
        (tmp_path / "own" / "notes.txt").write_text("")
    check(tmp_path / "own")
    for name, files, words in (
        ("photos", ("a.png", "cells"), r"contains a\.png, and no run\.json"),
        ("results", ("results.json",), r"contains results\.json"),
        ("unknown", ("run.json", "results.json"), r"its run\.json is damaged"),
    ):
        with pytest.raises(RunExistsError, match=f"{words}.*choose another --out"):
            check(fill(tmp_path / name, *files))
    with resumed_run(tmp_path / "other", {"verb": "match"}):
        pass
    with pytest.raises(RunExistsError, match="is a run of 'match', not of 'study x'"):
        check(tmp_path / "other")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunExistsError, match="is a file"):
        check(tmp_path / "file")


def test_a_damaged_record_does_not_lock_the_cells_away(tmp_path):
    for number, damaged in enumerate((b"", b"{", b"[1]", b"\xff\xfe")):
        folder = fill(tmp_path / str(number), "cells", "results.json")
        (folder / "run.json").write_bytes(damaged)
        with pytest.warns(DataWarning, match="run.json is damaged and is written again; the cells in .* are used"):
            check_resumable(folder, verb="study x", outputs=("cells", "results.json"))
    folder = fill(tmp_path / "folder", "cells")
    (folder / "run.json").mkdir()
    with pytest.raises(RunExistsError, match=r"run\.json is a folder"):
        check_resumable(folder, verb="study x", outputs=("cells",))


def test_a_run_that_goes_on_is_recorded_from_its_start_also_if_it_is_stopped(tmp_path):
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
    assert {"peak_memory_bytes", "libraries", "machine", "date"} <= recorded().keys()
