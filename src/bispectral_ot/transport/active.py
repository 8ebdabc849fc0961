"""The few entries of a plan that matter at a small regularisation.

At ``reg = 1e-3`` less than one entry in a hundred carries any mass. Iterating on those alone is as exact as on all of
them, as long as what is left out stays below the tolerance: the full plan is measured afterwards, and entries are
gathered again if it does not agree.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost
from bispectral_ot.engines import core_count, run_blocks, split_rows

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ActiveEntries:
    """A cost reduced to its active entries, row by row (CSR), in units of the exponent.

    Attributes
    ----------
    starts : (n + 1,) where each row begins
    columns : column of each entry
    exponents : scaled cost times unit of each entry
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    exponents: Vector

    def sweep(self, f: Vector, g: Vector, p: Vector, pool: ThreadPoolExecutor) -> Vector:
        """One Sinkhorn iteration: sets ``f`` in place, returns the column sums (m,)."""
        from bispectral_ot.transport import kernels

        def work(start: int, stop: int) -> Vector:
            sums = np.zeros(len(g))
            rows = slice(start, stop)
            kernels.sweep_active(self.starts[start : stop + 1], self.columns, self.exponents, g, p[rows], f[rows], sums)
            return sums

        blocks = split_rows(len(f), block_rows=-(-len(f) // core_count()))
        total: Vector = np.sum(run_blocks(work, blocks, pool=pool), axis=0)
        return total


def find_active(
    cost: Cost,
    unit: float,
    f: Vector,
    g: Vector,
    p: Vector,
    column_sums: Vector,
    *,
    log2_cut: float,
    max_density: float,
    pool: ThreadPoolExecutor,
) -> ActiveEntries | None:
    """Entries above ``2**log2_cut`` of their row's or their column's mass; None if they are too many to pay off.

    ``f`` (n,) and ``g`` (m,) are potentials in units of the exponent, finite.
    """
    from bispectral_ot.transport import kernels

    n, m = cost.shape
    limit = int(max_density * m) + 8
    low_columns = np.log2(np.maximum(column_sums, 1e-300)) + log2_cut
    low_rows = np.log2(np.maximum(p, 1e-300)) + log2_cut

    def work(start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int32], Vector]:
        counts = np.zeros(stop - start, np.int64)
        columns = np.empty((stop - start) * limit, np.int32)
        exponents = np.empty((stop - start) * limit)
        rows = cost.encoded(start, stop)
        found = kernels.gather_active(
            rows.codes,
            rows.offsets,
            rows.steps,
            unit / cost.scale,
            f[start:stop],
            g,
            low_rows[start:stop],
            low_columns,
            counts,
            columns,
            exponents,
        )
        return counts, columns[:found].copy(), exponents[:found].copy()

    parts = run_blocks(work, split_rows(n, block_rows=64), pool=pool)
    if any(len(columns) < counts.sum() for counts, columns, _ in parts):
        return None
    starts = np.concatenate([[0], np.cumsum(np.concatenate([counts for counts, _, _ in parts]))])
    return ActiveEntries(
        starts, np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])
    )
