"""Compiled end of the aligned distance: inner products at the best rotation become distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit
from bispectral_ot.costs._typing import Floats


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
def _squared_pair(a, b, a_scale, b_scale, starts, phases, mirrors):  # type: ignore[no-untyped-def]
    """``min over g of |x - g y|^2``."""
    product, rotation = _best_rotation(a, b, starts, phases, False)
    squared = _squared_at(a, b, a_scale, b_scale, starts, phases, rotation, False)
    if mirrors:
        mirrored, rotation = _best_rotation(a, b, starts, phases, True)
        if mirrored > product:
            squared = _squared_at(a, b, a_scale, b_scale, starts, phases, rotation, True)
    return squared


@njit(nogil=True, cache=True)
def finish_aligned(
    products: Floats,
    a: Floats,
    b: Floats,
    a_norms: Floats,
    b_norms: Floats,
    starts: NDArray[np.int64],
    phases: NDArray[Any],
    mirrors: bool,
    small: float,
    cosine: bool,
    root: bool,
) -> None:
    """Turn the largest inner products ``<x, g y>`` (n, m) into distances in place: cosine, or squared L2 or its root.

    Norms are squared. What is below the share ``small`` of the norms has cancelled and is summed again term by term,
    so that equal rows get exactly 0. For cosine, a zero row has distance 1 to every other row and 0 to a zero row.
    """
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            if cosine:
                if a_norms[i] == 0.0 or b_norms[j] == 0.0:
                    products[i, j] = 0.0 if a_norms[i] == b_norms[j] else 1.0
                    continue
                distance = 1.0 - products[i, j] / np.sqrt(a_norms[i] * b_norms[j])
                if not distance >= small:
                    a_scale, b_scale = 1.0 / np.sqrt(a_norms[i]), 1.0 / np.sqrt(b_norms[j])
                    distance = 0.5 * _squared_pair(a[i], b[j], a_scale, b_scale, starts, phases, mirrors)
                products[i, j] = min(distance, 2.0)
            else:
                norms = a_norms[i] + b_norms[j]
                squared = norms - 2.0 * products[i, j]
                if not squared >= small * norms:
                    squared = _squared_pair(a[i], b[j], 1.0, 1.0, starts, phases, mirrors)
                products[i, j] = np.sqrt(squared) if root else squared
