"""Row blocks on threads: order, cover, progress, sessions, and what happens when a block fails."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.engines import Block, Threads, core_count, one_blas_thread, row_blocks
from bispectral_ot.engines import threads as threads_module
from bispectral_ot.errors import InputError

ERROR = "a block failed"


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    """More threads than cores, so that blocks really overlap."""
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "4")


@pytest.fixture
def calls():
    """What a progress callback was called with."""
    return []


def bounds(block):
    return block.start, block.stop


def later_blocks_first(block):
    time.sleep(0.001 * (20 - block.start))
    return bounds(block)


def cut_rows(block, first, second, factor):
    return factor * first, second


def moments(block, values, power):
    return (values, values**power), (values.sum(), np.array([len(values), (values**power).sum()]))


def thread_name(block):
    time.sleep(0.01)
    return threading.current_thread().name


# Blocks


@given(n_rows=st.integers(0, 500), block_rows=st.integers(-3, 600))
def test_blocks_cover_every_row_exactly_once_in_order(n_rows, block_rows):
    blocks = row_blocks(n_rows, block_rows=block_rows)
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(n_rows))
    assert all(0 < block.stop - block.start <= max(1, block_rows) for block in blocks)
    assert all(block.content is None for block in blocks)


# What map, place and reduce give


def test_results_come_in_the_order_of_the_blocks():
    blocks = row_blocks(20, block_rows=3)
    assert list(Threads().map(later_blocks_first, blocks)) == [bounds(block) for block in blocks]


@pytest.mark.parametrize("block_rows", [1, 4, 11])
def test_row_arguments_are_cut_to_each_block_and_shared_ones_are_not(block_rows):
    first, second = np.arange(11), np.arange(22).reshape(11, 2)
    blocks = row_blocks(11, block_rows=block_rows)
    found = list(Threads().map(cut_rows, blocks, rows=(first, second), shared=(3,)))
    for block, (tripled, rows) in zip(blocks, found, strict=True):
        np.testing.assert_array_equal(tripled, 3 * first[block.start : block.stop])
        np.testing.assert_array_equal(rows, second[block.start : block.stop])


def test_placed_blocks_keep_what_was_made_for_them():
    engine, values = Threads(), np.arange(10.0)
    placed = engine.place(cut_rows, row_blocks(10, block_rows=4), rows=(values, values), shared=(2,))
    assert [bounds(block) for block in placed] == [(0, 4), (4, 8), (8, 10)]
    assert [block.content[0].tolist() for block in placed] == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
    assert list(engine.map(lambda block: block.content[1].sum(), placed)) == [6, 22, 17]


@pytest.mark.parametrize("block_rows", [1, 3, 10])
def test_reduced_rows_are_joined_and_totals_are_sums(block_rows):
    values = np.arange(10.0)
    rows, totals = Threads().reduce(moments, row_blocks(10, block_rows=block_rows), rows=(values,), shared=(2,))
    np.testing.assert_array_equal(rows[0], values)
    np.testing.assert_array_equal(rows[1], values**2)
    assert totals[0] == 45
    np.testing.assert_array_equal(totals[1], [10, 285])


def test_adding_totals_leaves_the_results_of_a_block_alone():
    placed = [Block(i, i + 1, np.array([1.0, i])) for i in range(5)]
    for _ in range(2):  # the second time would see what the first had added
        _, (total,) = Threads().reduce(lambda block: ((), (block.content,)), placed)
        np.testing.assert_array_equal(total, [5, 10])


def test_no_blocks_give_no_results():
    assert list(Threads().map(bounds, [])) == []
    assert Threads().place(bounds, []) == []
    assert Threads().reduce(moments, []) == ((), ())


@pytest.mark.parametrize(("block_rows", "first_row"), [(3, 7), (100, 0)])
def test_progress_never_falls_and_ends_at_its_total(block_rows, first_row, calls):
    blocks = [Block(b.start + first_row, b.stop + first_row) for b in row_blocks(10, block_rows=block_rows)]
    with runtime.running(progress=lambda *call: calls.append(call)):
        list(Threads().map(bounds, blocks, stage="cost"))
    stages, done, totals = zip(*calls, strict=True)
    assert set(stages) == {"cost"}
    assert list(done) == sorted(set(done))
    assert set(totals) == {10}
    assert done[-1] == 10


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


# Sessions


def test_a_session_keeps_its_threads_and_leaves_none_behind():
    engine, before = Threads(), threading.active_count()
    with engine.session():
        first = set(engine.map(thread_name, row_blocks(20, block_rows=1)))
        with engine.session():
            again = set(engine.map(thread_name, row_blocks(20, block_rows=1)))
        # the inner session has ended, the outer one has not
        still = set(engine.map(thread_name, row_blocks(20, block_rows=1)))
    assert first == again == still
    assert len(first) == 4
    assert threading.active_count() == before


def test_without_a_session_no_thread_is_left_behind():
    before = threading.active_count()
    list(Threads().map(thread_name, row_blocks(20, block_rows=1)))
    assert threading.active_count() == before


def test_results_that_are_not_read_to_the_end_leave_no_thread_behind():
    before, started = threading.active_count(), []

    def work(block):
        started.append(block.start)
        time.sleep(0.002)

    results = Threads().map(work, row_blocks(500, block_rows=1))
    next(results)
    results.close()
    assert threading.active_count() == before
    assert len(started) < 100


def test_sessions_may_overlap_on_several_threads():
    engine, before, found = Threads(), threading.active_count(), []

    def use():
        with engine.session():
            for _ in range(5):
                found.append(list(engine.map(bounds, row_blocks(30, block_rows=2))))

    users = [threading.Thread(target=use) for _ in range(6)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert found == [[bounds(block) for block in row_blocks(30, block_rows=2)]] * 30
    assert threading.active_count() == before


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_has_one_thread_in_a_session_and_its_own_number_afterwards():
    np.ones((2, 2)) @ np.ones((2, 2))
    engine, before = Threads(), blas_threads()
    with engine.session(), engine.session():
        assert blas_threads() == before  # nothing has asked for threads
        list(engine.map(bounds, row_blocks(4, block_rows=2)))
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_overlapping_contexts_in_any_order_leave_blas_as_it_was():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # the first to begin ends first, as calls on several threads do
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_digits_of_a_match_do_not_depend_on_the_threads_of_blas():
    source, target = bot.split_halves(bot.load("digits"), per_class=8)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            found.append(bot.match(source, target, features="global-bispectrum", pca=12))
            assert set(blas_threads()) == {threads}
    np.testing.assert_array_equal(found[0].coupling.target_potential, found[1].coupling.target_potential)


def test_a_block_that_ends_just_after_the_time_out_has_succeeded():
    class Late(Future):
        def result(self, timeout=None):
            if not self.done():
                self.set_result("done")  # between the time-out and the look at it
                raise TimeoutError
            return super().result(timeout)

    assert threads_module._wait_for(Late()) == "done"


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda engine: pickle.loads(pickle.dumps(engine))])
def test_an_engine_is_copied_without_its_threads(through):
    engine = Threads()
    with engine.session():
        other = through(engine)
    assert list(other.map(bounds, row_blocks(4, block_rows=2))) == [(0, 2), (2, 4)]


# Failures


@pytest.mark.parametrize(
    ("error", "session"), [(ValueError(ERROR), True), (TimeoutError(ERROR), False), (KeyboardInterrupt(), True)]
)
def test_the_first_error_is_raised_and_the_rest_does_not_start(error, session):
    started, engine = [], Threads()

    def work(block):
        started.append(block.start)
        if block.start == 3:
            raise error
        time.sleep(0.002)

    before = threading.active_count()
    if session:
        with engine.session(), pytest.raises(type(error)) as raised:
            list(engine.map(work, row_blocks(500, block_rows=1)))
    else:
        with pytest.raises(type(error)) as raised:
            list(engine.map(work, row_blocks(500, block_rows=1)))
    assert raised.value is error
    assert len(started) < 100
    assert threading.active_count() == before


@pytest.mark.parametrize("method", ["place", "reduce"])
def test_an_error_comes_through_place_and_reduce(method):
    with pytest.raises(ZeroDivisionError):
        getattr(Threads(), method)(lambda block: ((), (1 // block.start,)), row_blocks(8, block_rows=2))


def test_an_error_in_a_single_block_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(Threads().map(lambda block: 1 // block.start, [Block(0, 5)]))


def test_a_session_can_be_used_after_an_error():
    engine = Threads()
    with engine.session():
        with pytest.raises(ZeroDivisionError):
            list(engine.map(lambda block: 1 // block.start, row_blocks(50, block_rows=1)))
        assert list(engine.map(bounds, row_blocks(4, block_rows=2))) == [(0, 2), (2, 4)]


def test_an_error_in_the_progress_callback_stops_the_work():
    started = []

    def progress(stage, done, total):
        raise KeyboardInterrupt

    def work(block):
        started.append(block.start)
        time.sleep(0.002)

    with pytest.raises(KeyboardInterrupt), runtime.running(progress=progress):
        list(Threads().map(work, row_blocks(500, block_rows=1), stage="cost"))
    assert len(started) < 100


CTRL_C = """
import os, signal, sys, time
from bispectral_ot.engines import Threads, row_blocks

