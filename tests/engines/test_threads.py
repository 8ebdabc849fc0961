"""Row blocks on threads: order, cover, progress, and what happens when a block fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bispectral_ot.engines import core_count, run_blocks, split_rows
from bispectral_ot.errors import InputError


@given(n_rows=st.integers(0, 500), block_rows=st.integers(-3, 600))
def test_blocks_cover_every_row_exactly_once_in_order(n_rows, block_rows):
    blocks = split_rows(n_rows, block_rows=block_rows)
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(n_rows))
    assert all(0 < stop - start <= max(1, block_rows) for start, stop in blocks)


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    """More threads than cores, so that blocks really overlap."""
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "4")


def test_results_come_in_the_order_of_the_blocks():
    def work(start, stop):
        time.sleep(0.001 * (20 - start))  # later blocks finish first
        return start, stop

    blocks = split_rows(20, block_rows=3)
    assert run_blocks(work, blocks) == blocks


def test_no_blocks_give_no_results():
    assert run_blocks(lambda start, stop: start, []) == []


@pytest.mark.parametrize("block_rows", [1, 3, 10, 100])
@pytest.mark.parametrize("first_row", [0, 7])
def test_progress_never_falls_and_ends_at_its_total(block_rows, first_row):
    calls = []
    blocks = [(start + first_row, stop + first_row) for start, stop in split_rows(10, block_rows=block_rows)]
    run_blocks(lambda start, stop: None, blocks, stage="cost", progress=lambda *call: calls.append(call))
    stages, done, totals = zip(*calls, strict=True)
    assert set(stages) == {"cost"}
    assert list(done) == sorted(done)
    assert len(set(totals)) == 1
    assert done[-1] == totals[-1] == 10


@pytest.mark.parametrize("error", [ValueError("block 3"), KeyboardInterrupt()])
@pytest.mark.parametrize("own_pool", [True, False])
@pytest.mark.parametrize("watched", [True, False])
def test_the_first_error_is_raised_and_the_rest_does_not_start(error, own_pool, watched):
    started = []

    def work(start, stop):
        started.append(start)
        if start == 3:
            raise error
        time.sleep(0.002)

    options = {"progress": lambda *call: None} if watched else {}
    with ThreadPoolExecutor(2) as pool, pytest.raises(type(error)) as raised:
        run_blocks(work, split_rows(500, block_rows=1), pool=None if own_pool else pool, **options)
    assert raised.value is error
    assert len(started) < 100


def test_an_error_in_a_single_block_is_raised():
    with pytest.raises(ZeroDivisionError):
        run_blocks(lambda start, stop: 1 // start, [(0, 5)])


def test_no_thread_is_left_behind_after_an_error():
    def work(start, stop):
        time.sleep(0.005)
        raise ValueError

    before = threading.active_count()
    with pytest.raises(ValueError):  # noqa: PT011 - its own, without a message
        run_blocks(work, split_rows(50, block_rows=1))
    assert threading.active_count() == before


def test_an_error_in_the_progress_callback_stops_the_work():
    started = []

    def progress(stage, done, total):
        raise KeyboardInterrupt

    def work(start, stop):
        started.append(start)
        time.sleep(0.002)

    with pytest.raises(KeyboardInterrupt):
        run_blocks(work, split_rows(500, block_rows=1), progress=progress)
    assert len(started) < 100


CTRL_C = """
import os, signal, sys, time
from bispectral_ot.engines import run_blocks, split_rows

def work(start, stop):
    sys.stdout.write('x')
    if start == {at}:
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.02)

run_blocks(work, split_rows(500, block_rows=1) {options})
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way on Windows")
@pytest.mark.parametrize("options", ["", ", progress=lambda *call: None"])
@pytest.mark.parametrize("at", [0, 7])  # while blocks are still handed out, and later
def test_ctrl_c_stops_the_work(at, options):
    program = CTRL_C.format(at=at, options=options)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert at < len(done.stdout) < 300


def test_a_given_pool_stays_open():
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            assert run_blocks(lambda start, stop: stop, [(0, 1), (1, 2)], pool=pool) == [1, 2]


def test_threads_are_as_many_as_the_variable_says():
    def work(start, stop):
        time.sleep(0.01)
        return threading.current_thread().name

    assert core_count() == 4
    assert len(set(run_blocks(work, split_rows(20, block_rows=1)))) == 4


@pytest.mark.parametrize("unset", [None, ""])
def test_without_the_variable_every_core_of_this_process_is_used(monkeypatch, unset):
    if unset is None:
        monkeypatch.delenv("BISPECTRAL_OT_THREADS")
    else:
        monkeypatch.setenv("BISPECTRAL_OT_THREADS", unset)
    expected = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert core_count() == expected


@pytest.mark.parametrize("asked", ["0", "-2", "two", "1.5", "²"])
def test_a_thread_count_that_is_none_is_refused(monkeypatch, asked):
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", asked)
    with pytest.raises(InputError, match="BISPECTRAL_OT_THREADS"):
        core_count()
