"""Block functions on blocks of rows, on the threads of this machine.

A block function is defined at module level and has the form ``function(block, *row_arguments, *shared_arguments)``.
It writes into nothing that it is given, so that it can run on another thread, in another process, or a second time.
"""

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.errors import InputError
from bispectral_ot.memory import default_budget

_thread = threading.local()


class Block(NamedTuple):
    """Rows ``start`` to ``stop`` and their content, for block functions only: it may be on another machine."""

    start: int
    stop: int
    content: Any = None


BlockFunction = Callable[..., Any]
Blocks = Sequence[Block]
Values = Sequence[Any]
Joined = tuple[tuple[Any, ...], tuple[Any, ...]]


class Threads:
    """Engine of this machine: a pool of threads, one per core; compiled kernels release the interpreter lock.

    Other engines are subclasses with the same methods.
    """

    processes = 1  # that share the work, each with its own memory

    def budget(self) -> int:
        """Bytes for blocks and their inputs, in all processes together."""
        return runtime.current().memory or default_budget()

    def map(
        self,
        function: BlockFunction,
        blocks: Blocks,
        *,
        rows: Values = (),
        shared: Values = (),
        stage: str = "",
        join: bool = False,
    ) -> Iterator[Any]:
        """Results of ``function(block, *rows, *shared)`` in the order of the blocks; ``rows`` are cut to each block.

        With ``join``, results may come :func:`joined`, so that less has to travel. The first exception (Ctrl-C
        included) cancels blocks that have not been started.
        """
        total, done = sum(block.stop - block.start for block in blocks), 0
        n_threads = core_count() if len(blocks) > 1 else 1  # for one block a thread would only cost time
        pending: list[Future[Any]] = []
        waiting = iter(blocks)
        with runtime.one_blas_thread():
            try:
                for block in blocks:
                    if n_threads == 1:
                        result = function(block, *(values[block.start : block.stop] for values in rows), *shared)
                    else:
                        # results wait for earlier ones, and too many of them would fill the memory
                        for later in itertools.islice(waiting, 4 * n_threads - len(pending)):
                            cut = (values[later.start : later.stop] for values in rows)
                            work = copy_context().run, function, later, *cut, *shared
                            pending.append(_pool(n_threads, os.getpid()).submit(*work))
                        # wake up now and then, because a signal just before the wait does not end it
                        while not wait(pending[:1], timeout=0.5).done:
                            pass
                        result = pending.pop(0).result()
                    done += block.stop - block.start
                    runtime.progress(stage, done, total)
                    yield result
            except KeyboardInterrupt:
                # a thread whose start was interrupted would keep this process from ending; the others end their work
                _pool(n_threads, os.getpid()).shutdown(wait=False)
                _pool.cache_clear()
                raise
            finally:
                for future in pending:
                    future.cancel()
                wait(pending)

    def place(self, function: BlockFunction, blocks: Blocks, *, row_bytes: int = 0, **work: Any) -> list[Block]:
        """Blocks that keep the results of :meth:`map`, of ``row_bytes`` for each row, as their content."""
        contents = self.map(function, blocks, **work)
        return [Block(b.start, b.stop, content) for b, content in zip(blocks, contents, strict=True)]


Engine = Threads  # as a type: this engine or one of its subclasses


def joined(results: Iterable[Joined]) -> Joined:
    """Results ``(rows, totals)`` of blocks put together: rows are concatenated in order, totals are added up."""
    parts: list[tuple[Any, ...]] = []
    totals: tuple[Any, ...] = ()
    for rows, added in results:
        parts.append(rows)
        # starts with a new array, because a block may keep its result
        totals = tuple(total + value for total, value in zip(totals, added, strict=True)) if totals else added
    return tuple(each[0] if len(each) == 1 else np.concatenate(each) for each in zip(*parts, strict=True)), totals


def row_blocks(n_rows: int, *, block_rows: int) -> list[Block]:
    """Cut ``range(n_rows)`` into blocks of at most ``block_rows``, at least one row each."""
    step = max(1, block_rows)
    return [Block(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def fill_rows(function: BlockFunction, out: NDArray[Any], *, block_rows: int, **work: Any) -> NDArray[Any]:
    """Write the results of :meth:`Threads.map` to ``out``, one row for each row; returns ``out``."""

    def fill(block: Block, *given: Any) -> None:
        out[block.start : block.stop] = function(block, *given)

    for _ in Threads().map(fill, row_blocks(len(out), block_rows=block_rows), **work):
        pass
    return out


def product(rows: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """Matrix product, some rows (n, k) at a time on all cores; the result does not depend on their number."""
    out = np.empty((len(rows), matrix.shape[1]), dtype=np.result_type(rows, matrix))
    return fill_rows(lambda _, some: some @ matrix, out, block_rows=256, rows=(rows,))


def gram(rows: NDArray[Any]) -> NDArray[Any]:
    """Products (n, n) of all pairs of rows (n, k), each pair once, on all cores."""
    out, blocks = np.empty((len(rows), len(rows)), dtype=rows.dtype), row_blocks(len(rows), block_rows=256)
    found = Threads().map(lambda block: rows[block.start : block.stop] @ rows[: block.stop].T, blocks)
    for (start, stop, _), part in zip(blocks, found, strict=True):
        out[start:stop, :stop], out[:stop, start:stop] = part, part.T
    return out


def side_by_side(*works: Callable[[], Any]) -> list[Any]:
    """Results of some functions, each on a core of its own."""
    return list(Threads().map(lambda block: works[block.start](), row_blocks(len(works), block_rows=1)))


def core_count() -> int:
    """Number of cores this process may use, container quotas included (``BISPECTRAL_OT_THREADS`` overrides)."""
    if getattr(_thread, "alone", False):
        return 1
    asked = os.environ.get("BISPECTRAL_OT_THREADS", "")
    if asked and not (asked.isdecimal() and int(asked) > 0):
        raise InputError(f"BISPECTRAL_OT_THREADS must be a number of threads such as 2, got {asked!r}.")
    return int(asked) if asked else _cpu_count()


def work_alone() -> None:
    """Set :func:`core_count` to 1 on this thread: other threads use the other cores."""
    _thread.alone = True


@cache
def _cpu_count() -> int:
    import joblib

    return int(joblib.cpu_count())


@lru_cache(maxsize=1)
def _pool(n_threads: int, process: int) -> ThreadPoolExecutor:
    """Threads of this process; a forked process gets new ones."""
    # nested calls of an engine run on one thread: they must not wait for threads that wait for them
    return ThreadPoolExecutor(n_threads, initializer=work_alone)
