"""The few entries of a cost that matter at a small regularisation.

At ``reg = 1e-3`` less than one entry in a hundred carries any mass. Iterating on those alone is as exact as on all of
them, as long as what is left out stays below the tolerance: the full plan is measured afterwards, and entries are
gathered again if it does not agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs.encoded import EncodedRows
from bispectral_ot.engines import Block, Engine, row_blocks

Vector = NDArray[np.float64]

# Rows of a block: gathered rows are short, so that many make a good one.
_BLOCK_ROWS = 2048


@dataclass(frozen=True)
class SparseCost:
    """A cost reduced to some entries, row by row (CSR), in exponents of 2.

    Attributes
    ----------
    shape : (n, m)
    starts : (n + 1,) where each row begins
    columns : column of each entry
    exponents : cost times unit of each entry
    engine : that works on it, on this machine
    """

    shape: tuple[int, int]
    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    exponents: Vector
    engine: Engine

    def sweep(self, f: Vector, g: Vector, weights: Vector) -> tuple[Vector, Vector]:
        """One Sinkhorn iteration: new row potentials (n,) and column sums (m,); see :meth:`Cost.sweep`."""
        blocks = row_blocks(self.shape[0], block_rows=_BLOCK_ROWS)
        bounds = (self.starts[:-1], self.starts[1:])
        found = self.engine.reduce(_sweep, blocks, rows=(f, weights, *bounds), shared=(g, self.columns, self.exponents))
        return found.rows[0], found.totals[0]


def gather_entries(
    engine: Engine,
    blocks: Sequence[Block],
    rows: tuple[Vector, Vector],
    shared: tuple[Any, ...],
    shape: tuple[int, int],
    encoded: Callable[[Block], EncodedRows],
) -> SparseCost | None:
    """Entries above a mark; see :meth:`Cost.gather`."""
    found = engine.reduce(_gather, blocks, rows=rows, shared=(*shared, encoded))
    counts, columns, exponents = found.rows
    if len(columns) < counts.sum():
        return None
    starts = np.concatenate([[0], np.cumsum(counts)])
    return SparseCost(shape, starts, columns, exponents, engine.local)


def _gather(
    block: Block,
    f: Vector,
    low_rows: Vector,
    g: Vector,
    low_columns: Vector,
    unit: float,
    limit: int,
    encoded: Callable[[Block], EncodedRows],
) -> tuple[tuple[NDArray[Any], ...], tuple[()]]:
    from bispectral_ot.costs import pass_kernels

    n = len(f)
    counts = np.zeros(n, dtype=np.int64)
    columns, exponents = np.empty(n * limit, dtype=np.int32), np.empty(n * limit)
    n_found = pass_kernels.gather(encoded(block), unit, f, g, low_rows, low_columns, counts, columns, exponents)
    if n_found < counts.sum():  # too many: nobody will use them
        n_found = 0
    return (counts, columns[:n_found].copy(), exponents[:n_found].copy()), ()


def _sweep(
    block: Block,
    f: Vector,
    weights: Vector,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    g: Vector,
    columns: NDArray[np.int32],
    exponents: Vector,
) -> tuple[tuple[Vector], tuple[Vector]]:
    from bispectral_ot.costs import pass_kernels

    new_f, column_sums = f.copy(), np.zeros(len(g))
    starts = np.append(first, last[-1:])
    pass_kernels.sweep_sparse(starts, columns, exponents, g, weights, new_f, column_sums)
    return (new_f,), (column_sums,)
