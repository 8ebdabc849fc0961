"""The page as a file: what it holds, that it is safe, and that it stays small."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import bispectral_ot as bot
from bispectral_ot.cli.main import app
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.report.html import embed_json, read_markdown, write_report
from report_runs import HOSTILE, blobs, make_run, page_content

THREE = ("a", "b", "c")


@pytest.mark.parametrize("text", [*HOSTILE, "<!--", "]]>", "\udc80"])
def test_embedded_json_has_no_markup_and_reads_back(text: str) -> None:
    embedded = embed_json({text: [text]})
    assert not set(embedded) & set("<>&\u2028\u2029")
    assert json.loads(embedded) == {text: [text]}


def test_page_is_one_file_that_fetches_nothing(tmp_path: Path) -> None:
    path = write_report(make_run(tmp_path / "run", blobs(12, THREE, seed=0), blobs(15, THREE, seed=1)))
    text = path.read_text("utf-8")
    assert "default-src 'none'" in text
    assert "{{" not in text.split('id="data"')[0]
    assert not re.search(r"<(link|iframe|img|script)[^>]+(src|href)=", text.split('id="data"')[0])


def test_hostile_class_names_are_data(tmp_path: Path) -> None:
    a, b = blobs(12, HOSTILE, seed=0), blobs(12, HOSTILE, seed=1)
    path = write_report(make_run(tmp_path / "run", a, b))
    assert "hacked=1</script>" not in path.read_text("utf-8")
    assert page_content(path)["groups"][0]["panels"][0]["flow"]["rows"] == list(HOSTILE)


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [((), (), (1, 1)), (THREE, (), (3, 1)), ((), THREE, (1, 3))],
)
def test_sides_without_labels(tmp_path: Path, source: tuple[str, ...], target: tuple[str, ...], shape: Any) -> None:
    run = make_run(tmp_path / "run", blobs(9, source, seed=0), blobs(12, target, seed=1))
    flow = page_content(write_report(run))["groups"][0]["panels"][0]["flow"]
    assert np.shape(flow["counts"]) == shape
    assert flow["labelled"] == {"source": bool(source), "target": bool(target)}
    assert np.sum(flow["counts"]) == 9


def test_colour_and_a_hundred_classes(tmp_path: Path) -> None:
    names = tuple(f"class {i}" for i in range(100))
    run = make_run(tmp_path / "run", blobs(200, names, seed=0, channels=3), blobs(200, names, seed=1, channels=3))
    path = write_report(run)
    assert np.shape(page_content(path)["groups"][0]["panels"][0]["flow"]["counts"]) == (100, 100)
    assert path.stat().st_size < 10_000_000


def test_exact_transport_has_no_curve_and_no_regularisation(tmp_path: Path) -> None:
    a, b = blobs(9, THREE, seed=0), blobs(9, THREE, seed=1)
    panel = page_content(write_report(make_run(tmp_path / "run", a, b, solver=bot.ExactTransport())))["groups"][0][
        "panels"
    ][0]
    assert panel["history"] == []
    assert panel["facts"]["reg"] is None


def test_two_matches_share_one_sheet(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", blobs(12, THREE, seed=0), blobs(12, THREE, seed=1), "one", "two")
    (group,) = page_content(write_report(run))["groups"]
    assert [panel["title"] for panel in group["panels"]] == ["one", "two"]
    assert group["panels"][0]["sources"]["picture"] == group["panels"][1]["sources"]["picture"]


def test_large_pages_show_fewer_images(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", blobs(300, THREE, seed=0, size=32), blobs(300, THREE, seed=1, size=32))
    whole = write_report(run).stat().st_size
    panel = page_content(write_report(run, most_bytes=whole - 100_000))["groups"][0]["panels"][0]
    assert (run / "report.html").stat().st_size <= whole - 100_000
    n_sources, n_targets = len(panel["sources"]["index"]), len(panel["targets"]["index"])
    assert 0 < n_sources < 300
    assert set(panel["sources"]["label"]) == {0, 1, 2}
    assert all(len(best) == 5 for best in panel["sources"]["matches"])
    assert all(j < n_targets for best in panel["sources"]["matches"] for j in best)
    assert all(slot < n_sources for slot, *_ in panel["map"]["sources"])


def test_folders_without_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        write_report(tmp_path / "absent")
    with pytest.raises(InputError, match="--report"):
        write_report(tmp_path)
    (tmp_path / "report-data.npz").write_bytes(b"no archive")
    with pytest.warns(DataWarning), pytest.raises(InputError, match="not the data of a report"):
        write_report(tmp_path)


def test_a_folder_of_runs_is_not_a_run(tmp_path: Path) -> None:
    for name, size in (("a", 6), ("b", 8)):
        make_run(tmp_path / name, blobs(6, THREE, seed=0, size=size), blobs(6, THREE, seed=1, size=size))
    with pytest.raises(InputError, match=r"holds runs but is none itself; give one of them, such as .*a[.]$"):
        write_report(tmp_path)


def test_a_run_inside_a_run_is_another(tmp_path: Path) -> None:
    sides = blobs(6, THREE, seed=0), blobs(6, THREE, seed=1)
    run = make_run(tmp_path / "run", *sides, "outer")
    match_run = make_run(run / "second", *sides)
    (match_run / "pixels" / "report-data.npz").rename(match_run / "report-data.npz")
    make_run(run / "third", *sides, "one", "two")
    (group,) = page_content(write_report(run))["groups"]
    assert [panel["title"] for panel in group["panels"]] == ["outer"]


def test_sets_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    target = blobs(6, THREE, seed=1)
    for title, seed in (("first", 0), ("second", 2), ("third", 0)):
        make_run(tmp_path, blobs(6, THREE, seed=seed), target, title)
    first, second = page_content(write_report(tmp_path))["groups"]
    assert [panel["title"] for panel in first["panels"]] == ["first", "third"]
    assert [panel["title"] for panel in second["panels"]] == ["second"]
    assert first["title"] != second["title"]
    assert first["sheet"]["png"] != second["sheet"]["png"]


def test_study_without_matches_shows_its_tables(tmp_path: Path) -> None:
    (tmp_path / "table1.md").write_text("# Title\n\n| a | b |\n|---|---|\n| **1** | 2 |\n\nSome words.\n")
    assert read_markdown(tmp_path / "table1.md") == [
        {"kind": "heading", "text": "Title"},
        {"kind": "table", "header": ["a", "b"], "rows": [["1", "2"]]},
        {"kind": "text", "text": "Some words."},
    ]
    assert page_content(write_report(tmp_path))["groups"] == []


def test_match_verb_writes_the_report(tmp_path: Path) -> None:
    dataset = blobs(24, THREE, seed=0)
    np.savez(tmp_path / "set.npz", images=dataset.images, labels=dataset.labels)
    words = ["match", str(tmp_path / "set.npz"), str(tmp_path / "set.npz"), "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, [*words, "--report", "--quiet"]).exit_code == 0
    (tmp_path / "run" / "report.html").unlink()
    again = CliRunner().invoke(app, ["report", str(tmp_path / "run")])
    assert again.exit_code == 0
    assert (tmp_path / "run" / "report.html").is_file()
    assert CliRunner().invoke(app, ["report", str(tmp_path / "nothing")]).exit_code == 2


def test_study_verb_writes_the_report(tmp_path: Path) -> None:
    words = "study class-preservation --datasets digits --per-class 3 --metrics l1 --settings rotated --report -q"
    assert CliRunner().invoke(app, [*words.split(), "--out", str(tmp_path / "run")]).exit_code == 0
    content = page_content(tmp_path / "run" / "report.html")
    (group,) = content["groups"]
    assert group["title"] == "digits, rotated"
    assert [panel["title"] for panel in group["panels"]] == ["pixels, l1", "ring-bispectrum, l1"]
    cells = json.loads((tmp_path / "run" / "results.json").read_text())["cells"]
    assert [panel["flow"]["counts"] for panel in group["panels"]] == [cell["confusion"] for cell in cells]
    assert content["tables"]
