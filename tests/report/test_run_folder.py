"""Run folders: results first; whatever decoration fails, the run survives."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import bispectral_ot as bot
from bispectral_ot import drawing
from bispectral_ot.errors import DataWarning
from bispectral_ot.report import run_folder
from bispectral_ot.report.run_folder import write_comparison, write_match
from report_runs import blobs

THREE = ("a", "b", "c")


@pytest.fixture(scope="module")
def match() -> bot.Match:
    source, target = bot.split_halves(bot.load("digits"), per_class=8)
    return bot.match(source, target)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


RESULTS = {"results.json", "matches.csv", "labels.csv", "confusion.csv", "outliers.csv"}
DECORATIONS = {"model.npz", "page-data.json", "figures/matches.png", "figures/confusion.png"}


def test_everything_is_written_and_timed(match: bot.Match, tmp_path: Path) -> None:
    content = write_match(tmp_path, match, settings={"seed": 3}, extra={"seconds": {"load": 1.0}, "more": 2})
    assert names(tmp_path) == RESULTS | DECORATIONS
    kept = json.loads((tmp_path / "results.json").read_text())
    assert (kept["settings"]["seed"], kept["more"], kept["seconds"]["load"]) == (3, 2, 1.0)
    assert set(content["seconds"]) >= {"load", "transport", "tables", "figures", "page"}
    with open(tmp_path / "outliers.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == content["outliers"]["sources"] + content["outliers"]["targets"]


def test_writing_extracts_no_features_and_solves_nothing(
    match: bot.Match, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, name in (
        (type(match.feature_map), "__call__"),
        (type(match.feature_map), "fill"),
        (bot.Sinkhorn, "solve"),
    ):
        monkeypatch.setattr(kind, name, None, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        write_match(tmp_path, match)
    assert names(tmp_path) == RESULTS | DECORATIONS


def test_results_are_there_before_the_first_decoration(
    match: bot.Match, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(drawing, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        write_match(tmp_path, match)
    assert names(tmp_path) >= RESULTS


def test_a_match_of_features_has_results_only(match: bot.Match, tmp_path: Path) -> None:
    bare = bot.Match(match.coupling, target_labels=match.target_labels)
    write_match(tmp_path, bare)
    assert names(tmp_path) == {"results.json", "matches.csv", "labels.csv"}


def test_a_comparison_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = [blobs(12, THREE, seed=seed) for seed in range(3)]
    found = bot.compare(dict(zip(THREE, datasets, strict=True)), features="pixels", labels=True)
    write_comparison(tmp_path / "whole", found, datasets)
    tables = {"results.json", "distances.csv", "contributors.csv", "classes.csv", "class-distances.csv"}
    figures = {"figures/distances.png"}
    assert names(tmp_path / "whole") == tables | figures | {"page-data.json"}
    with open(tmp_path / "whole" / "contributors.csv", newline="") as file:
        assert next(csv.reader(file))[3:5] == ["image", "file"]
    monkeypatch.setattr(run_folder, "comparison_page", None)
    with pytest.warns(DataWarning, match=r"page-data\.json was not written"):
        write_comparison(tmp_path / "part", found, datasets, figures=False)
    assert names(tmp_path / "part") == tables
