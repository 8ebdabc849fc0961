"""Row blocks on all cores of this machine.

Compiled kernels release the interpreter lock, so plain threads are enough: no fork, no pickling, and
Ctrl-C is seen between two blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from bispectral_ot.errors import InputError
from bispectral_ot.progress import Progress, silent

Result = TypeVar("Result")
Block = tuple[int, int]


def core_count() -> int:
    """How many cores this process may use (``BISPECTRAL_OT_THREADS`` overrides)."""
    asked = os.environ.get("BISPECTRAL_OT_THREADS", "")
    if asked:
        if not (asked.isdecimal() and int(asked) > 0):
            raise InputError(f"BISPECTRAL_OT_THREADS must be a number of threads such as 2, got {asked!r}.")
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def split_rows(n_rows: int, *, block_rows: int) -> list[Block]:
    """Cut ``range(n_rows)`` into (start, stop) blocks of at most ``block_rows``, at least one row each."""
    step = max(1, block_rows)
    return [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def run_blocks(
    work: Callable[[int, int], Result],
    blocks: Sequence[Block],
    *,
    stage: str = "",
    progress: Progress = silent,
    pool: ThreadPoolExecutor | None = None,
) -> list[Result]:
    """Call ``work(start, stop)`` for every block on all cores; results come in the order of the blocks.

    A caller with many short rounds passes its own ``pool``, within :func:`one_blas_thread` if blocks use BLAS.

    The first exception (Ctrl-C included) cancels what has not started and is raised again.
    """
    total = sum(stop - start for start, stop in blocks)
    if len(blocks) == 1 and pool is None:
        result = [work(*blocks[0])]
        progress(stage, total, total)
        return result
    if pool is None:
        with one_blas_thread(), ThreadPoolExecutor(core_count()) as pool:
            return run_blocks(work, blocks, stage=stage, progress=progress, pool=pool)
    sizes: dict[Future[Result], int] = {}
    try:
        for start, stop in blocks:
            sizes[pool.submit(work, start, stop)] = stop - start
        pending, rows_done = set(sizes), 0
        until = FIRST_EXCEPTION if progress is silent else FIRST_COMPLETED
        while pending:
            # woken now and then, because a signal that comes just before a wait does not end it
            finished, pending = wait(pending, timeout=0.5, return_when=until)
            for future in finished:
                future.result()
                rows_done += sizes[future]
            progress(stage, rows_done, total)
        return [future.result() for future in sizes]
    finally:
        for future in sizes:
            future.cancel()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Within this context BLAS uses one thread: row blocks keep every core busy, and its threads would only wait."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits
