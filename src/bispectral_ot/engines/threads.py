"""Blocks on all cores of this machine.

Compiled kernels release the interpreter lock, so plain threads are enough: no fork, no pickling, and
Ctrl-C is seen between two blocks.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.engines.engine import Block, BlockFunction, Blocks, Engine, Reduced, Values, put_together, row_blocks
from bispectral_ot.errors import InputError

# Blocks under way for each thread: results wait for those before them, and too many waiting ones fill the memory.
_AHEAD = 4


_one_core = threading.local()


@contextmanager
def one_core() -> Iterator[None]:
    """Within this context :func:`core_count` is 1 for this thread: others have the other cores."""
    before, _one_core.here = getattr(_one_core, "here", False), True
    try:
        yield
    finally:
        _one_core.here = before


def core_count() -> int:
    """How many cores this process may use, container quotas included (``BISPECTRAL_OT_THREADS`` overrides)."""
    if getattr(_one_core, "here", False):
        return 1
    asked = os.environ.get("BISPECTRAL_OT_THREADS", "")
    if asked:
        if not (asked.isdecimal() and int(asked) > 0):
            raise InputError(f"BISPECTRAL_OT_THREADS must be a number of threads such as 2, got {asked!r}.")
        return int(asked)
    import joblib

    return int(joblib.cpu_count())


class Threads(Engine):
    """Engine of this machine: a pool of threads, one per core.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.engines import Threads, row_blocks
    >>> def double(block, values):
    ...     return 2 * values
    >>> parts = Threads().map(double, row_blocks(5, block_rows=2), rows=[np.arange(5)])
    >>> [part.tolist() for part in parts]
    [[0, 2], [4, 6], [8]]
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = self._n_threads = 0
        self._pool: ThreadPoolExecutor | None = None
        self._blas: AbstractContextManager[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep the threads, once there are any, and BLAS to one of its own, until the context ends."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0 and self._pool is not None and self._blas is not None:
                    self._pool.shutdown()
                    self._blas.__exit__(None, None, None)
                    self._pool = self._blas = None

    def _threads(self) -> ThreadPoolExecutor:
        """The pool of this session; small problems never ask for it, and it takes longer than they do."""
        with self._lock:
            if self._pool is None:
                self._n_threads = core_count()
                context = runtime.current()
                self._pool = ThreadPoolExecutor(self._n_threads, initializer=runtime.adopt, initargs=(context,))
                self._blas = runtime.one_blas_thread()
                self._blas.__enter__()
            return self._pool

    def map(
        self, function: BlockFunction, blocks: Blocks, *, rows: Values = (), shared: Values = (), stage: str = ""
    ) -> Iterator[Any]:
        """Results of ``function(block, *rows, *shared)`` in the order of the blocks; ``rows`` are cut to each block.

        The first exception (Ctrl-C included) cancels blocks that have not started and is raised again.
        """
        total = sum(block.stop - block.start for block in blocks)
        if len(blocks) == 1:  # a thread of its own would only cost time
            result = function(blocks[0], *_cut(rows, blocks[0]), *shared)
            runtime.progress(stage, total, total)
            yield result
            return
        with self.session():
            pool = self._threads()
            ahead = _AHEAD * self._n_threads
            pending: deque[tuple[Block, Future[Any]]] = deque()
            waiting = iter(blocks)
            done = 0
            try:
                while True:
                    for block in itertools.islice(waiting, ahead - len(pending)):
                        pending.append((block, pool.submit(function, block, *_cut(rows, block), *shared)))
                    if not pending:
                        return
                    block, future = pending.popleft()
                    result = _wait_for(future)
                    done += block.stop - block.start
                    runtime.progress(stage, done, total)
                    yield result
            finally:
                for _, future in pending:
                    future.cancel()

    def reduce(
        self, function: BlockFunction, blocks: Blocks, *, rows: Values = (), shared: Values = (), stage: str = ""
    ) -> Reduced:
        """Combined results ``(rows, totals)`` of all blocks; see :class:`Reduced`."""
        if len(blocks) == 1:
            found = Reduced(*function(blocks[0], *_cut(rows, blocks[0]), *shared))
            runtime.progress(stage, blocks[0].stop, blocks[0].stop)
            return found
        return put_together(self.map(function, blocks, rows=rows, shared=shared, stage=stage))


def _cut(rows: Values, block: Block) -> list[Any]:
    return [values[block.start : block.stop] for values in rows]


def _wait_for(future: Future[Any]) -> Any:
    while True:
        try:
            # woken now and then, because a signal that comes just before a wait does not end it
            return future.result(timeout=0.5)
        except TimeoutError:
            if future.done():  # the function itself timed out, or ended between the time-out and this line
                return future.result()


def fill_rows(
    function: BlockFunction,
    out: NDArray[Any],
    *,
    block_rows: int,
    rows: Values = (),
    shared: Values = (),
    stage: str = "",
) -> NDArray[Any]:
    """Write the results of a block function to ``out``, one row for each row, on all cores; returns ``out``."""
    blocks = row_blocks(len(out), block_rows=block_rows)
    results = Threads().map(function, blocks, rows=rows, shared=shared, stage=stage)
    for block, result in zip(blocks, results, strict=True):
        out[block.start : block.stop] = result
    return out
