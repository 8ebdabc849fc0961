"""A run appears whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from bispectral_ot import InputError, RunExistsError
from bispectral_ot.runs import (
    check_free,
    check_resumable,
    new_run,
    provenance,
    resumed_run,
    run_record,
    to_json,
    whole_file,
    write_csv,
    write_json,
)


def make_run(folder: Path, content: str, **options: bool) -> None:
    with new_run(folder, **options) as partial:
        (partial / "run.json").write_text(content)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_is_not_there_until_it_is_whole(tmp_path):
    with new_run(tmp_path / "deep" / "run") as partial:
        (partial / "a.txt").write_text("a")
        assert partial.name.startswith(".run-partial-")
        assert not (tmp_path / "deep" / "run").exists()
    assert names(tmp_path / "deep") == ["run"]
    assert (tmp_path / "deep" / "run" / "a.txt").read_text() == "a"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_an_error_leaves_nothing(tmp_path, error):
    def break_off() -> None:
        with new_run(tmp_path / "run") as partial:
            (partial / "a.txt").write_text("a")
            raise error

    with pytest.raises(error):
        break_off()
    assert names(tmp_path) == []


def test_a_new_run_has_the_rights_of_any_new_folder(tmp_path):
    make_run(tmp_path / "run", "")
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "run").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_overwriting_replaces_the_whole_run(tmp_path):
    make_run(tmp_path / "run", "old")
    (tmp_path / "run" / "extra.txt").write_text("")
    with pytest.raises(RunExistsError, match="--overwrite"):
        make_run(tmp_path / "run", "new")
    make_run(tmp_path / "run", "new", overwrite=True)
    assert names(tmp_path / "run") == ["run.json"]
    assert (tmp_path / "run" / "run.json").read_text() == "new"
    assert names(tmp_path) == ["run"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_the_old_run_comes_back_when_the_last_step_fails(tmp_path, monkeypatch, error):
    make_run(tmp_path / "run", "old")
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if "-partial-" in path.name:
            raise error
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(error):
        make_run(tmp_path / "run", "new", overwrite=True)
    assert names(tmp_path) == ["run"]
    assert (tmp_path / "run" / "run.json").read_text() == "old"


def test_an_empty_folder_may_be_used(tmp_path):
    (tmp_path / "run").mkdir()
    make_run(tmp_path / "run", "new")
    assert names(tmp_path / "run") == ["run.json"]


def test_what_is_not_a_run_is_never_deleted(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_text("")
    with pytest.raises(RunExistsError, match="not a run"):
        check_free(tmp_path / "photos", overwrite=True)
    with pytest.raises(RunExistsError, match="is a file"):
        check_free(tmp_path / "photos" / "a.png", overwrite=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(RunExistsError, match="current folder"):
        check_free(".")


def test_a_link_to_a_run_stays_a_link(tmp_path):
    make_run(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to("real")
    make_run(tmp_path / "link", "new", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "run.json").read_text() == "new"
    assert names(tmp_path) == ["link", "real"]


def test_a_place_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"), new_run(tmp_path / "file" / "run"):
        pass


def test_files_are_replaced_whole(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})

    def break_off() -> None:
        with whole_file(tmp_path / "a.json") as partial:
            partial.write_text("half")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        break_off()
    assert names(tmp_path) == ["a.json"]
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}


def test_json_understands_numpy_and_stays_json():
    data = {
        "count": np.int64(3),
        "share": np.float32(0.5),
        "nothing": float("nan"),
        "none": np.inf,
        "flag": np.bool_(True),
        "array": np.arange(3),
        "path": Path("a/b"),
        7: ("é", None),
    }
    assert json.loads(to_json(data)) == {
        "count": 3,
        "share": 0.5,
        "nothing": None,
        "none": None,
        "flag": True,
        "array": [0, 1, 2],
        "path": "a/b",
        "7": ["é", None],
    }


def test_rows_of_numbers_stay_on_one_line_and_float32_has_its_own_digits():
    data = {"x": np.array([[0.1, 2], [np.nan, -3e-20]], dtype=np.float32), "y": [], "z": ["[  1,\n 2]"], "w": [True]}
    text = to_json(data)
    assert "[\n    [0.1, 2.0],\n    [null, -3e-20]\n  ]" in text
    assert json.loads(text) == {"x": [[0.1, 2.0], [None, -3e-20]], "y": [], "z": ["[  1,\n 2]"], "w": [True]}


def test_csv_brings_every_text_back(tmp_path):
    rows = [['a "b", c', "größe 漢"], ["two\nlines", "=1+1"]]
    write_csv(tmp_path / "a.csv", ["x,y", "z"], rows)
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["x,y", "z"], *rows]


def test_file_names_that_are_no_text_can_be_written(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    write_json(tmp_path / "a.json", {"file": name})
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == {"file": name}
    write_csv(tmp_path / "a.csv", ["file"], [[name]])
    assert (tmp_path / "a.csv").read_text("utf-8") == "file\ncaf\\udce9.png\n"


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
        ("photos", ("a.png", "cells"), r"holds a\.png, and no run\.json"),
        ("results", ("results.json",), r"holds results\.json"),
        ("unknown", ("run.json", "results.json"), "holds another run"),
    ):
        with pytest.raises(RunExistsError, match=f"{words}.*choose another --out"):
            check(fill(tmp_path / name, *files))
    with resumed_run(tmp_path / "other", {"verb": "match"}):
        pass
    with pytest.raises(RunExistsError, match="holds a run of 'match', not of 'study x'"):
        check(tmp_path / "other")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunExistsError, match="is a file"):
        check(tmp_path / "file")


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
