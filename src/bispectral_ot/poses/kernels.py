"""Compiled inner products of steerable coefficients, frequency by frequency."""
# mypy: allow-untyped-decorators

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def cross_spectra(
    source: NDArray[np.float32],
    target: NDArray[np.float32],
    indices: NDArray[np.int64],
    starts: NDArray[np.int64],
    mirrors: bool,
    out: NDArray[np.float32],
) -> None:
    """Fill ``out`` (n, k, sheets, 2 K) with real, then imaginary parts of ``sum x conj(y)`` for each frequency.

    Columns ``starts[f]`` to ``starts[f + 1]`` are those of frequency f: real parts, then imaginary ones. With
    ``mirrors`` there is a second sheet for the mirrored source, whose coefficients are ``conj(x)``. An index of -1 is
    no target, and gets zeros.
    """
    n_frequencies = len(starts) - 1
    for i in range(indices.shape[0]):
        x = source[i]
        for j in range(indices.shape[1]):
            if indices[i, j] < 0:
                out[i, j] = 0.0
                continue
            y = target[indices[i, j]]
            for f in range(n_frequencies):
                middle = (starts[f] + starts[f + 1]) // 2
                half = middle - starts[f]
                rr = ii = ri = ir = np.float32(0.0)
                for column in range(starts[f], middle):
                    rr += x[column] * y[column]
                    ii += x[column + half] * y[column + half]
                    ri += x[column] * y[column + half]
                    ir += x[column + half] * y[column]
                out[i, j, 0, f] = rr + ii
                out[i, j, 0, n_frequencies + f] = ir - ri
                if mirrors:
                    out[i, j, 1, f] = rr - ii
                    out[i, j, 1, n_frequencies + f] = -ir - ri
