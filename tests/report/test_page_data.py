"""Page data of matches and comparisons, and the files that they are kept in."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bispectral_ot as bot
from bispectral_ot.comparing import Pair, SymmetryTests
from bispectral_ot.comparing.change_tests import CHANGES
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_text
from bispectral_ot.matching import class_table
from bispectral_ot.report import page_data
from bispectral_ot.report.page_data import compact_json, comparison_page, load_page_data, pair_sentence
from report_runs import blobs, gather

THREE = ("a", "b", "c")


def dense(page):
    counts = np.zeros((len(page["rows"]), len(page["columns"])), dtype=int)
    for i, j, images in page["counts"]:
        counts[i, j] = images
    return counts


def test_counts_and_matches_are_those_of_the_match():
    match, page = gather(blobs(30, THREE, seed=0), blobs(24, THREE, seed=1))
    table = class_table(match)
    np.testing.assert_array_equal(dense(page), table.counts)
    assert page["facts"]["accuracy"] == table.accuracy
    top, details, sources = match.top_matches(5), match.labels(), page["sources"]
    for slot, index in enumerate(sources["index"]):
        assert [page["targets"]["index"][j] for j in sources["matches"][slot]] == top.indices[index].tolist()
        np.testing.assert_allclose(sources["weights"][slot], top[1][index], rtol=1e-3, atol=1e-12)
        assert page["columns"][sources["given"][slot]] == details.label[index]
    order = [sources["probability"][slot] for slot in page["check"]]
    assert order == sorted(order)
    assert len(order) == 30


def test_what_has_no_mass_is_not_counted():
    weights = np.r_[np.zeros(3), np.full(9, 1 / 9)]
    options = {"solver": bot.ExactTransport(), "source_weights": weights, "target_weights": np.full(12, 1 / 12)}
    _, page = gather(blobs(12, THREE, seed=0), blobs(12, THREE, seed=1), **options)
    matches = dict(zip(page["sources"]["index"], page["sources"]["matches"], strict=True))
    assert matches[0] == matches[1] == matches[2] == []
    assert all(0 < len(matches[i]) < 5 for i in range(3, 12))
    assert dense(page).sum() == 9


def test_many_images_are_a_sample_with_every_class(monkeypatch):
    monkeypatch.setattr(page_data, "_MOST_SOURCES", 40)
    monkeypatch.setattr(page_data, "_MOST_CHECKED", 10)
    match, page = gather(blobs(300, THREE, seed=0), blobs(300, THREE, seed=1))
    assert len(page["sources"]["index"]) == 40
    assert set(page["sources"]["label"]) == set(page["targets"]["label"]) == {0, 1, 2}
    assert dense(page).sum() == 300
    worst = sorted(match.labels().probability)[:10]
    np.testing.assert_allclose([page["sources"]["probability"][slot] for slot in page["check"]], worst, rtol=1e-3)


def test_the_map_has_the_distances_of_the_match():
    match, page = gather(blobs(30, THREE, seed=0), blobs(24, THREE, seed=1), metric="l2")
    vectors = np.array(page["map"]["vectors"], dtype=float)
    distances = np.linalg.norm(vectors[:30, None] - vectors[None, 30:], axis=2)
    rows = [page["sources"]["index"][slot] for slot in page["map"]["sources"]]
    columns = [page["targets"]["index"][slot] for slot in page["map"]["targets"]]
    true = match.feature_map.distances_within(np.concatenate(match.features), "l2")[:30, 30:][np.ix_(rows, columns)]
    assert np.corrcoef(distances.ravel(), true.ravel())[0, 1] > 0.95


def test_files_read_back_and_damaged_ones_are_named(tmp_path):
    names = (*THREE, "\udc80 é")  # bytes of a file name that are no text
    with pd.option_context("future.infer_string", True):  # as in pandas 3
        _, page = gather(blobs(8, names, seed=0), blobs(8, names, seed=1))
    path = tmp_path / "page-data.json"
    write_text(path, compact_json(page))
    assert load_page_data(path) == page
    for text in ("", "{", "[1]", "{}", "[" * 100_000 + "]" * 100_000):
        path.write_text(text)
        with pytest.raises(InputError, match=r"page-data\.json is damaged"):
            load_page_data(path)


@pytest.fixture(scope="module")
def compared():
    datasets = [blobs(12, THREE, seed=0), blobs(15, THREE, seed=1), blobs(12, ("a",), seed=2)]
    found = bot.compare(dict(zip(("one", "two", "other"), datasets, strict=True)), features="pixels", labels=True)
    return found, datasets


def test_a_comparison_is_kept_with_what_explains_it(compared):
    found, datasets = compared
    page = comparison_page(found, datasets)
    assert page["names"] == ["one", "two", "other"]
    assert sorted(page["order"]) == [0, 1, 2]
    for kept, pair in zip(page["pairs"], found.pairs, strict=True):
        assert kept["distance"] == pair.distance
        sides = [page["names"].index(name) for name in (pair.source, pair.target)]
        assert [kept["source"], kept["target"]] == sides
        for side, top in zip(sides, kept["top"], strict=True):
            assert all(page["images"]["set"][int(slot)] == side for slot, _, _ in top)
        parts = sum(part for each in kept["classes"] if each for _, part in each)
        assert parts == pytest.approx(pair.distance, rel=1e-2, abs=1e-4)


def test_tests_of_changes_decide_where_they_were_made(compared):
    """Features that ignore brightness find no change (p = 0.6); the page must not say so beside "intensity"."""
    found, datasets = compared
    p_values = dict.fromkeys(CHANGES, 0.005) | {"intensity": 0.4, "all of these": 0.4}
    pairs = tuple(replace(pair, p_value=0.6) for pair in found.pairs)
    tests = tuple(SymmetryTests(pair.source, pair.target, p_values, 0.05, {}, 0.6) for pair in pairs)
    page = comparison_page(replace(found, pairs=pairs, symmetry_tests=tests), datasets)
    assert {pair["verdict"] for pair in page["pairs"]} == {"explained"}
    assert not any("No change" in pair["sentence"] for pair in page["pairs"])


@pytest.mark.parametrize(
    ("distance", "reference", "p_value", "decided", "words"),
    [
        (0.02, 0.01, 0.01, False, "Changed at the 0.05 level (p = 0.01 by the test of the distance): 2 times"),
        (0.02, 0.01, 0.2, False, "No change found (p = 0.2 by the test of the distance): 2 times"),
        (0.02, 0.01, 0.2, True, "between two samples of one population; p = 0.2 by the test of the distance."),
        (0.02, 0.01, None, False, "2 times the distance expected between two samples of one population; not tested."),
        (0.02, float("nan"), None, False, "The reference is unknown"),
        (50.0, 0.001, 0.05, False, "50,000 times"),
    ],
)
def test_a_pair_in_words(distance, reference, p_value, decided, words):
    pair = Pair("a", "b", distance, 0.0, reference, None, None, None, None, p_value)
    assert words in pair_sentence(pair, level=0.05, decided=decided)