def work(block):
    sys.stdout.write('x')
    if block.start == {at}:
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.02)

engine = Threads()
{run}
"""
RUNS = {
    "map": "list(engine.map(work, row_blocks(500, block_rows=1)))",
    "session": "with engine.session():\n    engine.place(work, row_blocks(500, block_rows=1))",
}


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way on Windows")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("at", [0, 7])  # while blocks are still handed out, and later
def test_ctrl_c_stops_the_work(at, run):
    program = CTRL_C.format(at=at, run=RUNS[run])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert at < len(done.stdout) < 300


# How many threads


def test_threads_are_as_many_as_the_variable_says():
    assert core_count() == 4
    assert len(set(Threads().map(thread_name, row_blocks(20, block_rows=1)))) == 4


@pytest.mark.parametrize("unset", [None, ""])
def test_without_the_variable_joblib_counts_the_cores(monkeypatch, unset):
    """It knows of container quotas, too."""
    if unset is None:
        monkeypatch.delenv("BISPECTRAL_OT_THREADS")
    else:
        monkeypatch.setenv("BISPECTRAL_OT_THREADS", unset)
    assert 1 <= core_count() <= os.cpu_count()
    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    assert core_count() == 3


@pytest.mark.parametrize("asked", ["0", "-2", "two", "1.5", "²"])
def test_a_thread_count_that_is_none_is_refused(monkeypatch, asked):
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", asked)
    with pytest.raises(InputError, match="BISPECTRAL_OT_THREADS"):
        core_count()
    with pytest.raises(InputError, match="BISPECTRAL_OT_THREADS"):
        list(Threads().map(bounds, row_blocks(4, block_rows=2)))
