"""Compiled kernels of the distance at the best rotation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit
from bispectral_ot.costs._typing import Floats, Pairs


@njit(nogil=True, cache=True)
def _best_rotation(a, b, starts, phases, mirror):  # type: ignore[no-untyped-def]
    """The largest ``<x, g y>`` over the rotations, and its number; float64."""
    best, chosen = -np.inf, 0
    n_frequencies = len(starts) - 1
    products = np.zeros(n_frequencies, dtype=np.complex128)
    for k in range(n_frequencies):
        half = (starts[k + 1] - starts[k]) // 2
        for column in range(starts[k], starts[k] + half):
            x = complex(a[column], a[column + half])
            y = complex(b[column], b[column + half])
            products[k] += x * (y if mirror else y.conjugate())
    for rotation in range(phases.shape[1]):
        total = 0.0
        for k in range(n_frequencies):
            total += (phases[k, rotation] * products[k]).real
        if total > best:
            best, chosen = total, rotation
    return best, chosen


@njit(nogil=True, cache=True)
def _squared_at(a, b, a_scale, b_scale, starts, phases, rotation, mirror):  # type: ignore[no-untyped-def]
    """``|x - g y|^2`` at one rotation, summed term by term in float64."""
    total = 0.0
    for k in range(len(starts) - 1):
        half = (starts[k + 1] - starts[k]) // 2
        turn = phases[k, rotation].conjugate()
        for column in range(starts[k], starts[k] + half):
            x = complex(a[column], a[column + half]) * a_scale
            y = complex(b[column], b[column + half]) * b_scale
            difference = x - turn * (y.conjugate() if mirror else y)
            total += difference.real**2 + difference.imag**2
    return total


@njit(nogil=True, cache=True)
def squared_pairs(
    a: Floats, b: Floats, pairs: Pairs, starts: NDArray[np.int64], phases: NDArray[Any], mirrors: bool
) -> NDArray[np.float64]:
    """``min over g of |x - g y|^2`` of some pairs of scaled rows, term by term in float64."""
    out = np.empty(len(pairs.rows))
    for n in range(len(out)):
        x, y = a[pairs.rows[n]], b[pairs.columns[n]]
        scales = pairs.row_scales[n], pairs.column_scales[n]
        product, rotation = _best_rotation(x, y, starts, phases, False)
        out[n] = _squared_at(x, y, scales[0], scales[1], starts, phases, rotation, False)
        if mirrors:
            mirrored, rotation = _best_rotation(x, y, starts, phases, True)
            if mirrored > product:
                out[n] = _squared_at(x, y, scales[0], scales[1], starts, phases, rotation, True)
    return out
