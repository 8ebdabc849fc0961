"""One round of work on a cluster: a function called for all blocks, from the first task to the last result."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bispectral_ot.engines import tasks
from bispectral_ot.engines.engine import Block, BlockFunction
from bispectral_ot.errors import ClusterError
from bispectral_ot.progress import Progress, silent

if TYPE_CHECKING:
    from distributed import Client, Future

# An array of so many bytes goes out once, and workers pass it on; where there are few tasks it may be larger and still
# be a part of each, since it would arrive later from another worker.
_LARGE, _FEW_TASKS, _LARGE_FOR_FEW = 2**16, 4, 2**19
# Seconds without any task that ends, after which tasks may leave the worker that they were meant for.
_PATIENCE = 3.0
_GONE = (
    "the connection to the scheduler was lost ({}). Start it again, and repeat the call: what is written to a run "
    "folder is taken up."
)


class Group(NamedTuple):
    """Neighbouring blocks that are worked on together, and the future of the list of what is kept for them."""

    blocks: list[Block]
    kept: Future | None

    @property
    def start(self) -> int:
        """The first row."""
        return self.blocks[0].start

    @property
    def stop(self) -> int:
        """The row after the last."""
        return self.blocks[-1].stop


class Round:
    """Tasks for some groups of blocks, what they need and what they give.

    Parameters
    ----------
    client, direct
        Who is asked, and whether results come straight from the workers.
    name
        Distinguishes this round from all others.
    function, rows, shared, stage, progress
        As for :meth:`Engine.map <bispectral_ot.engines.Engine.map>`.
    groups
        All of them, whether they are submitted or not.
    timeout
        Seconds without any task that ends, after which the round is given up.
    record
        Where its number, seconds and bytes are added.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        function: BlockFunction,
        groups: Sequence[Group],
        *,
        rows: Sequence[Any],
        shared: Sequence[Any],
        stage: str,
        progress: Progress,
        timeout: float,
        direct: bool,
        record: dict[str, float],
    ) -> None:
        self.client, self.function, self.rows = client, function, rows
        self.stage, self.progress, self.timeout, self.direct = stage, progress, timeout, direct
        self.total = sum(group.stop - group.start for group in groups)
        self.large = _LARGE_FOR_FEW if len(groups) <= _FEW_TASKS else _LARGE
        self.name = function_name(function)
        self.key = f"{self.name}-{name}"
        self.groups: dict[Future, Group] = {}
        self.arguments: dict[Future, list[Future]] = {}  # of each group, held until its result is here
        self.common: dict[int, Future] = {}  # arguments of all groups, by the identity of the array
        self.others: list[Future] = []
        self.received_rows = 0
        self.homes: list[str] = []
        self.number = itertools.count()
        self.record = record
        record["count"] += 1
        self.begin = time.perf_counter()
        self.shared, arrays = self._pack(tuple(shared))
        self.shared_references = [self._send(array) for array in arrays]

    def submit(self, run: Any, group: Group, **where: Any) -> Future:
        """A task for a group; ``where`` has options of ``Client.submit``."""
        start, stop = group.start, group.stop
        cut, arrays = self._pack(tuple(values[start:stop] for values in self.rows))
        references = [self._send_once(array) if id(array) in self._uncut else self._send(array) for array in arrays]
        blocks = [(b.start, b.stop, b.content.place if group.kept else 0) for b in group.blocks]
        needed = (*references, *self.shared_references)
        arguments = (self.function, blocks, group.kept, cut, len(references), self.shared, *needed)
        future = self._submit(run, arguments, f"{self.key}-{start}", **where)
        self.groups[future], self.arguments[future] = group, references
        if where:
            self.homes.append(future.key)
        return future

    def add(self, parts: list[Future]) -> Future:
        """A task that puts together the results of others."""
        future = self._submit(tasks.add_parts, parts, f"add-{self.key}-{next(self.number)}")
        self.others.append(future)
        return future

    def wait(self, futures: Sequence[Future]) -> None:
        """Wait until all have ended, or for too long without any task of this round that ends."""
        ended, since = -1, time.monotonic()
        # Dask's own wait leaves tracebacks that refer to futures when it times out, and nothing would be freed
        woken = threading.Event()
        # being woken for every task takes time, and is only of use to somebody who looks
        for future in futures if self.progress is silent else [*self.groups, *futures]:
            future.add_done_callback(lambda _: woken.set())
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
            if time.monotonic() - since > self.timeout:
                raise ClusterError(self._stuck())
            if time.monotonic() - since > _PATIENCE:
                self.leave_homes()
            woken.wait(timeout=1.0)
            woken.clear()
        self._count_seconds()
        for future in futures:
            if future.status == "error":
                self._raise(future)

    def leave_homes(self) -> None:
        """Let tasks that have a worker of their own go to any other, from now on."""
        if self.homes:
            self.client.run_on_scheduler(_leave_homes, self.homes)

    def results(self, futures: list[Future]) -> list[Any]:
        """What tasks that have ended gave; their arguments are let go."""
        client = self.client
        try:
            gather = partial(client.gather, futures, direct=self.direct, asynchronous=True)
            results: list[Any] = client.sync(gather, callback_timeout=self.timeout)
        except TimeoutError:
            where = {address for holders in client.who_has(futures).values() for address in holders}
            raise ClusterError(
                f"{self._named(futures[0])} was done, but did not come from {', '.join(sorted(where))} within "
                f"{self.timeout:g} s. Look whether the worker is stopped or cut off; end it, so that others take over."
            ) from None
        self.record["received"] += _size(results)
        for future in futures:
            if future in self.groups:
                group = self.groups.pop(future)
                self.received_rows += group.stop - group.start
                del self.arguments[future]
        self._count_seconds()
        return results

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

    @cached_property
    def _uncut(self) -> set[int]:
        """Arrays that are the same for every group, such as the features of the targets."""
        return {id(array) for array in tasks.pack(tuple(self.rows), large=self.large)[1]}

    def _all(self) -> list[Future]:
        arguments = itertools.chain.from_iterable(self.arguments.values())
        return [*self.groups, *arguments, *self.common.values(), *self.shared_references, *self.others]

    def _count_seconds(self) -> None:
        self.record["seconds"] += time.perf_counter() - self.begin
        self.begin = time.perf_counter()

    def _submit(self, run: Any, arguments: Sequence[Any], key: str, **where: Any) -> Future:
        import dask

        # data is in the tasks on purpose: from there the scheduler can make everything again
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            future: Future = self.client.submit(run, *arguments, key=key, pure=False, **where)
        return future

    def _pack(self, values: tuple[Any, ...]) -> tuple[bytes, list[Any]]:
        packed, arrays = tasks.pack(values, large=self.large)
        self.record["sent"] += len(packed)
        return packed, arrays

    def _send(self, array: Any) -> Future:
        """A future of an array: of NumPy, which goes out, or of Dask, which workers make."""
        if not isinstance(array, np.ndarray):
            future: Future = self.client.compute(array)
            return future
        self.record["sent"] += array.nbytes
        return self._submit(tasks.given, [np.asarray(array)], f"send-{self.key}-{next(self.number)}")

    def _send_once(self, array: Any) -> Future:
        if id(array) not in self.common:
            self.common[id(array)] = self._send(array)
        return self.common[id(array)]

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
        address = next((where[future.key] for future in unfinished if future.key in where), None)
        first = next((future for future in unfinished if future in self.groups), unfinished[0])
        return (
            f"no task of {self.name!r} ended within {self.timeout:g} s: {self._named(first)} waits for "
            f"{'a worker' if address is None else f'worker {address}'}, {len(unfinished)} tasks are not done. Look "
            "whether the worker is paused (memory), stopped or cut off; end it, so that others take over, or allow a "
            "longer timeout."
        )


def function_name(function: Any) -> str:
    """What the dashboard and records call a function."""
    return str(function.__name__).strip("_").replace("_", "-")


def _leave_homes(keys: list[str], dask_scheduler: Any) -> None:
    """Forget which worker tasks were meant for.

    Dask forgets it by itself (``allow_other_workers``) while there are other workers, but not if all are gone for a
    moment: tasks would then wait for the address of a dead worker.
    """
    found = [dask_scheduler.tasks[key] for key in keys if key in dask_scheduler.tasks]
    dask_scheduler.set_restrictions(worker={task.key: None for task in found})
    waiting = {task.key: "processing" for task in found if task.state == "no-worker"}
    dask_scheduler.transitions(waiting, stimulus_id="bispectral-ot")


def _size(result: Any) -> int:
    if isinstance(result, (tuple, list)):
        return sum(map(_size, result))
    return int(getattr(result, "nbytes", 8))
