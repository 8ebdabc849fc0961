"""Compiled distance kernels: what NumPy and BLAS lack.

SciPy and scikit-learn compute L1 distances a pair at a time and stay far below the speed of the cores. Here
a register tile of 4 x 2 pairs shares each load, and the feature weight rides on the multiply-add for free.
The tile is a small function over contiguous rows: that form vectorises, and one big loop nest does not.
"""

from __future__ import annotations

import numpy as np

from bispectral_ot.compiled import njit
from bispectral_ot.costs._typing import Codes, Floats

# Between these products of squared norms, float32 inner products neither underflow nor overflow.
_SMALLEST, _LARGEST = 1e-60, 1e70
# Rows of b that stay in the second-level cache while the rows of a pass by.
_B_ROWS_IN_CACHE = 24


@njit(nogil=True, cache=True, fastmath=True)
def _l1_tile(  # type: ignore[no-untyped-def]
    a0, a1, a2, a3, b0, b1, weights, out, i, j
):
    s00 = s10 = s20 = s30 = s01 = s11 = s21 = s31 = np.float32(0)
    for k in range(a0.shape[0]):
        weight = weights[k]
        y0 = b0[k]
        y1 = b1[k]
        s00 += weight * abs(a0[k] - y0)
        s10 += weight * abs(a1[k] - y0)
        s20 += weight * abs(a2[k] - y0)
        s30 += weight * abs(a3[k] - y0)
        s01 += weight * abs(a0[k] - y1)
        s11 += weight * abs(a1[k] - y1)
        s21 += weight * abs(a2[k] - y1)
        s31 += weight * abs(a3[k] - y1)
    out[i, j] = s00
    out[i + 1, j] = s10
    out[i + 2, j] = s20
    out[i + 3, j] = s30
    out[i, j + 1] = s01
    out[i + 1, j + 1] = s11
    out[i + 2, j + 1] = s21
    out[i + 3, j + 1] = s31


@njit(nogil=True, cache=True, fastmath=True)
def _l1_pair(a, b, weights):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for k in range(a.shape[0]):
        total += weights[k] * abs(a[k] - b[k])
    return total


@njit(nogil=True, cache=True)
def l1_block(a: Floats, b: Floats, weights: Floats, out: Floats) -> None:
    """Fill ``out[i, j] = sum_k weights[k] |a[i, k] - b[j, k]|``; a (n, k), b (m, k), out (n, m), float32."""
    n, m = a.shape[0], b.shape[0]
    n_tiled, m_tiled = n - n % 4, m - m % 2
    for j_start in range(0, m_tiled, _B_ROWS_IN_CACHE):
        j_stop = min(j_start + _B_ROWS_IN_CACHE, m_tiled)
        for i in range(0, n_tiled, 4):
            for j in range(j_start, j_stop, 2):
                _l1_tile(a[i], a[i + 1], a[i + 2], a[i + 3], b[j], b[j + 1], weights, out, i, j)
    for i in range(n):
        for j in range(m_tiled if i < n_tiled else 0, m):
            out[i, j] = _l1_pair(a[i], b[j], weights)


@njit(nogil=True, cache=True)
def _squared_pair(a, b, a_scale, b_scale, weights):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(a.shape[0]):
        difference = np.float64(a[k]) * a_scale - np.float64(b[k]) * b_scale
        total += weights[k] * difference * difference
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def _finish_squared_row(products, a_norm, b_norms, small, take_root):  # type: ignore[no-untyped-def]
    """Finish a row without branches, so that it vectorises; entries to sum again become NaN and are counted."""
    doubtful = 0
    for j in range(products.shape[0]):
        norms = a_norm + b_norms[j]
        squared = norms - 2.0 * products[j]
        both = a_norm * b_norms[j]
        good = (squared >= small * norms) & (both > _SMALLEST) & (both < _LARGEST)
        value = np.sqrt(squared) if take_root else squared
        products[j] = value if good else np.nan
        doubtful += not good
    return doubtful


@njit(nogil=True, cache=True)
def finish_squared(
    products: Floats,
    a: Floats,
    b: Floats,
    a_norms: Floats,
    b_norms: Floats,
    weights: Floats,
    small: float,
    take_root: bool,
) -> None:
    """Turn inner products into (squared) distances in place: ``|x|^2 - 2 x.y + |y|^2``.

    The difference cancels for near-duplicates, so where less than ``small`` of the norms is left (or the
    products are beyond float32) the distance is summed again term by term: equal rows get exactly 0, and
    nothing becomes negative or NaN.
    """
    for i in range(products.shape[0]):
        if _finish_squared_row(products[i], a_norms[i], b_norms, small, take_root) == 0:
            continue
        for j in range(products.shape[1]):
            if np.isnan(products[i, j]):
                squared = _squared_pair(a[i], b[j], 1.0, 1.0, weights)
                products[i, j] = np.sqrt(squared) if take_root else squared


@njit(nogil=True, cache=True, error_model="numpy")
def _finish_cosine_row(products, a_norm, b_norms, small):  # type: ignore[no-untyped-def]
    """As :func:`_finish_squared_row`; zero rows are doubtful, too."""
    doubtful = 0
    for j in range(products.shape[0]):
        both = a_norm * b_norms[j]
        distance = 1.0 - products[j] / np.sqrt(both)
        good = (distance >= small) & (both > _SMALLEST) & (both < _LARGEST)
        products[j] = min(distance, 2.0) if good else np.nan
        doubtful += not good
    return doubtful


@njit(nogil=True, cache=True)
def finish_cosine(
    products: Floats, a: Floats, b: Floats, a_norms: Floats, b_norms: Floats, weights: Floats, small: float
) -> None:
    """Turn inner products into ``1 - x.y / (|x| |y|)`` in place.

    A zero row has distance 1 to every other row and 0 to another zero row. Near 0, or where the products are
    beyond float32, the distance is summed again as ``|x/|x| - y/|y||^2 / 2``, which does not cancel.
    """
    for i in range(products.shape[0]):
        if _finish_cosine_row(products[i], a_norms[i], b_norms, small) == 0:
            continue
        for j in range(products.shape[1]):
            if not np.isnan(products[i, j]):
                continue
            if a_norms[i] == 0.0 or b_norms[j] == 0.0:
                products[i, j] = 0.0 if a_norms[i] == b_norms[j] else 1.0
            else:
                a_scale, b_scale = 1.0 / np.sqrt(a_norms[i]), 1.0 / np.sqrt(b_norms[j])
                products[i, j] = min(0.5 * _squared_pair(a[i], b[j], a_scale, b_scale, weights), 2.0)


@njit(nogil=True, cache=True)
def quantize_rows(block: Floats, codes: Codes, offsets: Floats, steps: Floats) -> None:
    """Write each row of ``block`` (n, m) as 16-bit codes: ``block ~ offsets[i] + steps[i] * codes[i]``."""
    for i in range(block.shape[0]):
        low, high = block[i, 0], block[i, 0]
        for value in block[i]:
            low = min(low, value)
            high = max(high, value)
        step = (np.float64(high) - np.float64(low)) / 65535.0
        offsets[i] = low
        steps[i] = step
        scale = 1.0 / step if step > 0.0 else 0.0
        for j in range(block.shape[1]):
            codes[i, j] = np.uint16((np.float64(block[i, j]) - low) * scale + 0.5)
