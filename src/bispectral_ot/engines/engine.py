"""Engine interface: placing blocks of rows, and mapping pure functions over them.

A block function is defined at module level and has the form ``function(block, *row_arguments, *shared_arguments)``.
It writes into nothing that it is given, so that it can run on another thread, in another process, or a second time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.memory import default_budget

BlockFunction = Callable[..., Any]


class Block(NamedTuple):
    """Rows ``start`` to ``stop``, and what an engine keeps for them: a cache that can be made again.

    Only block functions see the content itself; outside of them it may be a handle to another machine.
    """

    start: int
    stop: int
    content: Any = None


Blocks = Sequence[Block]
Values = Sequence[Any]


class Reduced(NamedTuple):
    """Results of all blocks put together: ``rows`` are concatenated in order, ``totals`` are sums over the blocks."""

    rows: tuple[NDArray[Any], ...]
    totals: tuple[Any, ...]


class Engine(ABC):
    """Runs block functions, on the cores of this machine or elsewhere."""

    @abstractmethod
    def session(self) -> AbstractContextManager[None]:
        """Keep what is needed for many short rounds (threads, connections) until the context ends; may be nested."""

    @property
    def local(self) -> Engine:
        """The engine for data that is on this machine."""
        return self

    @property
    def processes(self) -> int:
        """How many processes share the work; each has its own memory."""
        return 1

    def budget(self) -> int:
        """Bytes that blocks and what they are made from may take, in all processes together."""
        return default_budget()

    @abstractmethod
    def map(
        self, function: BlockFunction, blocks: Blocks, *, rows: Values = (), shared: Values = (), stage: str = ""
    ) -> Iterator[Any]:
        """Results of ``function(block, *rows, *shared)`` in the order of the blocks; ``rows`` are cut to each block."""

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
        """Blocks whose content is ``make_content(block, *rows, *shared)``, kept where the engine works.

        ``row_bytes`` is the memory that the content of a row takes.
        """
        contents = self.map(make_content, blocks, rows=rows, shared=shared, stage=stage)
        return [Block(b.start, b.stop, content) for b, content in zip(blocks, contents, strict=True)]

    @abstractmethod
    def reduce(
        self, function: BlockFunction, blocks: Blocks, *, rows: Values = (), shared: Values = (), stage: str = ""
    ) -> Reduced:
        """Combined results ``(rows, totals)``, two tuples, of all blocks; see :class:`Reduced`."""


def put_together(results: Iterable[tuple[Any, Any]]) -> Reduced:
    """Concatenate the rows and add up the totals of some ``(rows, totals)``, at least one."""
    parts: list[tuple[Any, ...]] = []
    totals: list[Any] = []
    for rows, added in results:
        parts.append(rows)
        # a copy to begin with: a result may be kept by whoever computed it
        totals = [np.array(value) for value in added] if len(parts) == 1 else _add(totals, added)
    columns = [list(column) for column in zip(*parts, strict=True)]
    return Reduced(tuple(c[0] if len(c) == 1 else np.concatenate(c) for c in columns), tuple(totals))


def row_blocks(n_rows: int, *, block_rows: int) -> list[Block]:
    """Cut ``range(n_rows)`` into blocks of at most ``block_rows``, at least one row each.

    Examples
    --------
    >>> [(block.start, block.stop) for block in row_blocks(5, block_rows=2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, block_rows)
    return [Block(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def _add(totals: list[Any], added: tuple[Any, ...]) -> list[Any]:
    for total, value in zip(totals, added, strict=True):
        total += value
    return totals
