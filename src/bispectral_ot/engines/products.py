"""Matrix products on all cores, with the same numbers whatever the number of cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.engines.engine import Threads, fill_rows, row_blocks

_ROWS = 256  # of a block: few enough for all cores, many enough for the whole rate of a product


def product(rows: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """Matrix product, some rows (n, k) at a time on all cores: the same numbers whatever the number of cores."""
    out = np.empty((len(rows), matrix.shape[1]), dtype=np.result_type(rows, matrix))
    return fill_rows(lambda _, some: some @ matrix, out, block_rows=_ROWS, rows=(rows,))


def gram(rows: NDArray[Any]) -> NDArray[Any]:
    """Products (n, n) of all pairs of rows (n, k), each pair once, on all cores."""
    out = np.empty((len(rows), len(rows)), dtype=rows.dtype)
    blocks = row_blocks(len(rows), block_rows=_ROWS)
    found = Threads().map(lambda block: rows[block.start : block.stop] @ rows[: block.stop].T, blocks)
    for (start, stop, _), part in zip(blocks, found, strict=True):
        out[start:stop, :stop], out[:stop, start:stop] = part, part.T
    return out


def side_by_side(*works: Callable[[], Any]) -> list[Any]:
    """Results of some functions, each on a core of its own."""
    return list(Threads().map(lambda block: works[block.start](), row_blocks(len(works), block_rows=1)))
