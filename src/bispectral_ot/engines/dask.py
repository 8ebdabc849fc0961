"""Blocks on the workers of a Dask cluster.

A task works on a group of neighbouring blocks. What is kept are results of tasks (futures) that the scheduler can make
again from what it was sent, so that a worker that dies costs no more than its groups. In a round only the arguments go
out and results come back, which are added up on the workers; large arrays go out once, whatever refers to them.
"""

from __future__ import annotations

import io
import itertools
import pickle
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from bispectral_ot.engines.cluster import check_cluster, describe_workers
from bispectral_ot.engines.engine import Block, BlockFunction, Engine, Reduced, put_together
from bispectral_ot.engines.threads import Threads, one_core
from bispectral_ot.errors import ClusterError
from bispectral_ot.progress import Progress, silent

if TYPE_CHECKING:
    from distributed import Client, Future

# Tasks of a round for each thread of the cluster: few, because each takes some milliseconds in addition to its work;
# more than one, so that the blocks of a dead worker spread over the others.
_TASKS_PER_THREAD = 2
# Bytes of arguments, or of what is kept, beyond which a group is cut further.
_GROUP_BYTES = 2**29
# Arrays of at least this size go out once for all tasks of a round.
_LARGE = 2**16
# Results that are added up by one task.
_FAN_IN = 16
# Seconds without any task that ends, after which tasks may leave the worker that they were meant for.
_PATIENCE = 3.0
# Groups under way for each thread where results come back in order: too many that wait would fill the workers.
_AHEAD = 4


class _Group(NamedTuple):
    """Neighbouring blocks that are worked on together, and the future of the list of what is kept for them."""

    blocks: list[Block]
    kept: Future | None

    @property
    def start(self) -> int:
        return self.blocks[0].start

    @property
    def stop(self) -> int:
        return self.blocks[-1].stop


class _Handle(NamedTuple):
    """The content of a block, from outside: its place in what a task keeps."""

    kept: Future
    place: int


