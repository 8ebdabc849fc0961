"""Block functions on the workers of a Dask cluster.

A task works on a group of neighbouring blocks, and blocks that are kept are results of tasks (futures). Arguments are
part of the tasks, so that the scheduler can repeat any of them: a worker that dies costs its groups and nothing else.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.engines.cluster import check_cluster, describe_workers, wait_for_worker
from bispectral_ot.engines.engine import Block, BlockFunction, Blocks, Engine, Reduced, Values, put_together
from bispectral_ot.engines.threads import Threads, one_core
from bispectral_ot.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, Future

# Groups for each thread of the cluster: of blocks that are kept, few, because each takes milliseconds in every call; of
# others more, so that results come one after the other and a dead worker costs little.
_KEPT_PER_THREAD, _MAPPED_PER_THREAD = 1, 8
# Bytes of arguments, or of what is kept, beyond which a group is cut further.
_GROUP_BYTES = 2**30
# Shared arguments of at most so many bytes are part of every task; others are sent once.
_SMALL = 2**19
# Results that one task adds up; fewer are added up here.
_FAN_IN = 8
# Groups under way for each thread where results come back in order.
_AHEAD = 4
_LOST = (
    "the connection to the scheduler was lost ({}). Start it again, and repeat the call: what is written to a run "
    "folder is taken up."
)


class _Kept(NamedTuple):
    """Content of a block on a worker: its place in the list that a task gave."""

    future: Future
    place: int


class _Shared:
    """Arguments of all groups, which Dask does not look into."""

    def __init__(self, values: Values) -> None:
        self.values = tuple(values)

    @property
    def is_small(self) -> bool:
        return all(isinstance(x, (int, float, str, np.generic)) or _bytes(x) <= _SMALL for x in self.values)


class Dask(Engine):
    """Engine whose blocks are on the workers of a Dask cluster.

    Parameters
    ----------
    client
        A ``distributed.Client``; this package, NumPy and numba must be of the same version on all its workers.
    timeout
        Seconds without any finished task after which a call is given up.
    wait
        Seconds to wait for a worker where there is none.

    Attributes
    ----------
    rounds : number and seconds of the calls of each block function

    Examples
    --------
    >>> import numpy as np
    >>> from distributed import Client
    >>> from bispectral_ot.engines import row_blocks
    >>> from bispectral_ot.engines.dask import Dask
    >>> def double(block, values):
    ...     return 2 * values
    >>> with Client(n_workers=1, processes=False, dashboard_address=None) as client:
    ...     parts = list(Dask(client).map(double, row_blocks(5, block_rows=2), rows=[np.arange(5)]))
    >>> [part.tolist() for part in parts]
    [[0, 2], [4, 6], [8]]
    """

    def __init__(self, client: Client, *, timeout: float = 600.0, wait: float = 30.0) -> None:
        check_cluster(client, seconds=wait)
        self.client, self.timeout, self.wait = client, timeout, wait
        self.rounds: dict[str, dict[str, float]] = {}
        self._here = Threads()

    @property
    def local(self) -> Engine:
        """Engine for data on this machine."""
        return self._here

    @property
    def processes(self) -> int:
        """Number of workers."""
        return len(self._threads())

    def budget(self) -> int:
        """60 % of the memory limits of all workers, at which they begin to write to their disks."""
        limits = [worker["memory_limit"] for worker in describe_workers(self.client).values()]
        return int(0.6 * len(limits) * min(limits))  # in equal parts

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep the threads of this machine; the workers stay as they are."""
        with self._here.session():
            yield

    def record(self) -> dict[str, Any]:
        """Scheduler, workers and calls so far, for ``run.json``."""
        workers = describe_workers(self.client)
        return {"scheduler": self.client.scheduler.address, "workers": workers, "rounds": self.rounds}

    def place(
        self,
        make_content: BlockFunction,
        blocks: Blocks,
        *,
        rows: Values = (),
        shared: Values = (),
        row_bytes: int = 0,
        stage: str = "",
    ) -> list[Block]:
        """Blocks whose content is ``make_content(block, *rows, *shared)``, kept on the workers."""
        groups = self._groups(blocks, rows, row_bytes, per_thread=_KEPT_PER_THREAD)
        call = _Call(self, _map_group, make_content, groups, rows, shared, stage, everywhere=True)
        with call.cancelled_on_error():
            futures = [call.submit(group) for group in groups]
            call.wait(futures)
        return [
            Block(block.start, block.stop, _Kept(future, i))
            for future, group in zip(futures, groups, strict=True)
            for i, block in enumerate(group)
        ]

    def map(
        self, function: BlockFunction, blocks: Blocks, *, rows: Values = (), shared: Values = (), stage: str = ""
    ) -> Iterator[Any]:
        """Results of ``function(block, *rows, *shared)`` in the order of the blocks; ``rows`` are cut to each block."""
        groups = self._groups(blocks, rows)
        call = _Call(self, _map_group, function, groups, rows, shared, stage)
        ahead = _AHEAD * sum(self._threads().values())
        pending: deque[Future] = deque()
        waiting = iter(groups)
        with call.cancelled_on_error():
            while True:
                pending.extend(call.submit(group) for group in itertools.islice(waiting, ahead - len(pending)))
                if not pending:
                    return
                yield from call.results([pending.popleft()])[0]

    def reduce(
        self, function: BlockFunction, blocks: Blocks, *, rows: Values = (), shared: Values = (), stage: str = ""
    ) -> Reduced:
        """Combined results ``(rows, totals)`` of all blocks, added up in a tree of tasks."""
        groups = self._groups(blocks, rows)
        call = _Call(self, _reduce_group, function, groups, rows, shared, stage)
        with call.cancelled_on_error():
            parts = [call.submit(group) for group in groups]
            while len(parts) > _FAN_IN:
                parts = [call.add(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
            return put_together(call.results(parts))

    def _threads(self) -> dict[str, int]:
        threads: dict[str, int] = self.client.nthreads()
        if not threads:
            wait_for_worker(self.client, seconds=self.wait)  # others may be about to start
            threads = self.client.nthreads()
        return threads

    def _groups(
        self, blocks: Blocks, rows: Values, row_bytes: int = 0, *, per_thread: int = _MAPPED_PER_THREAD
    ) -> list[list[Block]]:
        """Blocks that are kept together; others in groups of about the same number of rows."""
        if blocks and isinstance(blocks[0].content, _Kept):
            return [list(group) for _, group in itertools.groupby(blocks, key=lambda block: block.content.future)]
        n_rows = sum(block.stop - block.start for block in blocks)
        n_threads = sum(self._threads().values())
        size = sum(map(_bytes, rows)) + row_bytes * n_rows
        n_groups = n_threads * max(per_thread, -(-size // (_GROUP_BYTES * n_threads)))  # whole rounds for all threads
        groups: dict[int, list[Block]] = {}
        done = 0
        for block in blocks:
            groups.setdefault(done * n_groups // n_rows, []).append(block)
            done += block.stop - block.start
        return list(groups.values())


class _Call:
    """One call of a block function for all groups, from the first task to the last result."""

    def __init__(
        self,
        engine: Dask,
        run: Any,
        function: BlockFunction,
        groups: Sequence[list[Block]],
        rows: Values,
        shared: Values,
        stage: str,
        *,
        everywhere: bool = False,
    ) -> None:
        self.client, self.timeout, self.run, self.function = engine.client, engine.timeout, run, function
        self.rows, self.stage = rows, stage
        self.name = str(function.__name__).strip("_").replace("_", "-")
        self.total, self.received = sum(group[-1].stop - group[0].start for group in groups), 0
        self.places: dict[Future, tuple[int, int]] = {}  # rows of each group
        self.others: list[Future] = []
        self.record = engine.rounds.setdefault(self.name, {"count": 0, "seconds": 0.0})
        self.record["count"] += 1
        self.shared: Any = _Shared(shared)
        if not self.shared.is_small:
            self.shared = self._submit(_given, self.shared)
            self.others.append(self.shared)
            if everywhere:  # a worker that has to wait for the arguments would get no group
                self.wait([self.shared])
                self.client.replicate([self.shared])

    def submit(self, group: list[Block]) -> Future:
        """Task for a group."""
        start, stop = group[0].start, group[-1].stop
        kept = group[0].content.future if group[0].content else None
        blocks = [(block.start, block.stop, block.content.place if kept else 0) for block in group]
        future = self._submit(self.run, self.function, blocks, kept, self.shared, *self._cut(start, stop))
        self.places[future] = start, stop
        return future

    def add(self, parts: list[Future]) -> Future:
        """Task that adds up the results of others."""
        self.others.append(self._submit(_add, *parts))
        return self.others[-1]

    def wait(self, futures: list[Future]) -> None:
        """Wait for all futures, but no longer than the time-out without any task of this call that ends."""
        begin, since, ended = time.perf_counter(), time.monotonic(), -1
        # Dask's own wait leaves tracebacks that refer to futures when it times out, and nothing would be freed
        woken = threading.Event()
        for future in {*futures, *self.places}:
            future.add_done_callback(lambda _: woken.set())
        while True:
            done = [future.done() for future in (*self.places, *self.others)]
            if sum(done) != ended:
                ended, since = sum(done), time.monotonic()
                rows = sum(stop - start for future, (start, stop) in self.places.items() if future.done())
                runtime.progress(self.stage, self.received + rows, self.total)
            if all(future.done() for future in futures):
                break
            if self.client.status not in ("running", "connecting"):
                raise ClusterError(_LOST.format(self.client.scheduler.address if self.client.scheduler else "?"))
            if time.monotonic() - since > self.timeout:
                raise ClusterError(self._stuck())
            woken.wait(timeout=1.0)
            woken.clear()
        self.record["seconds"] += time.perf_counter() - begin
        for future in futures:
            if future.status == "error":
                self._raise(future)

    def results(self, futures: list[Future]) -> list[Any]:
        """Results of tasks, whose futures are released."""
        self.wait(futures)
        try:
            gather = partial(self.client.gather, futures, asynchronous=True)
            found: list[Any] = self.client.sync(gather, callback_timeout=self.timeout)
        except TimeoutError:
            where = sorted({address for holders in self.client.who_has(futures).values() for address in holders})
            raise ClusterError(
                f"{self._named(futures[0])} was done, but did not come from {', '.join(where)} within {self.timeout:g} "
                "s. Look whether the worker is stopped or cut off; end it, so that others take over."
            ) from None
        for future in futures:
            start, stop = self.places.pop(future, (0, 0))
            self.received += stop - start
        return found

    @contextmanager
    def cancelled_on_error(self) -> Iterator[None]:
        """Cancel queued tasks where anything goes wrong, Ctrl-C included."""
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        try:
            yield
        except (CancelledError, CommClosedError) as error:
            raise ClusterError(_LOST.format(error)) from error
        except BaseException:
            if self.client.status == "running":
                self.client.cancel([*self.places, *self.others], force=True)
            raise

    def _submit(self, function: Any, *arguments: Any) -> Future:
        import dask

        # data is in the tasks on purpose: from there the scheduler can make everything again
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            name = f"{function.__name__.strip('_')}-{self.name}"
            future: Future = self.client.submit(function, *arguments, pure=False, key=f"{name}-{next(_numbers)}")
        return future

    def _cut(self, start: int, stop: int) -> list[Any]:
        """Rows of a group; chunks of Dask arrays are computed by the workers."""
        from dask import is_dask_collection

        cut = [values[start:stop] for values in self.rows]
        return [self.client.compute(values) if is_dask_collection(values) else values for values in cut]

    def _raise(self, future: Future) -> None:
        """Raise the error of a task; failures of the cluster as a :class:`ClusterError`."""
        from distributed import KilledWorker

        try:
            future.result()
        except KilledWorker as error:
            raise ClusterError(
                f"{self._named(future)} ended {error.allowed_failures + 1} workers, the last of them "
                f"{error.last_worker.address}: probably there was not enough memory. Give workers more, or say a "
                "smaller working_memory."
            ) from None
        except FileNotFoundError as error:
            raise ClusterError(
                f"{self._named(future)}: a worker cannot see a file ({error}). Put it on a file system that all "
                "workers share, under the same path."
            ) from error

    def _named(self, future: Future) -> str:
        if future not in self.places:
            return f"a part of {self.name}"
        return "{} of rows {} to {}".format(self.name, *self.places[future])

    def _stuck(self) -> str:
        unfinished = [future for future in (*self.places, *self.others) if not future.done()]
        where = {key: address for address, keys in self.client.processing().items() for key in keys}
        first = next((future for future in unfinished if future.key in where), unfinished[0])
        return (
            f"no task of {self.name!r} ended within {self.timeout:g} s: {self._named(first)} waits for "
            f"{f'worker {where[first.key]}' if first.key in where else 'a worker'}, {len(unfinished)} tasks are not "
            "done. Look whether the worker is paused (memory), stopped or cut off; end it so that others take over, or "
            "allow a longer timeout."
        )


_numbers = (f"{threading.get_native_id()}-{time.time_ns():x}-{number}" for number in itertools.count())


def _bytes(values: Any) -> int:
    return int(getattr(values, "nbytes", 2**62))


def _given(value: Any) -> Any:
    return value


def _add(*parts: Reduced) -> Reduced:
    return put_together(parts)


def _map_group(
    function: BlockFunction, blocks: list[tuple[int, int, int]], kept: list[Any] | None, shared: _Shared, *rows: Any
) -> list[Any]:
    """Task that gives the results of all blocks of a group."""
    first = blocks[0][0]
    with one_core(), runtime.one_blas_thread():
        return [
            function(
                Block(start, stop, None if kept is None else kept[place]),
                *(values[start - first : stop - first] for values in rows),
                *shared.values,
            )
            for start, stop, place in blocks
        ]


def _reduce_group(*task: Any) -> Reduced:
    """Task that adds up the results of all blocks of a group."""
    return put_together(_map_group(*task))
