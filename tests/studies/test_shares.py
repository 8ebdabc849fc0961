"""The study of shares, and that it measures what a match does."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bispectral_ot as bot
from studies.share_tables import REGIMES, WAYS
from studies.shares import Task, find_regimes, nearest_labels, prepare, run_shares


@pytest.fixture(scope="module")
def digits():
    return bot.load("digits")


@pytest.fixture(scope="module")
def whole(digits):
    return prepare(digits, features="global-bispectrum", per_class=40, seed=1)


def test_regimes_cut_the_classes_as_they_say(whole):
    regimes = {(regime.name, regime.rate): regime for regime in find_regimes(whole, [0.5])}
    assert set(regimes) == {
        *(("same", 1.0), ("half source", 1.0), ("half target", 1.0)),
        *((name, rate) for name in ("target skewed", "opposite") for rate in (0.7, 0.5)),
    }
    opposite = whole.cut(regimes["opposite", 0.5])
    counts = [np.bincount(labels, minlength=10) for labels in (opposite.source_labels, opposite.target_labels)]
    assert counts[1].tolist() == [40, 20, 10, 5, 2, 1, 1, 1, 1, 1]
    assert counts[0].tolist() == counts[1].tolist()[::-1]
    half = whole.cut(regimes["half source", 1.0])
    assert np.bincount(half.source_labels).tolist() == [40] * 5
    assert len(half.target_labels) == 400


def test_votes_of_neighbours_are_counted_and_ties_go_to_the_nearer():
    costs = np.float32([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
    task = Task(costs, np.zeros((5, 5), np.float32), np.array([0, 1]), np.array([0, 1, 1, 2, 0]))
    assert nearest_labels(task, 1).tolist() == [0, 0]
    assert nearest_labels(task, 3).tolist() == [1, 0]
    assert nearest_labels(task, 4).tolist() == [1, 1]
    assert nearest_labels(task, 9).tolist() == [1, 0]


def test_the_study_writes_its_tables_and_goes_on_where_it_was(tmp_path):
    options = {"per_class": 20, "rates": [0.8]}
    run_shares(tmp_path / "run", ["digits"], seeds=1, **options)
    (first,) = (tmp_path / "run" / "cells").iterdir()
    written = first.stat().st_mtime_ns
    cells = run_shares(tmp_path / "run", ["digits"], seeds=2, **options)
    assert first.stat().st_mtime_ns == written
    assert [cell["config"]["seed"] for cell in cells] == [0, 1]
    assert json.loads((tmp_path / "run" / "results.json").read_text())["cells"] == cells
    table = (tmp_path / "run" / "table.md").read_text().splitlines()
    assert len(table) == 2 + len(REGIMES)
    assert all(way in table[0] for way in WAYS)
    same = [each["accuracy"]["1-NN"] for cell in cells for each in cell["regimes"] if each["regime"] == "same"]
    assert f"{np.mean(same):.3f} ± {np.std(same, ddof=1):.3f}" in table[2]
    for name in ("sweep.md", "shares.md", "passes.md", "unmatched.md", "figures/sweep-digits-global-bispectrum.png"):
        assert (tmp_path / "run" / name).stat().st_size > 0


def test_it_wants_labels_and_rates(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((4, 8, 8)))
    with pytest.raises(bot.InputError, match="has no labels"):
        run_shares(tmp_path / "run", [str(tmp_path / "images.npy")])


def test_strangers_are_found_among_others(digits, tmp_path):
    random = np.random.default_rng(0)
    noise = random.integers(0, 17, (90, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "noise.npz", images=noise, labels=np.arange(90) % 2)
    np.savez(tmp_path / "digits.npz", images=digits.images[:400], labels=digits.labels[:400])
    sets = [str(tmp_path / "digits.npz"), str(tmp_path / "noise.npz")]
    cells = run_shares(tmp_path / "run", sets, per_class=15, seeds=1, strangers=True)
    found = {cell["config"]["dataset"]: cell["regimes"][0]["unmatched"] for cell in cells}
    assert found["noise.npz among digits.npz"]["auc"] > 0.95
    assert "noise.npz among digits.npz" in (tmp_path / "run" / "unmatched.md").read_text()
