"""Compiled distance kernels.

For L1 a register tile of 4 x 2 pairs shares each load: a small function over contiguous rows, since that form
vectorises and one big loop nest does not.
"""

from __future__ import annotations

import numpy as np

from bispectral_ot.compiled import njit

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
def l1_block(a, b, weights, out):  # type: ignore[no-untyped-def]
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


@njit(nogil=True, cache=True, error_model="numpy")
def _finish_row(products, a_norm, b_norms, small, cosine, root):  # type: ignore[no-untyped-def]
    """Finish a row without branches, so that it vectorises; entries to sum again become NaN and are counted."""
    doubtful = 0
    for j in range(products.shape[0]):
        both = a_norm * b_norms[j]
        norms = 1.0 if cosine else a_norm + b_norms[j]
        value = 1.0 - products[j] / np.sqrt(both) if cosine else norms - 2.0 * products[j]
        good = (value >= small * norms) & (both > _SMALLEST) & (both < _LARGEST)
        value = np.sqrt(value) if root else min(value, 2.0) if cosine else value
        products[j] = value if good else np.nan
        doubtful += not good
    return doubtful


@njit(nogil=True, cache=True)
def finish(products, a_norms, b_norms, small, cosine, root):  # type: ignore[no-untyped-def]
    """Turn inner products (n, m) into distances in place, and count the doubtful ones, which become NaN.

    Squared distances ``|x|^2 - 2 x.y + |y|^2``, their root, or ``1 - x.y / (|x| |y|)`` for cosine; norms are squared.
    Doubtful are those of which cancellation leaves less than the fraction ``small`` of the norms, those whose products
    are beyond float32, and those of zero rows.
    """
    doubtful = 0
    for i in range(products.shape[0]):
        doubtful += _finish_row(products[i], a_norms[i], b_norms, small, cosine, root)
    return doubtful


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "reassoc"})
def _quantize_row(row, codes):  # type: ignore[no-untyped-def]
    low, high = row[0], row[0]
    for j in range(row.shape[0]):
        low = min(low, row[j])
        high = max(high, row[j])
    step = (np.float64(high) - np.float64(low)) / 65535.0
    scale = 1.0 / step if step > 0.0 else 0.0
    for j in range(row.shape[0]):
        codes[j] = np.int32((np.float64(row[j]) - np.float64(low)) * scale + 0.5)
    return np.float64(low), step


@njit(nogil=True, cache=True)
def quantize_rows(block):  # type: ignore[no-untyped-def]
    """16-bit codes, offsets and steps of rows (n, m): ``block[i] ~ offsets[i] + steps[i] * codes[i]``."""
    n, m = block.shape
    codes, offsets, steps = np.empty((n, m), np.uint16), np.empty(n), np.empty(n)
    for i in range(n):
        offsets[i], steps[i] = _quantize_row(block[i], codes[i])
    return codes, offsets, steps
