"""Several sets through one fitted map: the same numbers for all of them, whatever the order and the memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bispectral_ot as bot
from bispectral_ot.costs.storage import storage_bytes
from bispectral_ot.engines import Threads
from bispectral_ot.invariants import RingPowerSpectrum
from bispectral_ot.invariants.transformer import as_transformer
from bispectral_ot.spaces import FeatureSpace, choose_features
from bispectral_ot.spaces.feature_map import fitted
from bispectral_ot.spaces.projection import sample_evenly
from bispectral_ot.spaces.statistics import common_scale, measure_pixels


@pytest.fixture(scope="module")
def three():
    digits = bot.load("digits")
    return [digits.select(slice(start, stop)) for start, stop in ((0, 40), (40, 100), (100, 130))]


def literal(space, i, j, metric="l2"):
    """Distances between two sets, pair by pair."""
    weights = space.feature_map.weights if space.feature_map.projection is None else None
    first, second = (space.features[k].astype(np.float64) for k in (i, j))
    squares = (first[:, None] - second) ** 2
    return np.sqrt((squares if weights is None else squares * weights).sum(axis=2))


@pytest.mark.parametrize("features", ["pixels", "ring-bispectrum", PCA(5)])
@pytest.mark.parametrize("pca", [None, 3])
def test_the_cost_between_any_two_sets(three, features, pca):
    with FeatureSpace(three, choose_features(features, metric="l2"), pca=pca) as space:
        for i, j in ((0, 1), (2, 0), (1, 1)):
            np.testing.assert_allclose(space.cost(i, j).block(0, len(three[i])), literal(space, i, j), atol=1e-4)


def test_one_map_for_all_sets(three):
    space = FeatureSpace(three, choose_features("pixels"))
    pixels = np.concatenate([each.images for each in three]).astype(np.float64)
    assert space.feature_map.mean == pytest.approx(pixels.mean())
    assert space.feature_map.std == pytest.approx(pixels.std())
    for dataset, rows in zip(three, space.features, strict=True):
        np.testing.assert_array_equal(space.feature_map(dataset.images), rows)


@pytest.mark.parametrize("pca", [None, 4])
def test_the_order_of_the_sets_does_not_matter(three, pca):
    forwards = FeatureSpace(three, choose_features("pixels", metric="l2"), pca=pca)
    backwards = FeatureSpace(three[::-1], choose_features("pixels", metric="l2"), pca=pca)
    one, other = forwards.cost(0, 1).block(0, 40), backwards.cost(1, 2).block(0, 60).T
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("features", ["ring-bispectrum", make_pipeline(StandardScaler(), PCA(3))])
def test_features_are_the_same_in_memory_and_in_a_map(three, features, tmp_path, monkeypatch):
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "2")
    budget = storage_bytes((60, 40), feature_bytes=0, block_rows=512)["recompute"] + 1
    choice = choose_features(features)
    with (
        FeatureSpace(three, choice) as plain,
        FeatureSpace(three, choice, working_memory=budget, scratch=tmp_path) as mapped,
    ):
        for rows, others in zip(plain.features, mapped.features, strict=True):
            assert isinstance(others, np.memmap)
            assert rows.dtype == np.float32
            np.testing.assert_allclose(others, rows, rtol=1e-6, atol=1e-6)
    assert not list(tmp_path.iterdir())


def test_distances_within_one_set(three):
    space = FeatureSpace(three, choose_features("pixels", metric="l2"))
    distances = space.distances_within(2)
    np.testing.assert_allclose(distances, literal(space, 2, 2), atol=1e-4)
    np.testing.assert_array_equal(distances, distances.T)
    assert not np.diag(distances).any()


def test_many_batches_give_the_same_features(three, monkeypatch):
    whole = FeatureSpace(three, choose_features("coupled-bispectrum"))
    monkeypatch.setattr("bispectral_ot.spaces.space._BATCH_IMAGES", 7)
    parts = FeatureSpace(three, choose_features("coupled-bispectrum"))
    for rows, others in zip(whole.features, parts.features, strict=True):
        np.testing.assert_array_equal(rows, others)


def test_images_without_content_are_counted_over_all_batches(three, monkeypatch):
    monkeypatch.setattr("bispectral_ot.spaces.space._BATCH_IMAGES", 7)
    blank = bot.Dataset(np.zeros((20, 8, 8), dtype=np.uint8), name="blank")
    with pytest.warns(bot.DataWarning) as caught:
        FeatureSpace([three[0], blank], choose_features("coupled-bispectrum"), normalize=False)
    words = [str(each.message) for each in caught]
    assert any("20 of the 20 images of 'blank' are constant" in each for each in words)
    assert any("20 of 60 signals vanishes" in each for each in words)


def test_statistics_of_all_sets_together():
    random = np.random.default_rng(0)
    sets = [bot.Dataset(random.normal(size=(n, 4, 4))) for n in (3, 20)]
    pixels = np.concatenate([each.images for each in sets]).astype(np.float64)
    assert common_scale([measure_pixels(each, Threads()) for each in sets]) == pytest.approx(
        (pixels.mean(), pixels.std())
    )


def test_a_sample_takes_its_share_of_every_set():
    assert [len(each) for each in sample_evenly([10, 20, 30])] == [10, 20, 30]
    assert [len(each) for each in sample_evenly([1000, 3000], 400)] == [100, 300]
    assert [len(each) for each in sample_evenly([1, 10_000], 50)] == [1, 50]


def test_weights_of_columns_are_found_where_there_are_any(three):
    images = three[0].images
    ring = fitted(bot.RingBispectrum(), images)
    for inner in (PCA(3), make_pipeline(bot.RingBispectrum(), PCA(3))):
        assert fitted(as_transformer(inner), images).feature_weights_ is None
    piped = fitted(as_transformer(make_pipeline(bot.RingBispectrum())), images)
    np.testing.assert_array_equal(piped.feature_weights_, ring.feature_weights_)


@pytest.mark.parametrize("pca", [None, 5])
@pytest.mark.parametrize("metric", ["l1", "l2"])
def test_distances_of_the_feature_map_are_those_of_the_match(pca: int | None, metric: str) -> None:
    images = np.random.default_rng(0).random((2, 9, 10, 10), dtype=np.float32)
    match = bot.match(*images, metric=metric, pca=pca, features=RingPowerSpectrum())
    rows = (match.feature_map(side) for side in images)
    expected = match.coupling.cost.block(0, 9)
    found = match.feature_map.distance(*rows, metric).rows(0, 9)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())


def test_sets_that_share_no_space_are_named(three):
    small = bot.Dataset(np.zeros((2, 5, 8)), name="small")
    colour = bot.Dataset(np.zeros((2, 8, 8, 3)), name="colour")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(bot.InputError, match=r"8 x 8 but those of 'small' are 5 x 8.*resize"):
            FeatureSpace([*three, small], choose_features("pixels"))
        with pytest.raises(bot.InputError, match=r"1 channel\(s\) but those of 'colour' have 3"):
            FeatureSpace([*three, colour], choose_features("pixels"))
