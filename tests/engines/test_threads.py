"""Row blocks on threads: order, cover, progress, and what happens when a block fails."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.engines import Block, Threads, core_count, engine, joined, one_blas_thread, row_blocks
from bispectral_ot.errors import InputError


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    """More threads than cores, so that blocks really overlap."""
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "4")


def bounds(block):
    return block.start, block.stop


def moments(block, values, other, power):
    return (values, values**power), (other.sum(), np.array([len(values), (values**power).sum()]))


def thread_name(block):
    time.sleep(0.01)
    return threading.current_thread().name


@given(n_rows=st.integers(0, 500), block_rows=st.integers(-3, 600))
def test_blocks_cover_every_row_exactly_once_in_order(n_rows, block_rows):
    blocks = row_blocks(n_rows, block_rows=block_rows)
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(n_rows))
    assert all(0 < block.stop - block.start <= max(1, block_rows) for block in blocks)


@pytest.mark.parametrize(("block_rows", "first_row"), [(3, 7), (100, 0)])
def test_results_come_in_the_order_of_the_blocks_and_progress_ends_at_its_total(block_rows, first_row):
    def later_blocks_first(block):
        time.sleep(0.001 * (20 - block.start))
        return bounds(block)

    calls = []
    blocks = [Block(b.start + first_row, b.stop + first_row) for b in row_blocks(10, block_rows=block_rows)]
    with runtime.running(progress=lambda *call: calls.append(call)):
        assert list(Threads().map(later_blocks_first, blocks, stage="cost")) == [bounds(block) for block in blocks]
    stages, done, totals = zip(*calls, strict=True)
    assert (set(stages), set(totals)) == ({"cost"}, {10})
    assert (list(done), done[-1]) == (sorted(set(done)), 10)


@pytest.mark.parametrize("block_rows", [1, 11])
def test_row_arguments_are_cut_to_each_block_rows_are_joined_and_totals_are_sums(block_rows):
    values, other, blocks = np.arange(11.0), np.arange(22).reshape(11, 2), row_blocks(11, block_rows=block_rows)
    rows, totals = joined(Threads().map(moments, blocks, rows=(values, other), shared=(2,)))
    np.testing.assert_array_equal(rows, [values, values**2])
    assert totals[0] == 231
    np.testing.assert_array_equal(totals[1], [11, 385])
    placed = Threads().place(moments, blocks, rows=(values, other), shared=(3,))
    for _ in range(2):  # the second time would see what the first had added
        rows, totals = joined(Threads().map(lambda block: block.content, placed))
        np.testing.assert_array_equal(rows[1], values**3)
        assert totals[0] == 231


def test_not_many_more_blocks_are_under_way_than_there_are_threads():
    """Results that wait for their turn take memory: a slow first block must not pile all the others up."""
    started, goes_on = [], threading.Event()

    def work(block):
        started.append(block.start)
        if block.start == 0:
            goes_on.wait(10)

    results = Threads().map(work, row_blocks(500, block_rows=1))
    reader = threading.Thread(target=lambda: list(results))
    reader.start()
    time.sleep(0.2)
    waiting = len(started)
    goes_on.set()
    reader.join()
    assert waiting <= 4 * 4
    assert len(started) == 500


def test_threads_are_kept_and_as_many_as_the_variable_says(monkeypatch):
    names = [set(Threads().map(thread_name, row_blocks(20, block_rows=1))) for _ in range(2)]
    assert names[0] == names[1]
    assert len(names[0]) == core_count() == 4
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "1")
    assert set(Threads().map(thread_name, row_blocks(3, block_rows=1))) == {threading.current_thread().name}


def test_engines_on_several_threads_within_each_other_and_in_a_forked_process():
    found = []

    def use():
        for _ in range(5):
            found.append(list(pickle.loads(pickle.dumps(Threads())).map(bounds, row_blocks(30, block_rows=2))))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: use(), range(6)))
    assert found == [[bounds(block) for block in row_blocks(30, block_rows=2)]] * 30
    inner = row_blocks(8, block_rows=1)
    within = Threads().map(lambda block: list(Threads().map(bounds, inner)), row_blocks(9, block_rows=1))
    assert list(within) == [[bounds(block) for block in inner]] * 9
    if hasattr(os, "fork"):
        child = multiprocessing.get_context("fork").Process(target=use)
        child.start()
        child.join(20)
        assert child.exitcode == 0


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_overlapping_contexts_in_any_order_leave_blas_as_it_was():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    assert all(Threads().map(lambda block: blas_threads() == {1}, row_blocks(4, block_rows=2)))
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # the first to begin ends first, as calls on several threads do
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_digits_of_a_match_do_not_depend_on_the_threads_of_blas():
    source, target = bot.split_halves(bot.load("digits"), per_class=8)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            found.append(bot.match(source, target, features="global-bispectrum", pca=12))
            assert blas_threads() == {threads}
    np.testing.assert_array_equal(found[0].coupling.target_potential, found[1].coupling.target_potential)


@pytest.mark.parametrize(("error", "where"), [(TimeoutError(), "block"), (KeyboardInterrupt(), "progress")])
def test_the_first_error_is_raised_the_rest_does_not_start_and_the_engine_goes_on(error, where):
    started = []

    def work(block):
        started.append(block.start)
        if block.start == 3 and where == "block":
            raise error
        time.sleep(0.002)

    def progress(stage, done, total):
        if done == 3 and where == "progress":
            raise error

    with pytest.raises(type(error)) as raised, runtime.running(progress=progress):
        list(Threads().map(work, row_blocks(500, block_rows=1), stage="cost"))
    assert raised.value is error
    assert len(started) < 100
    assert list(Threads().map(bounds, row_blocks(4, block_rows=2))) == [(0, 2), (2, 4)]


CTRL_C = """
import os, signal, sys, time
from bispectral_ot.engines import Threads, row_blocks

signal.signal(signal.SIGINT, signal.default_int_handler)
def work(block):
    sys.stdout.write('x')
    if block.start == {at}:
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.02)

list(Threads().map(work, row_blocks(500, block_rows=1)))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way on Windows")
@pytest.mark.parametrize("at", [0, 7])  # while blocks are still handed out, and later
def test_ctrl_c_stops_the_work(at):
    words = [sys.executable, "-c", CTRL_C.format(at=at)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in (-signal.SIGINT, 1)
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert at < len(done.stdout) < 300


def test_without_the_variable_joblib_counts_the_cores_and_quotas_and_a_count_that_is_none_is_refused(monkeypatch):
    for asked in ("0", "two", "1.5", "²"):
        monkeypatch.setenv("BISPECTRAL_OT_THREADS", asked)
        with pytest.raises(InputError, match="BISPECTRAL_OT_THREADS"):
            list(Threads().map(bounds, row_blocks(4, block_rows=2)))
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "")
    assert 1 <= core_count() <= os.cpu_count()
    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    engine._cpu_count.cache_clear()
    assert core_count() == 3
    engine._cpu_count.cache_clear()
