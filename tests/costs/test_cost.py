"""A cost as a whole: storages within a budget and their errors, blocks, given matrices, and what is refused."""

import itertools
import tracemalloc

import numpy as np
import pytest

from bispectral_ot import runtime
from bispectral_ot.costs import METRICS, STORAGES, Cost, Distance
from bispectral_ot.costs import plan_storage as plan_within
from bispectral_ot.costs.cost import storage_bytes
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
    assert difference.max() <= compact.storage_error < 1e-5 * exact.maximum
    assert exact.storage_error == recomputed.storage_error == 0 < compact.storage_error
    assert exact.maximum == pytest.approx(compact.maximum) == pytest.approx(recomputed.maximum)
    assert [cost.storage for cost in (exact, compact, recomputed)] == list(STORAGES)


@pytest.mark.parametrize("storage", STORAGES)
def test_blocks_are_rows_of_the_whole_and_never_views(pair, storage):
    calls = []
    with runtime.running(progress=lambda *call: calls.append(call)):
        cost = Cost(*pair, "l2", storage=storage, scale=7)
    assert calls[-1] == ("cost", 150, 150)
    assert cost.scale == 7 != cost.maximum
    whole = cost.block(0, 150)
    before = whole.copy()
    assert whole.dtype == np.float32
    whole /= whole.max()
    for start, stop in ((0, 150), (0, 1), (7, 100), (149, 150), (20, 20)):
        part = cost.block(start, stop)
        assert part.shape == (stop - start, 97)
        np.testing.assert_allclose(part, before[start:stop], rtol=1e-6, atol=1e-6)
    for start, stop in ((-1, 3), (5, 4), (0, 151), (151, 151)):
        with pytest.raises(InputError, match="150"):
            cost.block(start, stop)
    zero = Cost(np.ones((4, 3)), np.ones((6, 3)), storage=storage)
    assert (zero.maximum, zero.scale) == (0, 1)
    assert (zero.block(0, 4) == 0).all()


def plan_storage(*arguments, working_memory=None, **options):
    with runtime.running(memory=working_memory):
        return plan_within(*arguments, **options)


@pytest.mark.parametrize(("metric", "wanted"), [("l1", "float32"), ("sqeuclidean", "compact"), ("l1", "recompute")])
def test_the_budget_chooses_the_most_exact_storage_that_fits_and_it_does_fit(metric, wanted):
    generator = np.random.default_rng(1)
    source, target = (generator.normal(size=(n, 50)).astype(np.float32) for n in (2500, 2000))
    features = source.nbytes + target.nbytes
    needs = storage_bytes((2500, 2000), feature_bytes=features, block_rows=64 if metric == "l1" else 256)
    tracemalloc.start()
    with runtime.running(memory=needs[wanted]):
        cost = Cost(source, target, metric)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cost.storage == wanted
    assert peak + features <= needs[wanted]


def test_one_byte_less_takes_the_next_storage_and_mapped_features_do_not_count(tmp_path):
    shape, features = (3000, 2000), 10**6
    needs = storage_bytes(shape, feature_bytes=features)
    assert needs["float32"] - needs["compact"] == 2 * 3000 * 2000
    for wanted, following in itertools.pairwise(STORAGES):
        assert plan_storage(shape, feature_bytes=features, working_memory=needs[wanted]).storage == wanted
        assert plan_storage(shape, feature_bytes=features, working_memory=needs[wanted] - 1).storage == following
        mapped = plan_storage(shape, feature_bytes=features, may_map=True, working_memory=needs[wanted] - 1)
        assert mapped == (wanted, True)
    with pytest.raises(MemoryBudgetError, match=r"3,000 x 2,000.*1\.0 MB are features"):
        plan_storage(shape, feature_bytes=features, working_memory=needs["recompute"] - 1)
    np.save(tmp_path / "x.npy", np.zeros((1000, 5000), np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    with runtime.running(memory=storage_bytes((1000, 1000), feature_bytes=0, block_rows=512)["float32"]):
        assert Cost(mapped, mapped).storage == "float32"


def test_costs_beyond_a_gigabyte_are_compact():
    """16 bits are read as fast, and 30,000 x 30,000 then take 1.8 GB in place of 3.6."""
    for n, storage in ((16_384, "float32"), (16_385, "compact"), (30_000, "compact")):
        assert plan_storage((n, n), feature_bytes=0, working_memory="100GB").storage == storage
    assert plan_storage((30_000, 30_000), feature_bytes=0, storage="float32").storage == "float32"


def test_a_named_storage_and_a_solver_are_counted_and_errors_say_what_is_needed(pair):
    need = storage_bytes((1000, 1000), feature_bytes=0)
    solver = {"feature_bytes": 0, "solver_bytes": 41_000_000}
    assert plan_storage((1000, 1000), working_memory=need["float32"] + 41_000_000, **solver).storage == "float32"
    with pytest.raises(MemoryBudgetError, match=r"needs 41\.0 MB for them.*Use Sinkhorn"):
        plan_storage((1000, 1000), working_memory=need["float32"], **solver)
    with pytest.raises(MemoryBudgetError, match=r"\(float32\), of which"):
        plan_storage((1000, 1000), feature_bytes=0, storage="float32", working_memory=need["compact"])
    words = r"150 x 97 .*1\.0 MB: .*float32.*compact.*recompute"
    with pytest.raises(MemoryBudgetError, match=words), runtime.running(memory="1MB"):
        Cost(*pair)


class Hamming(Distance):
    """Of words, without anything that a distance may have in addition."""

    metric = "hamming"

    def __init__(self, source, target, *, bad_row=-1):
        self.source, self.target, self.shape = source, target, (len(source), len(target))
        self.bad_row = bad_row

    def rows(self, start, stop):
        found = (self.source[start:stop, None] != self.target).sum(axis=2).astype(np.float32)
        found[np.arange(start, stop) == self.bad_row, -1] = np.nan
        return found


def test_a_distance_of_ones_own_is_kept_like_any_other():
    source, target = (np.random.default_rng(seed).integers(0, 3, (n, 5)) for seed, n in ((0, 300), (1, 200)))
    expected = [[sum(a != b for a, b in zip(x, y, strict=True)) for y in target] for x in source[100:110]]
    for storage in STORAGES:
        cost = Cost.from_distance(Hamming(source, target), storage=storage, scale=5)
        np.testing.assert_allclose(cost.block(100, 110), expected, atol=cost.storage_error)
        assert (cost.metric, cost.storage, cost.shape, cost.scale) == ("hamming", storage, (300, 200), 5)
        with pytest.raises(InputError, match="hamming distances go beyond the range of float32"):
            Cost.from_distance(Hamming(source, target, bad_row=70), storage=storage)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7, 9), (300, 200)])  # one block, and several
