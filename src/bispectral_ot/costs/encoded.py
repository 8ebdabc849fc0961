"""Rows of a cost as they are kept: one form for float32, 16 bits and given matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class EncodedRows(NamedTuple):
    """Rows of a cost: ``cost[i, j] = offsets[i] + steps[i] * codes[i, j]``.

    Attributes
    ----------
    codes : (n, m) float32, float64 or uint16
    offsets, steps : (n,)
    """

    codes: NDArray[Any]
    offsets: NDArray[np.float64]
    steps: NDArray[np.float64]

    def decoded(self) -> NDArray[Any]:
        """The rows themselves; float64 where the codes are, else float32. Not a view."""
        real = np.float64 if self.codes.dtype == np.float64 else np.float32
        rows: NDArray[Any] = self.codes.astype(real)
        if not (self.steps == 1).all():
            rows = rows * self.steps[:, None].astype(real)
        if self.offsets.any():
            rows = rows + self.offsets[:, None].astype(real)
        return rows

    def part(self, start: int, stop: int) -> EncodedRows:
        """Some of the rows, as views."""
        return EncodedRows(self.codes[start:stop], self.offsets[start:stop], self.steps[start:stop])


def plain(rows: NDArray[Any]) -> EncodedRows:
    """Rows that are their own codes."""
    return EncodedRows(rows, np.zeros(len(rows)), np.ones(len(rows)))


def quantized(rows: NDArray[np.float32]) -> EncodedRows:
    """Rows in 16 bits: each is cut into 65,535 steps between its smallest and its largest entry."""
    from bispectral_ot.costs import distance_kernels

    codes = np.empty(rows.shape, dtype=np.uint16)
    offsets, steps = np.empty(len(rows)), np.empty(len(rows))
    distance_kernels.quantize_rows(rows, codes, offsets, steps)
    return EncodedRows(codes, offsets, steps)


def shifted(rows: NDArray[np.float64]) -> EncodedRows:
    """Float64 rows shifted to 0 and scaled to 1 before anything rounds them.

    Passes in float32 then see the differences within a row however large or small the numbers themselves are.
    """
    low = rows.min(axis=1)
    # halves, because the difference of two finite numbers can be infinite
    half = rows.max(axis=1) / 2 - low / 2
    steps = np.where(half > 0, half, 1.0)
    with np.errstate(under="ignore"):
        codes = (rows / 2 - low[:, None] / 2) / steps[:, None]
    return EncodedRows(codes, low, 2 * steps)
