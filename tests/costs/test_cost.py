"""A cost as a whole: storages and their errors, blocks, scale, given matrices and distances, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bispectral_ot import runtime
from bispectral_ot.costs import METRICS, STORAGES, Cost, Distance, FeatureDistance, as_cost
from bispectral_ot.engines import Threads
from bispectral_ot.errors import InputError


@pytest.fixture(scope="module")
def pair():
    generator = np.random.default_rng(0)
    return tuple(generator.normal(size=(n, 24)).astype(np.float32) for n in (150, 97))


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "2")


@pytest.mark.parametrize("metric", METRICS)
def test_storages_agree_within_the_error_they_state(pair, metric):
    exact, compact, recomputed = (Cost(*pair, metric, storage=storage) for storage in STORAGES)
    np.testing.assert_allclose(recomputed.block(0, 150), exact.block(0, 150), rtol=1e-6, atol=1e-6 * exact.maximum)
    difference = np.abs(compact.block(0, 150).astype(np.float64) - exact.block(0, 150))
    assert difference.max() <= compact.storage_error
    assert 0 < compact.storage_error < 1e-5 * exact.maximum
    assert exact.storage_error == recomputed.storage_error == 0
    assert exact.maximum == pytest.approx(compact.maximum) == pytest.approx(recomputed.maximum)
    assert [cost.storage for cost in (exact, compact, recomputed)] == list(STORAGES)


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), offset=st.sampled_from([0.0, 1.0, 30.0]))
def test_the_compact_error_is_within_its_bound(seed, offset):
    generator = np.random.default_rng(seed)
    source, target = generator.uniform(size=(6, 1)) + offset, generator.uniform(size=(40, 1))
    compact, exact = Cost(source, target, storage="compact"), Cost(source, target, storage="float32")
    difference = np.abs(compact.block(0, 6).astype(np.float64) - exact.block(0, 6))
    assert difference.max() <= compact.storage_error


@pytest.mark.parametrize("storage", STORAGES)
def test_blocks_are_rows_of_the_whole(pair, storage):
    cost = Cost(*pair, "l2", storage=storage)
    whole = cost.block(0, 150)
    assert whole.dtype == np.float32
    for start, stop in ((0, 1), (7, 100), (149, 150), (20, 20)):
        part = cost.block(start, stop)
        assert part.shape == (stop - start, 97)
        np.testing.assert_allclose(part, whole[start:stop], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("storage", STORAGES)
def test_what_is_done_to_a_block_does_not_change_the_cost(pair, storage):
    cost = Cost(*pair, storage=storage)
    block = cost.block(0, 150)
    before = block.copy()
    block /= block.max()
    np.testing.assert_array_equal(cost.block(0, 150), before)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 4), (0, 151), (151, 151)])
def test_rows_outside_are_refused(pair, start, stop):
    with pytest.raises(InputError, match="150"):
        Cost(*pair).block(start, stop)


def test_the_result_does_not_depend_on_the_number_of_threads(pair, monkeypatch):
    blocks = []
    for threads in ("1", "3"):
        monkeypatch.setenv("BISPECTRAL_OT_THREADS", threads)
        blocks.append(Cost(*pair, "l1").block(0, 150))
    np.testing.assert_array_equal(*blocks)


def test_equal_features_give_a_zero_cost_of_scale_one():
    for storage in STORAGES:
        cost = Cost(np.ones((4, 3)), np.ones((6, 3)), storage=storage)
        assert cost.maximum == 0
        assert cost.scale == 1
        assert (cost.block(0, 4) == 0).all()


def test_progress_ends_at_the_number_of_rows(pair):
    calls = []
    with runtime.running(progress=lambda *call: calls.append(call)):
        Cost(*pair)
    assert calls[-1] == ("cost", 150, 150)


# Scale


@pytest.mark.parametrize("storage", STORAGES)
def test_a_scale_is_kept_and_changes_no_distance(pair, storage):
    scaled, plain = Cost(*pair, storage=storage, scale=7), Cost(*pair, storage=storage)
    assert (scaled.scale, plain.scale) == (7.0, plain.maximum)
    assert scaled.maximum == plain.maximum
    np.testing.assert_array_equal(scaled.block(0, 150), plain.block(0, 150))
    assert Cost.from_matrix([[1.0, 2.0]], scale=0.5).scale == 0.5


# From a distance of one's own


class Hamming(Distance):
    """Of words, without anything that a distance may have in addition."""

    metric = "hamming"

    def __init__(self, source, target, *, bad_row=None):
        self.source, self.target, self.shape = source, target, (len(source), len(target))
        self.bad_row = bad_row

    def rows(self, start, stop):
        found = (self.source[start:stop, None] != self.target).sum(axis=2).astype(np.float32)
        if self.bad_row is not None and start <= self.bad_row < stop:
            found[self.bad_row - start, -1] = np.nan
        return found


class Places(Hamming):
    """A distance that knows its bad rows."""

    def check_finite(self):
        raise InputError("word 3 has no letters")


def words(n, seed):
    return np.random.default_rng(seed).integers(0, 3, (n, 5))


@pytest.mark.parametrize("storage", STORAGES)
def test_a_distance_of_ones_own_is_kept_like_any_other(storage):
    source, target = words(300, 0), words(200, 1)
    cost = Cost.from_distance(Hamming(source, target), storage=storage, scale=5)
    expected = [[sum(a != b for a, b in zip(x, y, strict=True)) for y in target] for x in source[100:110]]
    np.testing.assert_allclose(cost.block(100, 110), expected, atol=cost.storage_error)
    assert (cost.metric, cost.storage, cost.shape, cost.scale) == ("hamming", storage, (300, 200), 5)
    assert cost.maximum == 5


@pytest.mark.parametrize("storage", STORAGES)
def test_a_distance_that_is_not_a_number_is_refused(storage):
    with pytest.raises(InputError, match="hamming distances go beyond the range of float32"):
        Cost.from_distance(Hamming(words(90, 0), words(8, 1), bad_row=70), storage=storage)
    with pytest.raises(InputError, match="word 3 has no letters"):
        Cost.from_distance(Places(words(90, 0), words(8, 1), bad_row=70), storage=storage)


@pytest.mark.parametrize("storage", STORAGES)
def test_blocks_are_placed_and_worked_on_by_the_engine_that_is_given(pair, storage):
    class Counting(Threads):
        used = 0

        def map(self, *work, **options):
            self.used += 1
            return super().map(*work, **options)

        def reduce(self, *work, **options):
            self.used += 100
            return super().reduce(*work, **options)

    engine = Counting()
    cost = Cost.from_distance(FeatureDistance(*pair, "l1"), storage=storage, engine=engine)
    used = engine.used
    assert used > 0
    assert cost.engine is engine
    cost.sweep(np.zeros(150), np.zeros(97), np.ones(150), unit=1.0)
    assert engine.used >= used + 100


# From a matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7, 9), (300, 200)])  # one block, and several
def test_a_given_matrix_is_the_cost_in_its_own_precision(dtype, shape):
    matrix = np.random.default_rng(2).uniform(size=shape).astype(dtype)
    cost = Cost.from_matrix(matrix)
    assert cost.block(2, 5).dtype == dtype
    np.testing.assert_allclose(cost.block(0, shape[0]), matrix, rtol=0, atol=4e-16)
    np.testing.assert_array_equal(cost.block(2, 5), cost.block(0, shape[0])[2:5])
    assert cost.block(3, 3).shape == (0, shape[1])
    assert cost.block(3, 3).dtype == dtype
    assert cost.shape == shape
    assert (cost.storage, cost.metric, cost.storage_error) == (np.dtype(dtype).name, "precomputed", 0)
    assert cost.maximum == cost.scale == matrix.max()
    assert "precomputed" in repr(cost)


@pytest.mark.parametrize("numbers", [[[1, 2], [3, 4]], [[1e300, 0.0], [3.0, 4.0]], [[1e-320, 0.0], [0.0, 1e-46]]])
def test_numbers_of_any_size_keep_their_digits(numbers):
    cost = as_cost(numbers)
    assert cost.storage == "float64"
    np.testing.assert_allclose(cost.block(0, 2), numbers, rtol=1e-15)
    assert cost.maximum == np.max(numbers)


@pytest.mark.parametrize("size", [1e-40, 1e35])
def test_float32_numbers_near_the_ends_of_their_range_are_kept_in_float64(size):
    matrix = np.array([[0, size], [size / 2, size]], np.float32)
    cost = Cost.from_matrix(matrix)
    assert cost.storage == "float64"
    np.testing.assert_allclose(cost.block(0, 2), matrix, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_cost_shares_no_memory_with_a_given_matrix_or_its_block(dtype):
    matrix = np.arange(12, dtype=dtype).reshape(3, 4)
    cost, before = Cost.from_matrix(matrix), matrix.copy()
    cost.block(0, 3)[:] = 100
    matrix += 1
    np.testing.assert_array_equal(cost.block(0, 3), before)


def test_a_cost_is_its_own_cost(pair):
    cost = Cost(*pair)
    assert as_cost(cost) is cost


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.ones(3), "shape"),
        (np.ones((0, 3)), "non-empty"),
        (np.ones((2, 2, 2)), "shape"),
        ([[1.0, 2.0], [3.0, np.nan]], r"\[1, 1\]"),
        ([[1.0, np.inf]], r"\[0, 1\]"),
        ([[1.0, -1e-3]], "negative"),
        (np.ones((2, 2)) * 1j, "complex"),
        ("abc", "must be an array of numbers"),
        ([[1.0], [1.0, 2.0]], "must be an array of numbers"),
    ],
)
def test_a_matrix_that_is_no_cost_is_refused(matrix, words):
    with pytest.raises(InputError, match=words):
        Cost.from_matrix(matrix)


# What is refused


def bad_rows(value):
    x = np.ones((6, 3))
    x[4, 1] = value
    return x


@pytest.mark.parametrize(
    ("source", "target", "options", "words"),
    [
        (bad_rows(np.nan), np.ones((2, 3)), {}, "row 4 of source"),
        (np.ones((2, 3)), bad_rows(-np.inf), {}, "row 4 of target"),
        (bad_rows(1e300), np.ones((2, 3)), {}, "row 4 of source"),
        (np.ones((2, 3)), np.ones((2, 4)), {}, "3 columns but target has 4"),
        (np.ones(3), np.ones((2, 3)), {}, "shape"),
        (np.ones((0, 3)), np.ones((2, 3)), {}, "non-empty"),
        (np.ones((2, 0)), np.ones((2, 0)), {}, "non-empty"),
        (np.ones((2, 3)) * 1j, np.ones((2, 3)), {}, "complex"),
        ("a", np.ones((2, 3)), {}, "source must be an array of numbers"),
        (np.ones((2, 3)), [[1.0, 2.0, 3.0], [1.0]], {}, "target must be an array of numbers"),
        (np.ones((2, 3)), np.ones((2, 3)), {"weights": ["x", "y", "z"]}, "weights must be an array of numbers"),
        (np.ones((2, 3)), np.ones((2, 3)), {"metric": "manhattan"}, "l1, l2, sqeuclidean, cosine"),
        (np.ones((2, 3)), np.ones((2, 3)), {"weights": [1, -1, 1]}, "negative"),
        (np.ones((2, 3)), np.ones((2, 3)), {"weights": [1, np.nan, 1]}, "finite"),
        (np.ones((2, 3)), np.ones((2, 3)), {"weights": [1, 1]}, "3 columns"),
        (np.ones((2, 3)), np.ones((2, 3)), {"storage": "float16"}, "float32, compact, recompute"),
        (np.ones((2, 3)), np.ones((2, 3)), {"scale": 0}, "scale must be a positive number, got 0"),
        (np.ones((2, 3)), np.ones((2, 3)), {"scale": float("inf")}, "scale must be a positive number"),
    ],
)
def test_bad_input_is_named(source, target, options, words):
    with pytest.raises(InputError, match=words):
        Cost(source, target, **options)


@pytest.mark.parametrize(
    ("metric", "storage", "value", "side"),
    [
        ("l1", "float32", np.nan, "source"),
        ("l2", "compact", np.inf, "target"),
        ("sqeuclidean", "recompute", np.nan, "target"),
        ("cosine", "float32", np.inf, "source"),
    ],
)
def test_bad_rows_of_memory_maps_are_named_too(metric, storage, value, side, tmp_path):
    good = np.ones((300, 3), np.float32)
    bad = good.copy()
    bad[270, 1] = value
    np.save(tmp_path / "bad.npy", bad)
    mapped = np.load(tmp_path / "bad.npy", mmap_mode="r")
    with pytest.raises(InputError, match=f"row 270 of {side}"):
        Cost(*((mapped, good) if side == "source" else (good, mapped)), metric, storage=storage)


def test_distances_beyond_float32_are_refused():
    x = np.array([[0.0, 1e25], [1.0, 0.0]])
    with pytest.raises(InputError, match="float32"):
        Cost(x, x, "sqeuclidean")
