"""A cost as a whole: storages and their errors, budgets, blocks, and what is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bispectral_ot.costs import METRICS, STORAGES, Cost, choose_storage
from bispectral_ot.costs.cost import storage_bytes
from bispectral_ot.costs.kernels import quantise_rows
from bispectral_ot.errors import InputError, MemoryBudgetError


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


@settings(max_examples=200)
@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 40)),
        elements=st.floats(0, 2.0**100, width=32, allow_subnormal=False),
    )
)
def test_codes_of_16_bits_are_within_half_a_step(block):
    n = len(block)
    codes, offsets, steps = np.empty(block.shape, np.uint16), np.empty(n), np.empty(n)
    quantise_rows(block, codes, offsets, steps)
    decoded = offsets[:, None] + steps[:, None] * codes
    slack = 1e-9 * np.abs(block).max()
    assert (np.abs(decoded - block) <= steps[:, None] / 2 + slack).all()
    assert (steps >= 0).all()


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), offset=st.sampled_from([0.0, 1.0, 30.0]))
def test_the_compact_error_is_within_its_bound(seed, offset):
    generator = np.random.default_rng(seed)
    xa, xb = generator.uniform(size=(6, 1)) + offset, generator.uniform(size=(40, 1))
    compact, exact = Cost(xa, xb, storage="compact"), Cost(xa, xb, storage="float32")
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
    np.testing.assert_allclose(cost.scaled_block(3, 9), whole[3:9] / cost.maximum, rtol=1e-6, atol=1e-6)
    encoded = cost.encoded(5, 60)
    decoded = encoded.offsets[:, None] + encoded.steps[:, None] * encoded.codes
    np.testing.assert_allclose(decoded, whole[5:60], rtol=1e-6, atol=1e-6)


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


def test_swapping_the_sides_transposes(pair):
    xa, xb = pair
    for metric in METRICS:
        np.testing.assert_allclose(
            Cost(xb, xa, metric).block(0, 97).T, Cost(xa, xb, metric).block(0, 150), rtol=1e-5, atol=1e-5
        )


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
        assert (cost.scaled_block(0, 4) == 0).all()


def test_progress_ends_at_the_number_of_rows(pair):
    calls = []
    Cost(*pair, progress=lambda *call: calls.append(call))
    assert calls[-1] == ("cost", 150, 150)


# Budgets


@pytest.mark.parametrize("metric", ["l1", "sqeuclidean"])
@pytest.mark.parametrize("wanted", STORAGES)
def test_the_budget_chooses_the_most_exact_storage_that_fits_and_it_does_fit(metric, wanted):
    generator = np.random.default_rng(1)
    xa, xb = (generator.normal(size=(n, 50)).astype(np.float32) for n in (2500, 2000))
    needs = storage_bytes((2500, 2000), feature_bytes=xa.nbytes + xb.nbytes, block_rows=64 if metric == "l1" else 256)
    tracemalloc.start()
    cost = Cost(xa, xb, metric, working_memory=needs[wanted])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cost.storage == wanted
    assert peak + xa.nbytes + xb.nbytes <= needs[wanted]


def test_storages_need_less_and_less():
    needs = storage_bytes((30_000, 30_000), feature_bytes=960_000_000)
    assert needs["float32"] > needs["compact"] > needs["recompute"] > 960_000_000
    assert needs["float32"] - needs["compact"] == 2 * 30_000**2
    assert choose_storage((30_000, 30_000), feature_bytes=0, working_memory="4GB") == "float32"
    assert choose_storage((53_424, 53_424), feature_bytes=0, working_memory="10GB") == "compact"


def test_a_budget_that_is_too_small_says_what_each_storage_needs(pair):
    with pytest.raises(MemoryBudgetError) as raised:
        Cost(*pair, working_memory="1MB")
    message = str(raised.value)
    assert all(storage in message for storage in STORAGES)
    assert "1.0 MB" in message
    assert message.count(" MB (") == 3
    assert "150 x 97" in message


def test_a_named_storage_that_does_not_fit_is_an_error_not_another_storage():
    needs = storage_bytes((1000, 1000), feature_bytes=0)
    with pytest.raises(MemoryBudgetError, match="float32") as raised:
        choose_storage((1000, 1000), feature_bytes=0, storage="float32", working_memory=needs["compact"])
    assert "recompute" not in str(raised.value)


def test_a_named_storage_that_fits_is_taken():
    for storage in STORAGES:
        assert choose_storage((9, 9), feature_bytes=0, storage=storage, working_memory="1GB") == storage


def test_mapped_features_do_not_count(tmp_path):
    x = np.zeros((1000, 5000), np.float32)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    budget = storage_bytes((1000, 1000), feature_bytes=0, block_rows=512)["float32"]
    assert Cost(mapped, mapped, working_memory=budget).storage == "float32"
    with pytest.raises(MemoryBudgetError, match=r"40\.0 MB are features"):
        Cost(x, x, working_memory="100MB")


# From a matrix


def test_a_given_matrix_is_the_cost():
    matrix = np.random.default_rng(2).uniform(size=(7, 9))
    cost = Cost.from_matrix(matrix)
    np.testing.assert_allclose(cost.block(2, 5), matrix[2:5], rtol=1e-7)
    assert cost.shape == (7, 9)
    assert (cost.storage, cost.metric, cost.storage_error) == ("float32", "precomputed", 0)
    assert cost.maximum == pytest.approx(matrix.max())
    assert cost.scaled_block(0, 7).max() == 1


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.ones(3), "shape"),
        (np.ones((0, 3)), "non-empty"),
        (np.ones((2, 2, 2)), "shape"),
        ([[1.0, 2.0], [3.0, np.nan]], r"\[1, 1\]"),
        ([[1.0, np.inf]], r"\[0, 1\]"),
        ([[1.0, 1e300]], r"\[0, 1\]"),
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
    ("xa", "xb", "options", "words"),
    [
        (bad_rows(np.nan), np.ones((2, 3)), {}, "row 4 of xa"),
        (np.ones((2, 3)), bad_rows(-np.inf), {}, "row 4 of xb"),
        (bad_rows(1e300), np.ones((2, 3)), {}, "row 4 of xa"),
        (np.ones((2, 3)), np.ones((2, 4)), {}, "3 columns but xb has 4"),
        (np.ones(3), np.ones((2, 3)), {}, "shape"),
        (np.ones((0, 3)), np.ones((2, 3)), {}, "non-empty"),
        (np.ones((2, 0)), np.ones((2, 0)), {}, "non-empty"),
        (np.ones((2, 3)) * 1j, np.ones((2, 3)), {}, "complex"),
        ("a", np.ones((2, 3)), {}, "xa must be an array of numbers"),
        (np.ones((2, 3)), [[1.0, 2.0, 3.0], [1.0]], {}, "xb must be an array of numbers"),
        (np.ones((2, 3)), np.ones((2, 3)), {"weights": ["x", "y", "z"]}, "weights must be an array of numbers"),
        (np.ones((2, 3)), np.ones((2, 3)), {"metric": "manhattan"}, "l1, l2, sqeuclidean, cosine"),
        (np.ones((2, 3)), np.ones((2, 3)), {"weights": [1, -1, 1]}, "negative"),
        (np.ones((2, 3)), np.ones((2, 3)), {"weights": [1, np.nan, 1]}, "finite"),
        (np.ones((2, 3)), np.ones((2, 3)), {"weights": [1, 1]}, "3 columns"),
        (np.ones((2, 3)), np.ones((2, 3)), {"storage": "float16"}, "float32, compact, recompute"),
        (np.ones((2, 3)), np.ones((2, 3)), {"working_memory": "lots"}, "lots"),
    ],
)
def test_bad_input_is_named(xa, xb, options, words):
    with pytest.raises(InputError, match=words):
        Cost(xa, xb, **options)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("side", ["xa", "xb"])
def test_bad_rows_of_memory_maps_are_named_too(metric, storage, value, side, tmp_path):
    good = np.ones((300, 3), np.float32)
    bad = good.copy()
    bad[270, 1] = value
    np.save(tmp_path / "bad.npy", bad)
    mapped = np.load(tmp_path / "bad.npy", mmap_mode="r")
    with pytest.raises(InputError, match=f"row 270 of {side}"):
        Cost(*((mapped, good) if side == "xa" else (good, mapped)), metric, storage=storage)


def test_distances_beyond_float32_are_refused():
    x = np.array([[0.0, 1e25], [1.0, 0.0]])
    with pytest.raises(InputError, match="float32"):
        Cost(x, x, "sqeuclidean")
