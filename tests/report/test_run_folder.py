"""Run folders: results first; whatever decoration fails, the run survives."""

import warnings

import pytest

import bispectral_ot as bot
from bispectral_ot.errors import DataWarning
from bispectral_ot.features import FeatureMap
from bispectral_ot.report.run_folder import write_match

THREE = ("a", "b", "c")


@pytest.fixture(scope="module")
def match():
    source, target = bot.split_halves(bot.load("digits"), per_class=8)
    return bot.match(source, target)


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


RESULTS = {"results.json", "matches.csv", "labels.csv", "confusion.csv", "outliers.csv"}
DECORATIONS = {"model.npz", "page-data.json", "figures/matches.png", "figures/confusion.png"}


def test_everything_is_written_without_extracting_features_or_solving(match, tmp_path, monkeypatch):
    for kind, name in ((FeatureMap, "__call__"), (FeatureMap, "fill"), (bot.Sinkhorn, "solve"), (bot.Cost, "read")):
        monkeypatch.setattr(kind, name, None, raising=False)
    with warnings.catch_warnings(action="error", category=DataWarning):
        write_match(tmp_path, match)
    assert names(tmp_path) == RESULTS | DECORATIONS
