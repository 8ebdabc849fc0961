"""The Dask engine on real processes: the same results as threads, and workers that die, stop or do not fit."""

import os
import re
import signal
import threading
import time

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.costs import Cost, FeatureDistance
from bispectral_ot.engines import Threads, joined, row_blocks
from bispectral_ot.transport import Sinkhorn

distributed = pytest.importorskip("distributed")
cluster = pytest.importorskip("bispectral_ot.engines.cluster")


@pytest.fixture
def engine(client):
    return cluster.Dask(client, timeout=300)


@pytest.fixture(scope="module")
def pair():
    random = np.random.default_rng(0)
    return random.normal(size=(700, 12)).astype(np.float32), random.normal(size=(450, 12)).astype(np.float32)


def test_results_come_in_order_and_large_arrays_are_shared_and_cut(engine):
    values = np.arange(103.0)
    found = engine.map(times, row_blocks(103, block_rows=10), rows=[values], shared=[3.0])
    np.testing.assert_array_equal(np.concatenate(list(found)), 3 * values)
    with pytest.raises(ZeroDivisionError):
        list(engine.map(divide, row_blocks(4, block_rows=1)))
    rows, shared = np.random.default_rng(1).random((2, 100_000))
    blocks = row_blocks(len(rows), block_rows=1000)
    work = {"rows": [rows], "shared": [shared], "join": True}
    here, there = (joined(each.map(row_and_total, blocks, **work)) for each in (Threads(), engine))
    np.testing.assert_array_equal(there[0][0], here[0][0])
    np.testing.assert_allclose(there[1][0], here[1][0], rtol=1e-12)


def times(block, values, factor):
    return factor * values


def row_and_total(block, values, weights):
    return (values * weights[block.start : block.stop],), (values.sum() * weights,)


@pytest.mark.parametrize(("metric", "storage"), [("sqeuclidean", "compact"), ("l1", "recompute")])
def test_the_same_plan_as_with_threads(engine, pair, metric, storage):
    distance, engines = FeatureDistance(*pair, metric), (Threads(), engine)
    here, there = (Cost.from_distance(distance, storage=storage, engine=each) for each in engines)
    assert there.maximum == pytest.approx(here.maximum, rel=1e-6)
    assert there.storage_error == pytest.approx(here.storage_error, rel=1e-6)
    np.testing.assert_allclose(there.block(130, 400), here.block(130, 400), rtol=1e-5, atol=1e-5)
    solver = Sinkhorn(reg=0.02, tol=1e-6)
    one, other = solver.solve(here), solver.solve(there)
    assert other.transport_cost == pytest.approx(one.transport_cost, rel=1e-6)
    np.testing.assert_allclose(other.rows(333, 402), one.rows(333, 402), atol=1e-9)
    np.testing.assert_array_equal(other.summary(k=3).top_indices, one.summary(k=3).top_indices)


@pytest.mark.parametrize("features", ["global-bispectrum", "best-rotation"])
def test_the_same_match(client, features):
    source, target = bot.split_halves(bot.load("digits"), per_class=20)
    source = bot.rotate_randomly(source)
    # rounding decides on the last pass
    options = {"solver": Sinkhorn(tol=1e-7), "features": features} | ({"pca": 16} if "global" in features else {})
    here, there = bot.match(source, target, **options), bot.match(source, target, client=client, **options)
    assert there.distance == pytest.approx(here.distance, rel=1e-6)
    np.testing.assert_array_equal(there.top_matches(3).indices, here.top_matches(3).indices)
    assert there.settings | {"kept_variance": 0} == here.settings | {"kept_variance": 0}


def test_the_same_comparison(client):
    sets = dict(zip(("first", "second"), bot.split_halves(bot.load("digits"), per_class=10), strict=True))
    found = (bot.compare(sets, features="pixels", labels=True, client=each) for each in (None, client))
    here, there = (each.pair("first", "second").distance for each in found)
    assert there == pytest.approx(here, rel=1e-6, abs=1e-9)


