"""Block functions on the workers of a Dask cluster, and connections to one.

A task works on a group of neighbouring blocks, and blocks that are kept are results of tasks (futures). Arguments are
part of tasks, not scattered, so that the scheduler can repeat any of them: a worker that dies costs its groups only.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from bispectral_ot import runtime
from bispectral_ot.engines.engine import Block, BlockFunction, Blocks, Threads, Values, joined, work_alone
from bispectral_ot.errors import ClusterError, InputError, warn
from bispectral_ot.memory import available_memory

if TYPE_CHECKING:
    from distributed import Client, Future

# Results that one task adds up; fewer are added up here.
_FAN_IN = 8
# Packages whose versions must be equal everywhere, since tasks are pickled, and on workers, for equal results.
_WIRE = ("python", "cloudpickle", "dask", "distributed")
_COMPARED = ("numpy", "scipy", "numba", "scikit-learn", "bispectral-ot")
_HOW_TO_START = "Start `dask scheduler` and, on every machine, `dask worker tcp://HOST:8786`, or use local:2."
_LOST = "the connection to the scheduler was lost ({}). Start it again, and repeat the call: finished parts are kept."
_numbers = (f"{threading.get_native_id()}-{time.time_ns():x}-{number}" for number in itertools.count())


class Dask(Threads):
    """Engine whose blocks are on the workers of a Dask cluster, with the same versions of this package and NumPy.

    A call is given up after ``timeout`` seconds without any finished task, or ``wait`` seconds without any worker.
    """

    def __init__(self, client: Client, *, timeout: float = 600.0, wait: float = 30.0) -> None:
        self.client, self.timeout, self.wait = client, timeout, wait
        self.rounds: Counter[str] = Counter()  # calls of each block function
        self.workers: set[str] = set()  # of the last call
        self._threads()
        found = client.get_versions(packages=list(_COMPARED))
        here = found["client"]["packages"]
        others = {place: theirs["packages"] for place, theirs in found["workers"].items()}
        different = [
            f"{name} is {here[name]} here and {there.get(name)} on {place}"
            for place, there in {"the scheduler": found["scheduler"]["packages"], **others}.items()
            for name in (*_WIRE, *(_COMPARED if place in others else ()))
            if here[name] != there.get(name)
        ]
        if different:
            raise ClusterError(f"the versions of the cluster differ: {'; '.join(different)}. Install the same ones.")

    processes = property(lambda self: len(self._threads()), doc="Number of workers.")

    def budget(self) -> int:
        """Memory of all workers; by default 60 % of their limits, at which they begin to write to their disks."""
        if (memory := runtime.current().memory) is not None:
            return self.processes * memory
        limits = [worker["memory_limit"] for worker in self.record()["workers"].values()]
        if not all(limits):  # as if all workers were on one machine
            limits = [free // len(limits) for free in self.client.run(available_memory).values()]
        return int(0.6 * len(limits) * min(limits))  # in equal parts

    def record(self) -> dict[str, Any]:
        """Scheduler, workers and number of calls so far, for ``run.json``."""
        found = self.client.scheduler_info(n_workers=-1)["workers"]
        keys = "nthreads", "host", "memory_limit"
        workers = {address: {key: worker[key] for key in keys} for address, worker in found.items()}
        return {"scheduler": self.client.scheduler.address, "workers": workers, "rounds": dict(self.rounds)}

    def place(self, function: BlockFunction, blocks: Blocks, *, row_bytes: int = 0, **work: Any) -> list[Block]:
        """Blocks that keep the results of :meth:`map` on the workers: a future, and the place in its list."""
        with _Call(self, function, blocks, everywhere=True, **work) as call:
            # few groups, because each takes milliseconds in every call
            groups = self._groups(blocks, call.rows, row_bytes, per_thread=1)
            futures = [call.submit(group) for group in groups]
            call.wait(futures)
        kept = zip(futures, groups, strict=True)
        return [Block(b.start, b.stop, (future, i)) for future, group in kept for i, b in enumerate(group)]

    def map(self, function: BlockFunction, blocks: Blocks, *, join: bool = False, **work: Any) -> Iterator[Any]:
        """Results in the order of the blocks; joined ones are added up in a tree of tasks."""
        pending: deque[Future] = deque()
        with _Call(self, function, blocks, join=join, **work) as call:
            groups = self._groups(blocks, call.rows)
            if join:
                parts = [call.submit(group) for group in groups]
                while len(parts) > _FAN_IN:
                    parts = [call.task(joined, parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
                yield from call.results(parts)
                return
            waiting, ahead = iter(groups), 4 * sum(self._threads().values())  # groups under way
            while True:
                pending.extend(call.submit(group) for group in itertools.islice(waiting, ahead - len(pending)))
                if not pending:
                    return
                yield from call.results([pending.popleft()])[0]

    def _threads(self) -> dict[str, int]:
        """Threads of each worker, of which there is at least one."""
        try:
            self.client.wait_for_workers(1, timeout=self.wait)
        except TimeoutError:
            place = f"the scheduler at {self.client.scheduler.address}"
            raise ClusterError(f"{place} has no workers; none came within {self.wait:g} s. {_HOW_TO_START}") from None
        threads: dict[str, int] = self.client.nthreads()
        if lost := ", ".join(self.workers - threads.keys()):
            warn(f"lost the worker {lost}; the others continue, and compute its blocks again.")
        self.workers = {*threads}
        return threads

    def _groups(self, blocks: Blocks, rows: Values, row_bytes: int = 0, per_thread: int = 8) -> list[list[Block]]:
        """Blocks that are kept together; others in groups of about the same number of rows."""
        if blocks and blocks[0].content is not None:
            return [list(group) for _, group in itertools.groupby(blocks, lambda block: block.content[0])]
        n_threads, n_rows = sum(self._threads().values()), _n_rows(blocks)
        size = sum(map(_bytes, rows)) + row_bytes * n_rows
        # whole rounds for all threads, at most a gigabyte per group: results come early, and a dead worker loses little
        n_groups = n_threads * max(per_thread, -(-size // (2**30 * n_threads)))
        return [list(group) for _, group in itertools.groupby(blocks, lambda block: block.start * n_groups // n_rows)]


class _Call:
    """One call of a block function for all groups; any error, Ctrl-C included, cancels its tasks."""

    def __init__(
        self,
        engine: Dask,
        function: BlockFunction,
        blocks: Blocks,
        *,
        rows: Values = (),
        shared: Values = (),
        stage: str = "",
        join: bool = False,
        everywhere: bool = False,
    ) -> None:
        self.client, self.timeout, self.function = engine.client, engine.timeout, function
        self.rows, self.stage, self.total, self.received, self.join = rows, stage, _n_rows(blocks), 0, join
        self.shared: Any = partial(_call, tuple(shared))  # opaque to Dask
        self.everywhere = everywhere
        self.large = any(_bytes(value) > 2**19 for value in shared)  # sent once; others are part of every task
        self.name = str(function.__name__).strip("_").replace("_", "-")
        self.tasks: dict[Future, tuple[int, int]] = {}  # rows of each group; no rows for other tasks
        engine.rounds[self.name] += 1

    def __enter__(self) -> _Call:
        if self.large:
            self.shared = self.task(lambda value: value, self.shared)
        if self.large and self.everywhere:  # a worker that has to wait for the arguments would get no group
            self.wait([self.shared])
            self.client.replicate([self.shared])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        if isinstance(error, (CancelledError, CommClosedError)):
            raise ClusterError(_LOST.format(error)) from error
        if error is not None and self.client.status == "running":
            self.client.cancel(list(self.tasks), force=True)

    def task(self, function: Any, *arguments: Any, rows: tuple[int, int] = (0, 0)) -> Future:
        """Submit a task."""
        import dask

        # large tasks are intended: the scheduler can repeat a task that has its own data
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            key = f"{function.__name__.strip('_')}-{self.name}-{next(_numbers)}"
            future: Future = self.client.submit(function, *arguments, pure=False, key=key)
        self.tasks[future] = rows
        return future

    def submit(self, group: list[Block]) -> Future:
        """Submit the task of a group; chunks of Dask arrays are computed by the workers."""
        from dask import is_dask_collection

        start, stop = group[0].start, group[-1].stop
        kept = group[0].content[0] if group[0].content else None
        blocks = [(block.start, block.stop, block.content[1] if kept else 0) for block in group]
        cut = [values[start:stop] for values in self.rows]
        cut = [self.client.compute(values) if is_dask_collection(values) else values for values in cut]
        return self.task(_group, self.function, blocks, kept, self.shared, self.join, *cut, rows=(start, stop))

    def wait(self, futures: list[Future]) -> None:
        """Wait for all futures, but no longer than the time-out without any task of this call that ends."""
        from distributed import KilledWorker

        since, ended = time.monotonic(), -1
        # Dask's own wait leaves tracebacks that refer to futures when it times out, and nothing would be freed
        woken = threading.Event()
        for future in self.tasks:
            future.add_done_callback(lambda _: woken.set())
        while True:
            done = [rows for future, rows in self.tasks.items() if future.done()]
            if len(done) != ended:
                ended, since = len(done), time.monotonic()
                runtime.progress(self.stage, self.received + sum(stop - start for start, stop in done), self.total)
            if all(future.done() for future in futures):
                break
            if self.client.status not in ("running", "connecting"):
                raise ClusterError(_LOST.format(self.client.scheduler.address if self.client.scheduler else "?"))
            if time.monotonic() - since > self.timeout:
                where = {key: address for address, keys in self.client.processing().items() for key in keys}
                unfinished = [future for future in self.tasks if not future.done()]
                first = next((future for future in unfinished if future.key in where), unfinished[0])
                raise self._stuck(first, where.get(first.key, "(none yet)"))
            woken.wait(timeout=1.0)
            woken.clear()
        for future in futures:
            if isinstance(error := future.exception(), KilledWorker):
                raise ClusterError(
                    f"{self._named(future)} ended {error.allowed_failures + 1} workers, the last of them "
                    f"{error.last_worker.address}: there was probably not enough memory. Give workers more, or set a "
                    "smaller working_memory."
                )
            if error is not None:
                future.result()

    def results(self, futures: list[Future]) -> list[Any]:
        """Results of tasks, whose futures are released."""
        self.wait(futures)
        try:
            gather = partial(self.client.gather, futures, asynchronous=True)
            found: list[Any] = self.client.sync(gather, callback_timeout=self.timeout)
        except TimeoutError:
            where = sorted({address for holders in self.client.who_has(futures).values() for address in holders})
            raise self._stuck(futures[0], ", ".join(where)) from None
        for future in futures:
            start, stop = self.tasks.pop(future)
            self.received += stop - start
        return found

    def _named(self, future: Future) -> str:
        start, stop = self.tasks[future]
        return f"{self.name} of rows {start} to {stop}" if stop else f"a part of {self.name}"

    def _stuck(self, future: Future, where: str) -> ClusterError:
        return ClusterError(
            f"no task finished within {self.timeout:g} s: {self._named(future)} waits for worker {where}. Check if it "
            "is paused (memory), stopped or disconnected; end it, so others take over, or allow a longer timeout."
        )


def _n_rows(blocks: Blocks) -> int:
    return sum(block.stop - block.start for block in blocks)


def _bytes(values: Any) -> int:
    return 0 if isinstance(values, (int, float, str)) else int(getattr(values, "nbytes", 2**62))


def _call(shared: tuple[Any, ...], function: BlockFunction, *arguments: Any) -> Any:
    return function(*arguments, *shared)


def _group(
    function: BlockFunction, blocks: list[tuple[int, int, int]], kept: Any, call: Any, join: bool, *rows: Any
) -> Any:
    """Task that returns the results of all blocks of a group, one by one or joined."""
    first = blocks[0][0]
    work_alone()
    _reuse_memory()
    with runtime.one_blas_thread():
        found = []
        for start, stop, place in blocks:
            block = Block(start, stop, None if kept is None else kept[place])
            found.append(call(function, block, *(values[start - first : stop - first] for values in rows)))
        return joined(found) if join else found


@cache
def _reuse_memory() -> None:
    """Let the allocator of a worker keep freed arrays of up to 32 MB for the next ones.

    Workers are started with a setting by which it returns them to the system; new memory then takes 7 % of a pass.
    """
    with suppress(AttributeError, OSError):  # not the GNU library
        library = ctypes.CDLL(None)
        library.mallopt(-3, 2**25)  # M_MMAP_THRESHOLD
        library.mallopt(-1, 2**26)  # M_TRIM_THRESHOLD


def as_engine(client: Client | Threads | None) -> Threads | None:
    """Engine for a ``distributed.Client``; engines and None unchanged."""
    if client is None or isinstance(client, Threads):
        return client
    if not isinstance(client, _distributed().Client):
        raise InputError(f"client must be a distributed.Client, such as Client('tcp://host:8786'), got {client!r}.")
    return Dask(client)


@contextmanager
def connected(scheduler: str | None, *, seconds: float = 30.0) -> Iterator[Dask | None]:
    """Engine for a scheduler's address, or for ``local:4``, four processes here; waits ``seconds`` for a worker."""
    if scheduler is None:
        yield None
        return
    distributed = _distributed()
    import dask

    with ExitStack() as stack:
        address: Any = scheduler
        local = re.fullmatch(r"local:([1-9][0-9]*)", scheduler)
        if local:
            # nannies would log that they kill workers which take long to end
            options = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.ERROR}
            cluster = distributed.LocalCluster(n_workers=int(local[1]), threads_per_worker=1, **options)
            address = stack.enter_context(cluster)
        elif not re.fullmatch(r"(tcp|tls|ws|wss|ucx)://.+:[0-9]+", scheduler):
            raise InputError(f"a scheduler is tcp://HOST:PORT, or local:4 for 4 processes, got {scheduler!r}.")
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": f"{seconds}s"}):
                client = distributed.Client(address, timeout=seconds, direct_to_workers=bool(local))
                stack.enter_context(client)
        except OSError as error:  # time-outs included
            raise ClusterError(f"there is no scheduler at {scheduler} ({error}). {_HOW_TO_START}") from None
        yield Dask(client, wait=seconds)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError("a cluster needs Dask: pip install 'bispectral-ot[dask]'.") from None
    return distributed
