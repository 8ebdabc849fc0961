"""The Dask engine on real processes: the same results as threads, and workers that die, stop or do not fit."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.costs import Cost
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.transport import Sinkhorn

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def engine(client):
    from bispectral_ot.engines.dask import Dask

    client.wait_for_workers(2, timeout=30)
    return Dask(client, timeout=60)


@pytest.fixture(scope="module")
def pair():
    random = np.random.default_rng(0)
    return random.normal(size=(700, 12)).astype(np.float32), random.normal(size=(450, 12)).astype(np.float32)


def test_map_gives_the_results_in_order(engine):
    values = np.arange(103.0)
    found = engine.map(times, row_blocks(103, block_rows=10), rows=[values], shared=[3.0])
    np.testing.assert_array_equal(np.concatenate(list(found)), 3 * values)


def test_large_arrays_are_shared_and_cut(engine):
    rows, shared = np.random.default_rng(1).random((2, 100_000))
    blocks = row_blocks(len(rows), block_rows=1000)
    here, there = (each.reduce(row_and_total, blocks, rows=[rows], shared=[shared]) for each in (Threads(), engine))
    np.testing.assert_array_equal(there.rows[0], here.rows[0])
    np.testing.assert_allclose(there.totals[0], here.totals[0], rtol=1e-12)


def times(block, values, factor):
    return factor * values


def row_and_total(block, values, weights):
    return (values * weights[block.start : block.stop],), (values.sum() * weights,)


@pytest.mark.parametrize("metric", ["l1", "sqeuclidean"])
@pytest.mark.parametrize("storage", ["float32", "compact", "recompute"])
def test_the_same_plan_as_with_threads(engine, pair, metric, storage):
    here, there = (Cost(*pair, metric, storage=storage, engine=each) for each in (Threads(), engine))
    assert there.maximum == pytest.approx(here.maximum, rel=1e-6)
    assert there.storage_error == pytest.approx(here.storage_error, rel=1e-6)
    np.testing.assert_allclose(there.block(130, 400), here.block(130, 400), rtol=1e-5, atol=1e-5)
    solver = Sinkhorn(reg=0.02, tol=1e-6)
    one, other = solver.solve(here), solver.solve(there)
    assert other.transport_cost == pytest.approx(one.transport_cost, rel=1e-6)
    np.testing.assert_allclose(other.rows(333, 402), one.rows(333, 402), atol=1e-9)
    np.testing.assert_array_equal(other.summary(k=3).top_indices, one.summary(k=3).top_indices)


def test_a_given_matrix_and_newton_steps(engine, pair):
    matrix = np.abs(pair[0][:200, :1] - pair[1][:180, 0])
    solver = Sinkhorn(reg=5e-4, tol=1e-8)
    one, other = solver.solve(matrix), solver.solve(Cost.from_matrix(matrix, engine=engine))
    assert other.converged
    assert other.transport_cost == pytest.approx(one.transport_cost, rel=1e-6)


@pytest.mark.parametrize("options", [{}, {"pca": 16}, {"marginals": "estimated"}, {"features": "aligned"}], ids=str)
def test_the_same_match(client, options):
    source, target = bot.split_halves(bot.load("digits"), per_class=20)
    source = bot.rotate_randomly(source)
    options = {"solver": Sinkhorn(tol=1e-7)} | options  # rounding decides on the last pass
    here, there = bot.match(source, target, **options), bot.match(source, target, client=client, **options)
    assert there.distance == pytest.approx(here.distance, rel=1e-6)
    np.testing.assert_array_equal(there.top_matches(3).indices, here.top_matches(3).indices)
    assert {k: v for k, v in there.settings.items() if k != "kept_variance"} == {
        k: v for k, v in here.settings.items() if k != "kept_variance"
    }


def test_the_same_comparison(client):
    first, second = bot.split_halves(bot.load("digits"), per_class=10)
    here, there = (bot.compare({"first": first, "second": second}, labels=True, client=c) for c in (None, client))
    pairs = [each.pair("first", "second") for each in (here, there)]
    assert pairs[1].distance == pytest.approx(pairs[0].distance, rel=1e-6, abs=1e-9)