def test_workers_that_are_killed_cost_nothing_but_time(client, all_workers, turned):
    stages, killed = {"features", "cost", "transport", "summary"}, set()

    def kill_once(stage, done, total):
        if done > 0 and stage in stages and stage not in killed:
            all_workers()  # the one that was killed before is back
            for process in [*client.run(os.getpid, on_error="ignore").values()][:1]:
                os.kill(process, signal.SIGKILL)
                killed.add(stage)

    options = {"solver": Sinkhorn(tol=1e-7), "features": "global-bispectrum", "pca": 20}
    expected = bot.match(*turned, **options)
    with pytest.warns(bot.DataWarning, match=r"lost the worker tcp://.*; the others continue"):
        found = bot.match(*turned, client=client, progress=kill_once, **options)
    assert killed == stages
    assert found.distance == pytest.approx(expected.distance, rel=1e-6)
    np.testing.assert_array_equal(found.top_matches(1).indices, expected.top_matches(1).indices)


def test_a_worker_that_stops_answering_is_named(client, pair):
    engine = cluster.Dask(client)
    cost = Cost.from_distance(FeatureDistance(*pair, "l1"), engine=engine, storage="float32")
    cost.sweep(np.zeros(700), np.zeros(450), np.ones(700), unit=1.0)  # whatever has to be compiled is
    engine.timeout = 2.0
    address, process = next(iter(client.run(os.getpid).items()))
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(bot.ClusterError, match=r"pass of rows \d+ to \d+ waits for worker " + re.escape(address)):
            cost.sweep(np.zeros(700), np.zeros(450), np.ones(700), unit=1.0)
    finally:
        os.kill(process, signal.SIGCONT)
        engine.timeout = 600.0
    assert np.isfinite(cost.sweep(np.zeros(700), np.zeros(450), np.ones(700), unit=1.0)[1]).all()


def test_a_block_that_ends_every_worker_is_named(client):
    with pytest.raises(bot.ClusterError, match="die of rows 0 to 1 ended"):
        list(cluster.Dask(client, timeout=300).map(die, row_blocks(1, block_rows=1)))


def die(block):
    os.kill(os.getpid(), signal.SIGKILL)


def divide(block):
    return 1 // (block.start - 2)


def test_ctrl_c_takes_back_what_is_queued(engine):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores interrupts
    # not when a block ends: an interrupt is lost in the finalizer of a future
    threading.Timer(0.75, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        list(engine.map(sleep, row_blocks(40, block_rows=1)))
    time.sleep(1.1)
    assert not any(engine.client.processing().values())


def sleep(block):
    time.sleep(0.5)


def test_versions_that_differ_are_listed(client, monkeypatch):
    versions = client.get_versions

    def other_versions(packages):
        found = versions(packages=packages)
        found["client"]["packages"] |= {"numba": "0.1", "dask": "0.2"}
        return found

    monkeypatch.setattr(client, "get_versions", other_versions)
    with pytest.raises(bot.ClusterError, match=r"dask is 0\.2 here .* on the scheduler; .*numba is 0\.1 .* on tcp://"):
        cluster.Dask(client)


def test_no_scheduler_no_worker_no_address():
    words = r"no scheduler at tcp://127\.0\.0\.1:9 .*dask scheduler"
    with pytest.raises(bot.ClusterError, match=words), cluster.connected("tcp://127.0.0.1:9", seconds=1):
        pass
    with pytest.raises(bot.InputError, match="tcp://HOST:PORT"), cluster.connected("somewhere"):
        pass
    with pytest.raises(bot.InputError, match=r"distributed\.Client"):
        cluster.as_engine("tcp://127.0.0.1:8786")
    empty = distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None)
    with empty, distributed.Client(empty) as client, pytest.raises(bot.ClusterError, match="has no workers"):
        cluster.Dask(client, wait=0.5)
