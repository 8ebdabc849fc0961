"""A damaged run: the page is made of what is whole, and every damaged file is named."""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.report.html import write_report
from report_runs import blobs, make_run, page_content

THREE = ("a", "b", "c")


@pytest.fixture
def damaged_run(tmp_path: Path) -> Path:
    run = make_run(tmp_path / "run", blobs(6, THREE, seed=0), blobs(6, THREE, seed=1), "whole", "broken")
    (run / "table.md").write_text("# Title\n")
    (run / "results.json").write_text('{"warnings": ["one"]}')
    return run


def change(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change the content of a report-data.npz, which stays an archive that can be read."""
    with np.load(path) as arrays:
        parts = dict(arrays)
    content = json.loads(parts["content"].tobytes())
    parts["content"] = np.frombuffer(json.dumps(edit(content)).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, **parts)
    path.write_bytes(file.getvalue())


def drop(*keys: str) -> Callable[[dict[str, Any]], Any]:
    def edit(content: dict[str, Any]) -> dict[str, Any]:
        inner = content
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]
        return content

    return edit


EDITS: list[Callable[[dict[str, Any]], Any]] = [
    lambda content: [],
    lambda content: content | {"flow": 3},
    lambda content: content | {"sources": content["sources"] | {"index": [1]}},
    lambda content: content | {"sources": content["sources"] | {"matches": [[99]] * 6}},
    lambda content: content | {"targets": content["targets"] | {"label": "abc"}},
    lambda content: content | {"map": {"sources": []}},
    lambda content: content | {"facts": content["facts"] | {"marginal_error": "small"}},
    drop("title"),
    drop("facts", "seconds"),
    drop("facts", "source", "name"),
    drop("sources", "shares"),
]


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_one_damaged_match_is_left_out_and_named(damaged_run: Path, number: int):
    path = damaged_run / "broken" / "report-data.npz"
    change(path, EDITS[number])
    with pytest.warns(DataWarning, match=r"broken/report-data\.npz is damaged.* The page is made without it"):
        (group,) = page_content(write_report(damaged_run))["groups"]
    assert [panel["title"] for panel in group["panels"]] == ["whole"]


def test_flipped_bits_in_the_data_of_a_page(damaged_run: Path):
    path = damaged_run / "broken" / "report-data.npz"
    whole, random = path.read_bytes(), np.random.default_rng(5)
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole))] ^= 1 << random.integers(8)
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            panels = page_content(write_report(damaged_run))["groups"][0]["panels"]
        assert "whole" in [panel["title"] for panel in panels]


def test_where_nothing_is_left_the_error_says_what_can_be_saved(tmp_path: Path):
    (tmp_path / "report-data.npz").write_bytes(b"no archive")
    with (
        pytest.warns(DataWarning),
        pytest.raises(InputError, match=r"results\.json, tables and figures .* not affected"),
    ):
        write_report(tmp_path)


@pytest.mark.parametrize("name", ["run.json", "results.json", "table.md"])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\xfd", b"[1]", None])
def test_damaged_text_files_are_left_out_and_named(damaged_run: Path, name: str, content: bytes | None):
    path = damaged_run / name
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    if name == "table.md" and content in (b"", b"{", b"[1]"):
        assert page_content(write_report(damaged_run))["tables"]  # text of any kind
        return
    with pytest.warns(DataWarning, match=f"{path.name} is damaged"):
        assert page_content(write_report(damaged_run))["groups"]


@pytest.mark.parametrize(
    "record",
    [
        {"config": [], "machine": 3, "wall_seconds": "long"},
        {"config": {"verb": 3}, "wall_seconds": 1, "peak_memory_bytes": "much"},
        {"date": [], "bispectral_ot": None},
    ],
)
def test_wrong_types_in_the_record(damaged_run: Path, record: dict[str, Any]):
    (damaged_run / "run.json").write_text(json.dumps(record))
    (damaged_run / "results.json").write_text('{"warnings": "one"}')
    assert page_content(write_report(damaged_run))["warnings"] == []


def test_folders_in_the_place_of_files(tmp_path: Path):
    run = tmp_path / "study"
    (run / "figures" / "a.png").mkdir(parents=True)
    (run / "figures" / os.fsdecode(b"caf\xe9.png")).write_bytes(b"picture")
    (run / "table.md").write_text("words")
    with pytest.warns(DataWarning, match=r"a\.png is damaged"):
        content = page_content(write_report(run))
    assert len(content["figures"]) == 1
    (run / "report.html").unlink()
    (run / "report.html").mkdir()
    with pytest.raises(InputError, match=r"report\.html is a folder"):
        write_report(run)
