"""Blocks on the workers of a Dask cluster.

A task works on a group of neighbouring blocks. What is kept are results of tasks (futures) that the scheduler can make
again from what it was sent, so that a worker that dies costs no more than its groups. In a round only the arguments go
out and results come back, which are added up on the workers; large arrays go out once, whatever refers to them.
"""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from bispectral_ot.engines import tasks
from bispectral_ot.engines.cluster import can_reach_workers, check_cluster, describe_workers
from bispectral_ot.engines.engine import Block, BlockFunction, Engine, Reduced, put_together
from bispectral_ot.engines.round import Group, Round, function_name
from bispectral_ot.engines.threads import Threads
from bispectral_ot.errors import ClusterError
from bispectral_ot.progress import Progress, silent

if TYPE_CHECKING:
    from distributed import Client, Future

# Groups for each thread of the cluster: of what is kept, few, because each takes milliseconds in every round; of what
# is mapped once, more, so that results come one after the other and a dead worker costs little.
_KEPT_PER_THREAD, _MAPPED_PER_THREAD = 1, 8
# Bytes of arguments, or of what is kept, beyond which a group is cut further.
_GROUP_BYTES = 2**30
# Results that are added up by one task; so few that the client adds them up itself, which saves a round of messages.
_FAN_IN, _FEW = 16, 2
# Groups under way for each thread where results come back in order: too many that wait would fill the workers.
_AHEAD = 4


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
        self._direct = can_reach_workers(client)
        self._warm: set[tuple[Any, ...]] = set()

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
        groups = self._groups(blocks, rows, row_bytes, per_thread=_KEPT_PER_THREAD)
        work = self._round(make_content, groups, rows=rows, shared=shared, stage=stage, progress=progress)
        threads = self._threads()
        homes = [address for address, n in sorted(threads.items()) for _ in range(n)]
        futures = []
        with work.cancelled_on_error():
            for i, group in enumerate(groups):
                home = homes[i * len(homes) // len(groups)]
                futures.append(work.submit(tasks.map_group, group, workers=[home], allow_other_workers=True))
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
        work = self._round(function, groups, rows=rows, shared=shared, stage=stage, progress=progress)
        ahead = _AHEAD * sum(self._threads().values())
        pending: deque[Future] = deque()
        waiting = iter(groups)
        with work.cancelled_on_error():
            while True:
                for group in itertools.islice(waiting, ahead - len(pending)):
                    pending.append(work.submit(tasks.map_group, group))
                if not pending:
                    return
                work.wait([pending[0]])
                yield from work.results([pending.popleft()])[0]

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
        work = self._round(function, groups, rows=rows, shared=shared, stage=stage, progress=progress)
        with work.cancelled_on_error():
            parts = [work.submit(tasks.reduce_group, group) for group in groups]
            if len(parts) > _FEW:  # first what is on one worker, as neighbours are: one sum of each travels
                each = -(-len(parts) // self.processes)
                parts = [work.add(parts[i : i + each]) for i in range(0, len(parts), each)]
            while len(parts) > _FEW:
                parts = [work.add(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
            work.wait(parts)
            return put_together(work.results(parts))

    def warm_up(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in every worker that has not done so yet: what it compiles is then at hand."""
        new = [address for address in self._threads() if (function, *arguments, address) not in self._warm]
        if not new:
            return
        groups = [Group([Block(i, i + 1)], None) for i in range(len(new))]
        work = self._round(_call, groups, rows=(), shared=(function, arguments), stage="prepare", progress=silent)
        with work.cancelled_on_error():
            calls = [
                work.submit(tasks.map_group, group, workers=[address], allow_other_workers=True)
                for group, address in zip(groups, new, strict=True)
            ]
            work.wait(calls)
        self._warm |= {(function, *arguments, address) for address in new}

    def _round(self, function: BlockFunction, groups: Sequence[Group], **options: Any) -> Round:
        empty: dict[str, float] = dict.fromkeys(("count", "seconds", "sent", "received"), 0)
        return Round(
            self.client,
            f"{self._name}{next(self._count):x}",
            function,
            groups,
            timeout=self.timeout,
            direct=self._direct,
            record=self.rounds.setdefault(function_name(function), empty),
            **options,
        )

    def _threads(self) -> dict[str, int]:
        threads: dict[str, int] = self.client.nthreads()
        if not threads:
            raise ClusterError("the cluster has no workers left; start some, and begin again.")
        return threads

    def _groups(
        self,
        blocks: Sequence[Block],
        rows: Sequence[Any],
        row_bytes: int = 0,
        *,
        per_thread: int = _MAPPED_PER_THREAD,
    ) -> list[Group]:
        """Blocks that are kept together; others in groups of about the same number of rows."""
        if blocks and isinstance(blocks[0].content, _Handle):
            return [
                Group(list(kept), future)
                for future, kept in itertools.groupby(blocks, key=lambda block: block.content.kept)
            ]
        n_rows = sum(b.stop - b.start for b in blocks)
        size = sum(getattr(values, "nbytes", 0) for values in rows) + row_bytes * n_rows
        n_threads = sum(self._threads().values())
        # whole rounds of tasks for all threads
        n_groups = n_threads * max(per_thread, -(-size // (_GROUP_BYTES * n_threads)))
        groups: dict[int, list[Block]] = {}
        done = 0
        for block in blocks:
            groups.setdefault(done * n_groups // n_rows, []).append(block)
            done += block.stop - block.start
        return [Group(together, None) for together in groups.values()]


def _call(block: Block, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    function(*arguments)
