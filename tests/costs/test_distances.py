"""Distances against SciPy in double precision, also where they cancel, underflow or overflow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import oracles
from bispectral_ot.costs import METRICS, STORAGES, Cost, distances
from bispectral_ot.errors import DataWarning

SCIPY_NAMES = {"l1": "cityblock", "l2": "euclidean", "sqeuclidean": "sqeuclidean", "cosine": "cosine"}


def by_scipy(source, target, metric, weights=None):
    weights = np.ones(source.shape[1]) if weights is None else np.asarray(weights, np.float64)
    factors = weights if metric == "l1" else np.sqrt(weights)
    return cdist(source.astype(np.float64) * factors, target.astype(np.float64) * factors, SCIPY_NAMES[metric])


def random_features(n, k, seed=0, offset=0.0):
    return (np.random.default_rng(seed).normal(size=(n, k)) + offset).astype(np.float32)


def whole(cost):
    return cost.block(0, cost.shape[0])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("weighted", "shape"), [(True, (130, 71, 33)), (True, (5, 2100, 9)), (False, (1, 1, 1))])
def test_distances_are_scipys(metric, weighted, shape):
    n, m, k = shape
    source, target = random_features(n, k, 1), random_features(m, k, 2)
    weights = np.random.default_rng(3).integers(1, 13, k).astype(float) if weighted else None
    expected, cost = by_scipy(source, target, metric, weights), Cost(source, target, metric, weights=weights)
    np.testing.assert_allclose(whole(cost), expected, rtol=2e-6, atol=2e-6 * max(1e-6, expected.max()))
    assert cost.maximum == pytest.approx(expected.max(), rel=1e-5, abs=1e-7)
    assert (cost.shape, cost.metric) == ((n, m), metric)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=40)
@given(data=st.data())
def test_small_whole_numbers_give_the_literal_formula(metric, data):
    n, m, k = (data.draw(st.integers(1, 9)) for _ in range(3))
    numbers = st.integers(-4, 4)
    source = np.array(data.draw(st.lists(numbers, min_size=n * k, max_size=n * k)), float).reshape(n, k) + 5
    target = np.array(data.draw(st.lists(numbers, min_size=m * k, max_size=m * k)), float).reshape(m, k) + 5
    weights = np.array(data.draw(st.lists(st.integers(1, 6), min_size=k, max_size=k)), float)
    result = whole(Cost(source, target, metric, weights=weights))
    np.testing.assert_allclose(result, oracles.distances(source, target, metric, weights), rtol=2e-6, atol=3e-7)
    equal = (source[:, None] == target[None]).all(axis=2)
    assert (result[equal] == 0).all()
    assert (result >= 0).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("storage", "offset"), [("float32", 1e6), ("compact", 0.0), ("recompute", 1e3)])
def test_equal_rows_have_distance_zero_whatever_their_common_offset(metric, storage, offset):
    x = random_features(90, 64, 4, offset=offset)
    cost = whole(Cost(x, x[::-1], metric, storage=storage))
    assert (np.diag(cost[:, ::-1]) == 0).all()
    assert np.isfinite(cost).all()
    assert (cost >= 0).all()


@pytest.mark.parametrize("metric", ["l2", "sqeuclidean", "cosine"])
@pytest.mark.parametrize("nearness", [1e-7, 0.025, 0.04])
def test_near_duplicates_keep_their_digits(metric, nearness):
    """Where ``|x|^2 - 2 x.y + |y|^2`` cancels, and just above where another formula takes over."""
    source = random_features(40, 500, 5, offset=3.0)
    target = source + np.float32(nearness) * random_features(40, 500, 6)
    result, expected = whole(Cost(source, target, metric)), by_scipy(source, target, metric)
    if metric == "cosine":  # SciPy's own 1 - x.y / (|x| |y|) cancels
        first, second = (x / np.linalg.norm(x.astype(float), axis=1, keepdims=True) for x in (source, target))
        expected = cdist(first, second, "sqeuclidean") / 2
    np.testing.assert_allclose(result, expected, rtol=5e-4)


@pytest.mark.parametrize("metric", ["l1", "l2", "cosine"])
@pytest.mark.parametrize("scale", [1e-30, 1e18])
def test_very_small_and_very_large_features_do_not_underflow_or_overflow(metric, scale):
    source, target = random_features(20, 30, 7), random_features(15, 30, 8)
    target[4] = source[3]
    cost = whole(Cost(source * np.float32(scale), target * np.float32(scale), metric))
    expected = by_scipy(source, target, metric) * (1 if metric == "cosine" else scale)
    np.testing.assert_allclose(cost, expected, rtol=2e-5, atol=1e-6 * expected.max())
    assert cost[3, 4] == 0


@pytest.mark.parametrize("storage", STORAGES)
def test_a_zero_row_is_at_distance_one_from_all_but_zero_rows_under_cosine(storage):
    x = random_features(9, 4, 10)
    x[[2, 7]] = 0
    cost, zero = Cost(x, x, "cosine", storage=storage), np.isin(np.arange(9), [2, 7])
    assert (whole(cost)[np.ix_(zero, zero)] == 0).all()
    for mixed in (np.ix_(zero, ~zero), np.ix_(~zero, zero)):
        np.testing.assert_allclose(whole(cost)[mixed], 1, rtol=0, atol=cost.storage_error)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("storage", "mapped"), [("float32", "source"), ("compact", "source and target")])
def test_memory_mapped_features_give_the_same(metric, storage, mapped, tmp_path, monkeypatch):
    monkeypatch.setattr(distances, "_MAPPED_BYTES", 4 * 17 * 40)  # 40 targets at a time
    source, target, weights = random_features(530, 17, 14), random_features(95, 17, 15), np.arange(1.0, 18)
    maps = {}
    for name, x in (("source", source), ("target", target)):
        np.save(tmp_path / f"{name}.npy", x)
        maps[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r") if name in mapped else x
    expected = Cost(source, target, metric, weights=weights, storage=storage)
    cost = Cost(maps["source"], maps["target"], metric, weights=weights, storage=storage)
    # products of other tiles round in another way, and then to the next code
    np.testing.assert_allclose(whole(cost), whole(expected), rtol=1e-5, atol=1e-5 + 2 * cost.storage_error)
    assert cost.maximum == pytest.approx(expected.maximum, rel=1e-6)


def test_private_copies_of_memory_maps_keep_their_changes(tmp_path):
    """Pages of other maps are dropped after they are read; those of a private copy hold what is nowhere else."""
    np.save(tmp_path / "x.npy", random_features(40, 10, 16))
    x = np.load(tmp_path / "x.npy", mmap_mode="c")
    x += 1
    before = np.array(x)
    np.testing.assert_allclose(whole(Cost(x, x, "l1")), by_scipy(before, before, "l1"), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("metric", METRICS)
def test_features_of_any_layout_and_type_are_read(metric):
    x = np.random.default_rng(17).integers(0, 255, (30, 8))
    expected = by_scipy(x[::2], x[1::2], metric)
    for given_x in (x.astype(np.uint8), np.asfortranarray(x.astype(float)), x.astype(">f4"), x.tolist()):
        source, target = given_x[::2], given_x[1::2]
        np.testing.assert_allclose(whole(Cost(source, target, metric)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", ["l1", "sqeuclidean"])
@pytest.mark.parametrize("offset", [-1e12, np.array([1e8, 0.0, -3e6, 1e-3, 1e10])], ids=str)
def test_features_far_from_zero_keep_their_distances(metric, offset):
    generator = np.random.default_rng(19)
    source, target = generator.integers(-50, 50, (40, 5)) / 16, generator.integers(-50, 50, (30, 5)) / 16
    weights = np.array([1.0, 2, 0.5, 3, 1])
    cost = Cost(source + offset, target + offset, metric, weights=weights, storage="compact")
    expected = by_scipy(source, target, metric, weights)
    rounding = 2e-4 if np.any(np.abs(offset) > 1e11) else 1e-6  # of the numbers themselves, in float64
    np.testing.assert_allclose(whole(cost), expected, rtol=rounding, atol=2e-6 * expected.max() + cost.storage_error)


def test_angles_between_features_far_from_zero_are_reported():
    x = np.random.default_rng(21).normal(size=(20, 4))
    with pytest.warns(DataWarning, match="or use l2"):
        Cost(x + 1e5, x + 1e5, "cosine")
