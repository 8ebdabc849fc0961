"""Best matches that are written block by block."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bispectral_ot as bot
from bispectral_ot.matching import streamed


@pytest.fixture(scope="module")
def match():
    source, target = bot.split_halves(bot.load("digits"), per_class=30)
    return bot.match(source, target)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_file_says_what_the_match_says(match, tmp_path, monkeypatch, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    monkeypatch.setattr(streamed, "_ROWS", 40)
    path = tmp_path / f"matches.{kind}"
    streamed.write_matches(match.coupling, path, k=3, target_labels=match.target_labels)
    found = pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)
    top, labels = match.top_matches(3), match.transfer_labels()
    np.testing.assert_array_equal(found["source"], np.arange(300))
    for place in range(3):
        np.testing.assert_array_equal(found[f"target_{place + 1}"], top.indices[:, place])
        np.testing.assert_allclose(found[f"share_{place + 1}"], top.shares[:, place], rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(found["label"].astype(str), labels.labels)


def test_other_files_and_plans_are_refused(match, tmp_path):
    with pytest.raises(bot.InputError, match=r"\.csv or a \.parquet"):
        streamed.write_matches(match.coupling, tmp_path / "matches.txt")
    exact = bot.ExactTransport().solve(np.ones((3, 3)))
    with pytest.raises(bot.InputError, match="Sinkhorn"):
        streamed.write_matches(exact, tmp_path / "matches.csv")
    assert not list(tmp_path.iterdir())
