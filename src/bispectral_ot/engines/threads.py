"""Row blocks on all cores of this machine.

Compiled kernels release the interpreter lock, so plain threads are enough: no fork, no pickling, and
Ctrl-C is seen between two blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from bispectral_ot.progress import Progress, silent

Result = TypeVar("Result")
Block = tuple[int, int]


def core_count() -> int:
    """How many cores this process may use (``BISPECTRAL_OT_THREADS`` overrides)."""
    asked = os.environ.get("BISPECTRAL_OT_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def split_rows(n_rows: int, *, block_rows: int) -> list[Block]:
    """Cut ``range(n_rows)`` into (start, stop) blocks of at most ``block_rows``."""
    return [(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, max(1, block_rows))]


def run_blocks(
    work: Callable[[int, int], Result],
    blocks: Sequence[Block],
    *,
    stage: str = "",
    progress: Progress = silent,
    pool: ThreadPoolExecutor | None = None,
) -> list[Result]:
    """Call ``work(start, stop)`` for every block on all cores; results come in the order of the blocks.

    The first exception (Ctrl-C included) cancels what has not started and is raised again.
    """
    if len(blocks) == 1 and pool is None:
        result = [work(*blocks[0])]
        progress(stage, blocks[-1][1], blocks[-1][1])
        return result
    owned = ThreadPoolExecutor(core_count()) if pool is None else None
    executor = pool or owned
    assert executor is not None
    futures = [executor.submit(work, *block) for block in blocks]
    total = blocks[-1][1] if blocks else 0
    try:
        pending, rows_done = set(futures), 0
        sizes = {future: stop - start for future, (start, stop) in zip(futures, blocks, strict=True)}
        while pending:
            finished, pending = wait(pending, return_when=FIRST_EXCEPTION if progress is silent else "FIRST_COMPLETED")
            for future in finished:
                future.result()
                rows_done += sizes[future]
            progress(stage, rows_done, total)
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
        if owned is not None:
            owned.shutdown(wait=True)