class Dask(Engine):
    """An engine whose blocks are on the workers of a Dask cluster.

    Parameters
    ----------
    client
        A ``distributed.Client``; this package, NumPy and numba must be of the same version on all its workers.
    timeout
        Seconds without any task that ends, after which a round is given up.
    wait
        Seconds to wait for the first worker.

    Attributes
    ----------
    rounds : for each kind of round: how many, seconds, and bytes that went out from and came back to this machine

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
        self.client, self.timeout = client, timeout
        self.rounds: dict[str, dict[str, float]] = {}
        self._here = Threads()
        self._name, self._count = uuid.uuid4().hex, itertools.count()

    @property
    def local(self) -> Engine:
        """The engine for data that is on this machine."""
        return self._here

    @property
    def processes(self) -> int:
        """How many workers there are."""
        return len(self._threads())

    def budget(self) -> int:
        """60 % of the memory limits of all workers, where they would begin to write to their disks."""
        limits = [worker["memory_limit"] for worker in describe_workers(self.client).values()]
        return int(0.6 * len(limits) * min(limits))  # in equal parts

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep the threads of this machine; the workers stay as they are."""
        with self._here.session():
            yield

    def record(self) -> dict[str, Any]:
        """Who works, and what went to them and came back so far."""
        return {
            "scheduler": self.client.scheduler.address,
            "workers": describe_workers(self.client),
            "rounds": self.rounds,
        }

    def place(
        self,
        make_content: BlockFunction,
        blocks: Sequence[Block],
        *,
        rows: Sequence[Any] = (),
        shared: Sequence[Any] = (),
        row_bytes: int = 0,
        stage: str = "",
        progress: Progress = silent,
    ) -> list[Block]:
        """Blocks whose content is ``make_content(block, *rows, *shared)``, kept on the workers.

        Each worker gets its part in one piece and in proportion to its threads; when it dies, others take it over.
        """
        groups = self._groups(blocks, rows, row_bytes)
        work = _Round(self, make_content, rows, shared, stage, progress, sum(g.stop - g.start for g in groups))
        threads = self._threads()
        homes = [address for address, n in sorted(threads.items()) for _ in range(n)]
        futures = []
        with work.cancelled_on_error():
            for i, group in enumerate(groups):
                home = homes[i * len(homes) // len(groups)]
                futures.append(work.submit(_map_group, group, workers=[home], allow_other_workers=True))
            work.wait(futures)
            work.leave_homes()
        return [
            Block(b.start, b.stop, _Handle(kept, i))
            for group, kept in zip(groups, futures, strict=True)
            for i, b in enumerate(group.blocks)
        ]

    def map(
        self,
        function: BlockFunction,
        blocks: Sequence[Block],
        *,
        rows: Sequence[Any] = (),
        shared: Sequence[Any] = (),
        stage: str = "",
        progress: Progress = silent,
    ) -> Iterator[Any]:
        """Results of ``function(block, *rows, *shared)`` in the order of the blocks; ``rows`` are cut to each block."""
        groups = self._groups(blocks, rows)
        work = _Round(self, function, rows, shared, stage, progress, sum(g.stop - g.start for g in groups))
        ahead = _AHEAD * sum(self._threads().values())
        pending: deque[Future] = deque()
        waiting = iter(groups)
        with work.cancelled_on_error():
            while True:
                for group in itertools.islice(waiting, ahead - len(pending)):
                    pending.append(work.submit(_map_group, group))
                if not pending:
                    return
                work.wait([pending[0]])
                yield from work.result(pending.popleft())

    def reduce(
        self,
        function: BlockFunction,
        blocks: Sequence[Block],
        *,
        rows: Sequence[Any] = (),
        shared: Sequence[Any] = (),
        stage: str = "",
        progress: Progress = silent,
    ) -> Reduced:
        """Put together the results ``(rows, totals)`` of all blocks, in a tree of tasks."""
        groups = self._groups(blocks, rows)
        work = _Round(self, function, rows, shared, stage, progress, sum(g.stop - g.start for g in groups))
        with work.cancelled_on_error():
            parts = [work.submit(_reduce_group, group) for group in groups]
            while len(parts) > 1:
                parts = [work.add(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
            work.wait(parts)
            return cast(Reduced, work.result(parts[0]))

    def _threads(self) -> dict[str, int]:
        threads: dict[str, int] = self.client.nthreads()
        if not threads:
            raise ClusterError("the cluster has no workers left; start some, and begin again.")
        return threads

    def _groups(self, blocks: Sequence[Block], rows: Sequence[Any], row_bytes: int = 0) -> list[_Group]:
        """Blocks that are kept together; others in groups of about the same number of rows."""
        if blocks and isinstance(blocks[0].content, _Handle):
            return [
                _Group(list(kept), future)
                for future, kept in itertools.groupby(blocks, key=lambda block: block.content.kept)
            ]
        n_rows = sum(b.stop - b.start for b in blocks)
        size = sum(getattr(values, "nbytes", 0) for values in rows) + row_bytes * n_rows
        n_threads = sum(self._threads().values())
        # whole rounds of tasks for all threads
        n_groups = n_threads * max(_TASKS_PER_THREAD, -(-size // (_GROUP_BYTES * n_threads)))
        groups: dict[int, list[Block]] = {}
        done = 0
        for block in blocks:
            groups.setdefault(done * n_groups // n_rows, []).append(block)
            done += block.stop - block.start
        return [_Group(together, None) for together in groups.values()]


class _Round:
    """One call of a function on all blocks: its tasks, from the first to the last result."""

    def __init__(
        self,
        engine: Dask,
        function: BlockFunction,
        rows: Sequence[Any],
        shared: Sequence[Any],
        stage: str,
        progress: Progress,
        total: int,
    ) -> None:
        self.engine, self.client, self.function, self.rows = engine, engine.client, function, rows
        self.stage, self.progress, self.total = stage, progress, total
        self.name = function.__name__.strip("_").replace("_", "-")
        self.key = f"{self.name}-{engine._name}{next(engine._count):x}"
        self.groups: dict[Future, _Group] = {}
        self.arguments: dict[Future, list[Future]] = {}  # of each group, held until its result is here
        self.others: list[Future] = []
        self.received_rows = 0
        self.homes: list[str] = []
        self.number = itertools.count()
        self.record = engine.rounds.setdefault(self.name, dict.fromkeys(("count", "seconds", "sent", "received"), 0))
        self.record["count"] += 1
        self.begin = time.perf_counter()
        self.shared = self._pack(tuple(shared))

    def submit(self, run: Any, group: _Group, **where: Any) -> Future:
        start, stop = group.start, group.stop
        cut, references = self._pack(tuple(values[start:stop] for values in self.rows))
        blocks = [(b.start, b.stop, b.content.place if group.kept else 0) for b in group.blocks]
        shared, shared_references = self.shared
        arguments = (self.function, blocks, group.kept, cut, len(references), shared, *references, *shared_references)
        future = self._submit(run, arguments, f"{self.key}-{start}", **where)
        self.groups[future], self.arguments[future] = group, references
        if where:
            self.homes.append(future.key)
        return future

    def add(self, parts: list[Future]) -> Future:
        future = self._submit(_add_parts, parts, f"add-{self.key}-{next(self.number)}")
        self.others.append(future)
        return future

    def wait(self, futures: Sequence[Future]) -> None:
        """Wait until all have ended, or for too long without any task of this round that ends."""
        from distributed import wait

        ended, since = -1, time.monotonic()
        while True:
            now_ended = sum(future.done() for future in self._all())
            if now_ended != ended:
                ended, since = now_ended, time.monotonic()
                done = sum(g.stop - g.start for future, g in self.groups.items() if future.done())
                self.progress(self.stage, self.received_rows + done, self.total)
            if all(future.done() for future in futures):
                break
            if self.client.status not in ("running", "connecting"):
                raise ClusterError(_GONE.format(self.client.scheduler.address if self.client.scheduler else "?"))
            if time.monotonic() - since > self.engine.timeout:
                raise ClusterError(self._stuck())
            if time.monotonic() - since > _PATIENCE:
                self.leave_homes()
            # being woken for every task takes time, and is only of use to somebody who looks
            awaited = futures if self.progress is silent else [*self.groups, *futures]
            try:
                wait([each for each in awaited if not each.done()], timeout=1.0, return_when="FIRST_COMPLETED")
            except TimeoutError:
                continue
        self.record["seconds"] += time.perf_counter() - self.begin
        self.begin = time.perf_counter()
        for future in futures:
            if future.status == "error":
                self._raise(future)

    def leave_homes(self) -> None:
        """Let tasks that have a worker of their own go to any other, from now on."""
        if self.homes:
            self.client.run_on_scheduler(_leave_homes, self.homes)

    def result(self, future: Future) -> Any:
        result = self.client.gather(future)
        self.record["received"] += _size(result)
        if future in self.groups:
            group = self.groups.pop(future)
            self.received_rows += group.stop - group.start
            del self.arguments[future]
        return result

    def _all(self) -> list[Future]:
        arguments = itertools.chain.from_iterable(self.arguments.values())
        return [*self.groups, *arguments, *self.shared[1], *self.others]

    @contextmanager
    def cancelled_on_error(self) -> Iterator[None]:
        """Take back what is queued where anything goes wrong, Ctrl-C included."""
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        try:
            yield
        except (CancelledError, CommClosedError) as error:
            raise ClusterError(_GONE.format(error)) from error
        except BaseException:
            if self.client.status == "running":
                self.client.cancel(self._all(), force=True)
            raise

    def _submit(self, run: Any, arguments: Sequence[Any], key: str, **where: Any) -> Future:
        import dask

        # data is in the tasks on purpose: from there the scheduler can make everything again
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            future: Future = self.client.submit(run, *arguments, key=key, pure=False, **where)
        return future

    def _pack(self, values: tuple[Any, ...]) -> tuple[bytes, list[Future]]:
        """Values as bytes, and futures of the large arrays that they refer to."""
        file = io.BytesIO()
        packer = _packer()(file)
        packer.dump(values)
        futures = []
        for array in packer.arrays:
            if isinstance(array, np.ndarray):
                futures.append(self._submit(_given, [np.asarray(array)], f"send-{self.key}-{next(self.number)}"))
                self.record["sent"] += array.nbytes
            else:
                futures.append(self.client.compute(array))
        self.record["sent"] += len(file.getvalue())
        return file.getvalue(), futures

    def _raise(self, future: Future) -> None:
        """Raise the error of a task; what killed its workers is said in other words."""
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
        for each, group in self.groups.items():
            if future is each or future in self.arguments[each]:
                return f"{self.name} of rows {group.start} to {group.stop}"
        return f"what goes out or comes back of {self.name}"

    def _stuck(self) -> str:
        unfinished = [future for future in self._all() if not future.done()]
        working = self.client.processing()
        where = {key: address for address, keys in working.items() for key in keys}
        first = next((future for future in unfinished if future.key in where), unfinished[0])
        return (
            f"no task of {self.name!r} ended within {self.engine.timeout:g} s: {self._named(first)} is "
            f"{'on worker ' + where[first.key] if first.key in where else 'waiting for a worker'}, {len(unfinished)} "
            "tasks are not done. Look whether the worker is paused (memory), stopped or cut off; end it, so that "
            "others take over, or allow a longer timeout."
        )


_GONE = (
    "the connection to the scheduler was lost ({}). Start it again, and repeat the call: what is written to a run "
    "folder is taken up."
)


@cache
def _packer() -> Any:
    import cloudpickle
    from dask import is_dask_collection

    class Packer(cloudpickle.Pickler):
        """Sets large arrays and those of Dask aside, each once."""

        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file)
            self.arrays: list[Any] = []
            self._places: dict[int, int] = {}

        def persistent_id(self, value: Any) -> int | None:
            large = isinstance(value, np.ndarray) and value.nbytes >= _LARGE and not value.dtype.hasobject
            if not large and not is_dask_collection(value):
                return None
            if id(value) not in self._places:
                self._places[id(value)] = len(self.arrays)
                self.arrays.append(value)
            return self._places[id(value)]

    return Packer


class _Unpacker(pickle.Unpickler):
    def __init__(self, packed: bytes, arrays: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(packed))
        self.arrays = arrays

    def persistent_load(self, place: int) -> Any:
        return self.arrays[place]


def _leave_homes(keys: list[str], dask_scheduler: Any) -> None:
    """Forget which worker tasks were meant for.

    Dask forgets it by itself (``allow_other_workers``) while there are other workers, but not if all are gone for a
    moment: tasks would then wait for the address of a dead worker.
    """
    tasks = [dask_scheduler.tasks[key] for key in keys if key in dask_scheduler.tasks]
    dask_scheduler.set_restrictions(worker={task.key: None for task in tasks})
    waiting = {task.key: "processing" for task in tasks if task.state == "no-worker"}
    dask_scheduler.transitions(waiting, stimulus_id="bispectral-ot")


def _given(array: Any) -> Any:
    return array


def _add_parts(*parts: Reduced) -> Reduced:
    return put_together(parts)


def _map_group(*task: Any) -> list[Any]:
    with one_core(), _blas().limit(limits=1, user_api="blas"):
        return list(_results(*task))


def _reduce_group(*task: Any) -> Reduced:
    with one_core(), _blas().limit(limits=1, user_api="blas"):
        return put_together(_results(*task))


def _results(
    function: BlockFunction,
    blocks: list[tuple[int, int, int]],
    kept: list[Any] | None,
    packed_rows: bytes,
    n_row_references: int,
    packed_shared: bytes,
    *references: Any,
) -> Iterator[Any]:
    """Results of a group of blocks, one after the other."""
    rows = _Unpacker(packed_rows, references[:n_row_references]).load()
    shared = _Unpacker(packed_shared, references[n_row_references:]).load()
    first = blocks[0][0]
    for start, stop, place in blocks:
        block = Block(start, stop, None if kept is None else kept[place])
        yield function(block, *(values[start - first : stop - first] for values in rows), *shared)


@cache
def _blas() -> Any:
    """The BLAS libraries of this process; each of its threads runs a task, and needs no more of theirs."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _size(result: Any) -> int:
    if isinstance(result, (tuple, list)):
        return sum(map(_size, result))
    return int(getattr(result, "nbytes", 8))