def test_a_given_matrix_is_copied_in_its_own_precision(dtype, shape):
    matrix = np.random.default_rng(2).uniform(size=shape).astype(dtype)
    cost, before = Cost.from_matrix(matrix, scale=0.5), matrix.copy()
    cost.block(0, shape[0])[:] = 100
    matrix += 1
    np.testing.assert_allclose(cost.block(0, shape[0]), before, rtol=0, atol=4e-16)
    assert cost.block(2, 5).dtype == cost.block(3, 3).dtype == dtype
    assert (cost.storage, cost.metric, cost.storage_error) == (np.dtype(dtype).name, "precomputed", 0)
    assert (cost.maximum, cost.scale) == (before.max(), 0.5)


def test_numbers_of_any_size_keep_their_digits():
    small = np.array([[0, 1e-40], [5e-41, 1e-40]], np.float32)
    for numbers in ([[1, 2], [3, 4]], [[1e300, 0.0], [3.0, 4.0]], [[1e-320, 0.0], [0.0, 1e-46]], small):
        cost = Cost.from_matrix(numbers)
        assert cost.storage == "float64"
        np.testing.assert_allclose(cost.block(0, 2), numbers, rtol=1e-15)
        assert cost.maximum == np.max(numbers)


def test_a_matrix_that_is_no_cost_is_refused():
    wrong = {
        "non-empty": np.ones((0, 3)),
        r"\[1, 1\]": [[1.0, 2.0], [3.0, np.nan]],
        "negative": [[1.0, -1e-3]],
        "complex": np.ones((2, 2)) * 1j,
        "must be an array of numbers": [[1.0], [1.0, 2.0]],
    }
    for words, matrix in wrong.items():
        with pytest.raises(InputError, match=words):
            Cost.from_matrix(matrix)


def bad_rows(value):
    x = np.ones((6, 3))
    x[4, 1] = value
    return x


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (bad_rows(np.nan), {}, "row 4 of source"),
        (bad_rows(1e300), {}, "row 4 of source"),
        (np.ones((2, 4)), {}, "4 columns but target has 3"),
        (np.ones((0, 3)), {}, "non-empty"),
        ([[1.0, 2.0, 3.0], [1.0]], {}, "source must be an array of numbers"),
        (np.ones((2, 3)), {"metric": "manhattan"}, "l1, l2, sqeuclidean, cosine"),
        (np.ones((2, 3)), {"weights": [1, -1, 1]}, "negative"),
        (np.ones((2, 3)), {"weights": [1, 1]}, "3 columns"),
        (np.ones((2, 3)), {"scale": 0}, "scale must be a positive number, got 0"),
        (np.array([[0.0, 1e25, 0.0]]), {"metric": "sqeuclidean"}, "beyond the range of float32"),
    ],
)
def test_bad_input_is_named(source, options, words):
    with pytest.raises(InputError, match=words):
        Cost(source, np.ones((2, 3)), **options)


@pytest.mark.parametrize(
    ("metric", "storage", "value", "side"),
    [("l1", "float32", np.nan, "source"), ("cosine", "recompute", np.inf, "target")],
)
def test_bad_rows_of_memory_maps_are_also_named(metric, storage, value, side, tmp_path):
    good = np.ones((300, 3), np.float32)
    bad = good.copy()
    bad[270, 1] = value
    np.save(tmp_path / "bad.npy", bad)
    mapped = np.load(tmp_path / "bad.npy", mmap_mode="r")
    with pytest.raises(InputError, match=f"row 270 of {side}"):
        Cost(*((mapped, good) if side == "source" else (good, mapped)), metric, storage=storage)
