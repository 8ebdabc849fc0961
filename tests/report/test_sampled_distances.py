from __future__ import annotations

import numpy as np

import bispectral_ot as bot
from bispectral_ot.report.sampled_distances import SampledDistances, sample_distances
from report_runs import blobs


def test_class_means_are_means_of_the_distances() -> None:
    random = np.random.default_rng(0)
    source_rows, target_rows = np.array([4, 0, 1, 5, 3]), np.array([2, 0, 4, 1])
    sample = SampledDistances(source_rows, target_rows, random.random((9, 9)), "l1")
    rows, columns = np.array([0, 1, 0, 1, 0, 3]), np.array([2, 0, 1, 1, 2])
    found = sample.class_means(rows, columns)
    assert found.shape == (4, 3)
    assert np.isnan(found[2]).all()
    for r in (0, 1, 3):
        for c in range(3):
            pairs = [
                sample.matrix[i, 5 + j]
                for i in range(5)
                for j in range(4)
                if rows[source_rows[i]] == r and columns[target_rows[j]] == c
            ]
            np.testing.assert_allclose(found[r, c], np.mean(pairs))


def test_small_sets_are_sampled_whole_by_the_metric_of_the_match() -> None:
    source, target = blobs(12, ("a", "b"), seed=0), blobs(9, ("a", "b"), seed=1)
    match = bot.match(source, target, symmetry="none", metric="cosine")
    sample = sample_distances(match, source, target)
    assert sample is not None
    assert sorted(sample.source_rows) == list(range(12))
    expected = match.coupling.cost.block(0, 12)[np.ix_(sample.source_rows, sample.target_rows)]
    np.testing.assert_allclose(sample.matrix[:12, 12:], expected, atol=1e-6)
    assert sample.metric == "cosine"


def test_large_sets_give_a_few_of_every_class() -> None:
    names = tuple("abcdefgh")
    source, target = blobs(900, names, seed=0), blobs(850, names, seed=1)
    match = bot.match(source, target, symmetry="none")
    sample = sample_distances(match, source, target)
    assert sample is not None
    assert len(sample.source_rows) == len(sample.target_rows) == 400
    assert np.bincount(source.labels[sample.source_rows]).tolist() == [50] * 8  # type: ignore[index]
