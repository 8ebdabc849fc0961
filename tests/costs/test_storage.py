"""Which storage a byte budget allows, and whether the work then stays within it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from bispectral_ot import costs, runtime
from bispectral_ot.costs import STORAGES
from bispectral_ot.costs.storage import storage_bytes
from bispectral_ot.errors import InputError, MemoryBudgetError


def within(working_memory, function, *arguments, **options):
    with runtime.running(memory=working_memory):
        return function(*arguments, **options)


def plan_storage(*arguments, working_memory=None, **options):
    return within(working_memory, costs.plan_storage, *arguments, **options)


def Cost(*arguments, working_memory):  # noqa: N802
    return within(working_memory, costs.Cost, *arguments)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "2")


@pytest.mark.parametrize("metric", ["l1", "sqeuclidean"])
@pytest.mark.parametrize("wanted", STORAGES)
def test_the_budget_chooses_the_most_exact_storage_that_fits_and_it_does_fit(metric, wanted):
    generator = np.random.default_rng(1)
    source, target = (generator.normal(size=(n, 50)).astype(np.float32) for n in (2500, 2000))
    features = source.nbytes + target.nbytes
    needs = storage_bytes((2500, 2000), feature_bytes=features, block_rows=64 if metric == "l1" else 256)
    tracemalloc.start()
    cost = Cost(source, target, metric, working_memory=needs[wanted])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cost.storage == wanted
    assert peak + features <= needs[wanted]


def test_storages_need_less_and_less():
    needs = storage_bytes((30_000, 30_000), feature_bytes=960_000_000)
    assert needs["float32"] > needs["compact"] > needs["recompute"] > 960_000_000
    assert needs["float32"] - needs["compact"] == 2 * 30_000**2
    assert plan_storage((30_000, 30_000), feature_bytes=0, working_memory="4GB").storage == "float32"
    assert plan_storage((53_424, 53_424), feature_bytes=0, working_memory="10GB").storage == "compact"


@pytest.mark.parametrize("wanted", STORAGES)
def test_one_byte_less_takes_the_next_storage(wanted):
    need = storage_bytes((3000, 2000), feature_bytes=10**6)[wanted]
    assert plan_storage((3000, 2000), feature_bytes=10**6, working_memory=need).storage == wanted
    if wanted == "recompute":
        with pytest.raises(MemoryBudgetError, match="3,000 x 2,000"):
            plan_storage((3000, 2000), feature_bytes=10**6, working_memory=need - 1)
    else:
        less = plan_storage((3000, 2000), feature_bytes=10**6, working_memory=need - 1).storage
        assert less == STORAGES[STORAGES.index(wanted) + 1]


def test_features_are_mapped_where_only_that_makes_a_more_exact_storage_fit():
    shape, features = (3000, 2000), 10**9
    without = storage_bytes(shape, feature_bytes=0)
    assert plan_storage(shape, feature_bytes=features, may_map=True, working_memory="3GB") == ("float32", False)
    for storage, budget in without.items():
        plan = plan_storage(shape, feature_bytes=features, may_map=True, working_memory=budget)
        assert plan == (storage, True)
    with pytest.raises(MemoryBudgetError, match="of which 0 B are features"):
        plan_storage(shape, feature_bytes=features, may_map=True, working_memory=without["recompute"] - 1)


def test_what_the_solver_takes_is_counted():
    need = storage_bytes((1000, 1000), feature_bytes=0)["float32"]
    solver = {"feature_bytes": 0, "solver_bytes": 41_000_000}
    assert plan_storage((1000, 1000), working_memory=need + 41_000_000, **solver).storage == "float32"
    assert plan_storage((1000, 1000), working_memory=need + 41_000_000 - 1, **solver).storage == "compact"
    with pytest.raises(MemoryBudgetError, match=r"needs 41\.0 MB for them.*Use Sinkhorn"):
        plan_storage((1000, 1000), working_memory=need, **solver)


def test_a_budget_that_is_too_small_says_what_each_storage_needs():
    with pytest.raises(MemoryBudgetError) as raised:
        Cost(np.ones((150, 24)), np.ones((97, 24)), working_memory="1MB")
    message = str(raised.value)
    assert all(storage in message for storage in STORAGES)
    assert "1.0 MB" in message
    assert message.count(" MB (") == 3
    assert "150 x 97" in message


def test_a_named_storage_that_does_not_fit_is_an_error_not_another_storage():
    needs = storage_bytes((1000, 1000), feature_bytes=0)
    with pytest.raises(MemoryBudgetError, match="float32") as raised:
        plan_storage((1000, 1000), feature_bytes=0, storage="float32", working_memory=needs["compact"])
    assert "recompute" not in str(raised.value)


def test_a_named_storage_is_taken_if_it_fits_or_no_budget_is_given():
    for storage in STORAGES:
        assert plan_storage((9, 9), feature_bytes=0, storage=storage, working_memory="1GB").storage == storage
        assert plan_storage((10**7, 10**7), feature_bytes=0, storage=storage).storage == storage


def test_an_unknown_storage_is_refused():
    with pytest.raises(InputError, match="float32, compact, recompute"):
        plan_storage((9, 9), feature_bytes=0, storage="float16")


def test_mapped_features_do_not_count(tmp_path):
    x = np.zeros((1000, 5000), np.float32)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    budget = storage_bytes((1000, 1000), feature_bytes=0, block_rows=512)["float32"]
    assert Cost(mapped, mapped, working_memory=budget).storage == "float32"
    with pytest.raises(MemoryBudgetError, match=r"40\.0 MB are features"):
        Cost(x, x, working_memory="100MB")
