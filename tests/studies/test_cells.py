"""A study's folder, damaged in all ways: the file is named before any work is done, and what is whole stays usable."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bispectral_ot.errors import InputError, RunExistsError
from studies import Preset, run_class_preservation


def run(out: Path, report: Callable[[dict[str, Any]], None] = lambda cell: None) -> list[dict[str, Any]]:
    return run_class_preservation(
        ["digits"],
        out,
        features=["pixels"],
        metrics=["l1", "l2"],
        settings=["baseline"],
        preset=Preset(per_class=2),
        report=report,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "run"
    run(folder)
    return folder


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def with_entry(key: str, value: Any) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(json.loads(content) | {key: value}).encode()


def without_entry(key: str) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps({k: v for k, v in json.loads(content).items() if k != key}).encode()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: b"", "Expecting value"),
        (lambda content: content[:100], "damaged"),
        (lambda content: b"\xff\xfe", "utf-8"),
        (lambda content: b"[]", "it is list"),
        (lambda content: b"[" * 100_000, "damaged"),
        (without_entry("accuracy"), "has no 'accuracy'"),
        (with_entry("accuracy", "high"), "'accuracy' is str"),
        (with_entry("converged", 1), "'converged' is int"),
        (without_entry("config"), "has no 'config'"),
        (with_entry("config", {"dataset": "digits"}), "'config' has no 'setting'"),
        (with_entry("config", "none"), "'config' is str"),
        (with_entry("seconds", None), "'seconds' is NoneType"),
    ],
)
def test_a_damaged_cell_is_named_before_any_work(study: Path, damage: Callable[[bytes], bytes], words: str):
    path = study / "cells" / "digits-baseline-pixels-l1.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=words) as raised:
        run(study)
    assert str(path) in str(raised.value)
    assert "the other cells are kept" in str(raised.value)
    path.unlink()
    computed: list[str] = []
    run(study, report=lambda cell: computed.append(cell["metric"]))
    assert computed == ["l1"]


def test_a_foreign_cell_is_named(study: Path):
    cells = study / "cells"
    shutil.copy(cells / "digits-baseline-pixels-l1.json", cells / "notes.json")
    with pytest.raises(InputError, match=r"notes\.json is damaged, or not a cell of 'study class-preservation'"):
        run(study)


@pytest.mark.parametrize(
    "name", ["cells", "results.json", "table2.md", "figures", "cells/digits-baseline-pixels-l2.json", "run.json"]
)
def test_folders_in_the_place_of_files_and_files_in_that_of_folders_are_named(study: Path, name: str):
    path = study / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("")
    else:
        path.unlink()
        path.mkdir()
    with pytest.raises((RunExistsError, InputError), match=path.name):
        run(study)


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"\xff", b'{"config": []}'])
def test_a_damaged_record_does_not_lock_hours_of_cells_away(study: Path, content: bytes):
    (study / "run.json").write_bytes(content)
    cells = run(study, report=lambda cell: pytest.fail("computed again"))
    assert len(cells) == 2
    assert json.loads((study / "run.json").read_text())["config"]["verb"] == "study class-preservation"
