"""Several sets by one fitted map: the same numbers for all of them, whatever the order and the memory."""

import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.costs.cost import storage_bytes
from bispectral_ot.features import FEATURES, Encoder, FeatureMap, FittedFeatures, choose_features
from bispectral_ot.features.fitted import fit_sample
from bispectral_ot.store import read_record, write_record


@pytest.fixture(scope="module")
def three():
    digits = bot.load("digits")
    return [digits.select(slice(start, stop)) for start, stop in ((0, 40), (40, 100), (100, 130))]


def literal(space, i, j):
    """Distances between two sets, pair by pair."""
    weights = space.feature_map.transformer.feature_weights_ if space.feature_map.projection is None else None
    first, second = (space.features[k].astype(np.float64) for k in (i, j))
    squares = (first[:, None] - second) ** 2
    return np.sqrt((squares if weights is None else squares * weights).sum(axis=2))


@pytest.mark.parametrize(("features", "pca"), [("pixels", None), ("ring-bispectrum", None), ("pixels", 3), (PCA(5), 3)])
def test_the_cost_between_any_two_sets(three, features, pca):
    space = FittedFeatures(three, choose_features(features, metric="l2"), pca=pca)
    for i, j in ((0, 1), (2, 0), (1, 1)):
        np.testing.assert_allclose(space.cost(i, j).block(0, len(three[i])), literal(space, i, j), atol=1e-4)
    distances = space.feature_map.distances_within(space.features[2], "l2")
    np.testing.assert_allclose(distances, literal(space, 2, 2), atol=1e-4)
    np.testing.assert_array_equal(distances, distances.T)
    assert not np.diag(distances).any()


@pytest.mark.parametrize("features", ["ring-bispectrum", make_pipeline(StandardScaler(), PCA(3))])
def test_features_are_the_same_in_memory_and_in_a_map(three, features, monkeypatch):
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "2")
    budget, spec = storage_bytes((60, 40), feature_bytes=0, block_rows=512)["recompute"] + 1, choose_features(features)
    plain = FittedFeatures(three, spec)
    with runtime.running(memory=budget):
        mapped = FittedFeatures(three, spec)
    for rows, others in zip(plain.features, mapped.features, strict=True):
        assert isinstance(others, np.memmap)
        np.testing.assert_array_equal(others, rows)


def test_images_without_content_are_counted_over_all_blocks(three, monkeypatch):
    monkeypatch.setattr("bispectral_ot.transformer.SCRATCH_BYTES", 1)  # one image a block
    blank = bot.Dataset(np.zeros((20, 8, 8), dtype=np.uint8), name="blank")
    with pytest.warns(bot.DataWarning) as caught:
        FittedFeatures([three[0], blank], choose_features("global-bispectrum"), normalize=False)
    words = [str(each.message) for each in caught]
    assert any("20 of the 20 images of 'blank' are constant" in each for each in words)
    assert any("20 of 60 signals have features" in each for each in words)


@pytest.mark.parametrize("name", sorted(FEATURES))
def test_a_stored_map_gives_the_same_bits_without_a_fit(three, name, tmp_path):
    random = np.random.default_rng(0)
    kinds = {"sphere-bispectrum": "sphere", "shell-bispectrum": "clouds", "vectors": "vectors"}
    sets = {
        "sphere": bot.Dataset(random.random((9, 24, 48)), kind="sphere"),
        "clouds": bot.Dataset(random.random((9, 30, 3)), kind="clouds"),
        "vectors": bot.Dataset.from_vectors(random.random((9, 6))),
    }
    kind = kinds.get(name, "images")
    data = sets.get(kind, three[0])
    fitted = FittedFeatures([data, data], choose_features(name, kind=kind), pca=None if name == "best-rotation" else 3)
    write_record(tmp_path / "map.npz", fitted.feature_map.get_state())
    stored = read_record(tmp_path / "map.npz")
    np.testing.assert_array_equal(FeatureMap.from_state(stored)(data.signals), fitted.feature_map(data.signals))


def network(batch):
    return batch[:, :, :, 0].mean(axis=1)


def test_a_stored_map_imports_no_code_that_was_not_named_again(three, tmp_path):
    name = f"{__name__}:network"
    fitted = FittedFeatures(three, choose_features(f"bispectrum+{name}"))
    write_record(tmp_path / "map.npz", fitted.feature_map.get_state())
    stored = read_record(tmp_path / "map.npz")
    with pytest.raises(bot.InputError, match="give it again"):
        FeatureMap.from_state(stored)
    restored = FeatureMap.from_state(stored, encoder=name)
    np.testing.assert_array_equal(restored(three[0].images), fitted.features[0])
    for features, message in ((Encoder(network), "module:name"), (PCA(2), "other packages")):
        with pytest.raises(bot.InputError, match=message):
            FittedFeatures(three, choose_features(features)).feature_map.get_state()


def test_bad_input_is_named(three):
    small, colour = bot.Dataset(np.zeros((2, 5, 8)), name="small"), bot.Dataset(np.zeros((2, 8, 8, 3)), name="colour")
    with warnings.catch_warnings(action="ignore"):
        with pytest.raises(bot.InputError, match=r"8 x 8, 'small' 5 x 8\); .*resize"):
            FittedFeatures([*three, small], choose_features("pixels"))
        with pytest.raises(bot.InputError, match=r"1 channel\(s\), those of 'colour' have 3"):
            FittedFeatures([*three, colour], choose_features("pixels"))
        with pytest.raises(bot.InputError, match="has images, but 'so3-shapes' is for point clouds"):
            FittedFeatures(three, choose_features(symmetry="so3-shapes"))
        with pytest.raises(bot.InputError, match="pca must be an integer from 1 to 64, got 65"):
            FittedFeatures(three, choose_features("pixels"), pca=65)
        with pytest.raises(bot.InputError, match="best-rotation features cannot be reduced"):
            FittedFeatures(three, choose_features("best-rotation"), pca=3)


@pytest.mark.parametrize("pca", [None, 4])
def test_the_order_of_the_sets_does_not_matter(three, pca):
    forwards = FittedFeatures(three, choose_features("pixels", metric="l2"), pca=pca)
    backwards = FittedFeatures(three[::-1], choose_features("pixels", metric="l2"), pca=pca)
    one, other = forwards.cost(0, 1).block(0, 40), backwards.cost(1, 2).block(0, 60).T
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_sample_of_a_fit_is_shared_out_by_size(three):
    assert [[len(each) for each in fit_sample(three, size)] for size in (13, 500)] == [[4, 6, 3], [40, 60, 30]]
