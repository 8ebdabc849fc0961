"""Compiled distances, and passes over a cost: one Sinkhorn iteration, and the summary of a plan.

For L1 a register tile of 4 x 2 pairs shares each load: a small function over contiguous rows, since that form
vectorizes and one big loop nest does not.

All exponents are in base 2: ``P[i, j] = 2 ** (f[i] + g[j] - unit * C[i, j])``. A pass computes the exponential from the
stored cost, so nothing under- or overflows at any regularization. The exponential is written out because numba
would call the C library once per number, which does not vectorize.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from bispectral_ot.compiled import njit

Array = NDArray[Any]


def _exp2_coefficients(degree: int) -> list[float]:
    fit = Chebyshev.interpolate(np.exp2, degree, domain=[-0.5, 0.5])
    return [float(c) for c in fit.convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1]).coef]


# Sums may be reordered, so that they vectorize; the rounding trick of the exponential may not.
_EXACT_ORDER = {"contract", "nsz", "nnan", "ninf"}
_VECTOR = _EXACT_ORDER | {"reassoc"}
# Adding this to a small float leaves its nearest integer in the lowest bits of the mantissa.
_ROUND32, _ROUND64 = np.float32(1.5 * 2**23), np.float64(1.5 * 2**52)
_LOWEST32, _LOWEST64 = np.float32(-125.0), np.float64(-1021.0)
_HIGHEST32, _HIGHEST64 = np.float32(126.0), np.float64(1022.0)
# Chebyshev fits of 2**r for |r| <= 1/2, good to a few units in the last place of each precision.
_A0, _A1, _A2, _A3, _A4, _A5 = (np.float32(c) for c in _exp2_coefficients(5))
_B0, _B1, _B2, _B3, _B4, _B5, _B6, _B7, _B8, _B9, _B10 = _exp2_coefficients(10)
# Rows whose column sums are added in the working precision before they join the float64 totals.
_ROWS_PER_FLUSH = 64
# Between these products of squared norms, float32 inner products neither underflow nor overflow.
_SMALLEST, _LARGEST = 1e-60, 1e70
# Entries of a row that are compared with a mark at a time.
_CHUNK = 512
# Rows of b, and columns, that stay in the second-level cache while the rows of a pass by.
_B_ROWS_IN_CACHE = 128
_TILE_COLUMNS = 512


@njit(nogil=True, cache=True, fastmath=True)
def _l1_tile(a0, a1, a2, a3, b0, b1, weights, out, i, j):  # type: ignore[no-untyped-def]
    s00 = s10 = s20 = s30 = s01 = s11 = s21 = s31 = np.float32(0)
    for k in range(a0.shape[0]):
        weight, y0, y1 = weights[k], b0[k], b1[k]
        s00 += weight * abs(a0[k] - y0)
        s10 += weight * abs(a1[k] - y0)
        s20 += weight * abs(a2[k] - y0)
        s30 += weight * abs(a3[k] - y0)
        s01 += weight * abs(a0[k] - y1)
        s11 += weight * abs(a1[k] - y1)
        s21 += weight * abs(a2[k] - y1)
        s31 += weight * abs(a3[k] - y1)
    for row, (first, second) in enumerate(((s00, s01), (s10, s11), (s20, s21), (s30, s31))):
        out[i + row, j] += first
        out[i + row, j + 1] += second


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
    out[:] = 0.0
    for first in range(0, a.shape[1], _TILE_COLUMNS):
        some = slice(first, first + _TILE_COLUMNS)
        for j_start in range(0, m_tiled, _B_ROWS_IN_CACHE):
            j_stop = min(j_start + _B_ROWS_IN_CACHE, m_tiled)
            for i in range(0, n_tiled, 4):
                a0, a1, a2, a3 = a[i][some], a[i + 1][some], a[i + 2][some], a[i + 3][some]
                for j in range(j_start, j_stop, 2):
                    _l1_tile(a0, a1, a2, a3, b[j][some], b[j + 1][some], weights[some], out, i, j)
    for i in range(n):
        for j in range(m_tiled if i < n_tiled else 0, m):
            out[i, j] = _l1_pair(a[i], b[j], weights)


@njit(nogil=True, cache=True, error_model="numpy")
def finish(products, a_norms, b_norms, small, cosine, root):  # type: ignore[no-untyped-def]
    """Convert inner products (n, m) to distances in place, and count the doubtful ones, which become NaN.

    Squared distances ``|x|^2 - 2 x.y + |y|^2``, their root, or ``1 - x.y / (|x| |y|)`` for cosine; norms are squared.
    Doubtful are those of which cancellation leaves less than the fraction ``small`` of the norms, those whose products
    are beyond float32, and those of zero rows.
    """
    doubtful = 0
    for i in range(products.shape[0]):
        row, a_norm = products[i], a_norms[i]
        for j in range(row.shape[0]):  # without branches, so that it vectorizes
            both = a_norm * b_norms[j]
            norms = 1.0 if cosine else a_norm + b_norms[j]
            value = 1.0 - row[j] / np.sqrt(both) if cosine else norms - 2.0 * row[j]
            good = (value >= small * norms) & (both > _SMALLEST) & (both < _LARGEST)
            value = np.sqrt(value) if root else min(value, 2.0) if cosine else value
            row[j] = value if good else np.nan
            doubtful += not good
    return doubtful


@njit(nogil=True, cache=True)
def quantize_rows(block, offsets, steps, codes):  # type: ignore[no-untyped-def]
    """Fill 16-bit ``codes`` of rows (n, m): ``block[i] ~ offsets[i] + steps[i] * codes[i]``; steps are not 0."""
    for i in range(block.shape[0]):
        low, scale = np.float32(offsets[i]), np.float32(1.0 / steps[i])
        for j in range(block.shape[1]):
            codes[i, j] = np.int32((block[i, j] - low) * scale + np.float32(0.5))


def exp2(x: float) -> float:
    """``2 ** x`` in the precision of x; beyond the normal numbers, the smallest or the largest power among them."""
    return float(np.exp2(x))


@overload(exp2, jit_options={"fastmath": _EXACT_ORDER})
def _exp2(x):  # type: ignore[no-untyped-def]
    if x == types.float32:

        def exp2_float32(x):  # type: ignore[no-untyped-def]
            x = min(max(x, _LOWEST32), _HIGHEST32)
            shifted = x + _ROUND32
            r = x - (shifted - _ROUND32)
            p = _A0 + r * (_A1 + r * (_A2 + r * (_A3 + r * (_A4 + r * _A5))))
            bits = np.float32(p).view(np.int32) + (np.float32(shifted).view(np.int32) << np.int32(23))
            return np.int32(bits).view(np.float32)

        return exp2_float32

    def exp2_float64(x):  # type: ignore[no-untyped-def]
        x = min(max(x, _LOWEST64), _HIGHEST64)
        shifted = x + _ROUND64
        r = x - (shifted - _ROUND64)
        p = _B6 + r * (_B7 + r * (_B8 + r * (_B9 + r * _B10)))
        p = _B0 + r * (_B1 + r * (_B2 + r * (_B3 + r * (_B4 + r * (_B5 + r * p)))))
        bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
        return np.int64(bits).view(np.float64)

    return exp2_float64


@njit(nogil=True, cache=True, fastmath=_VECTOR)
def _plan_row(codes, g, step, shift, out):  # type: ignore[no-untyped-def]
    """``out[j] = 2 ** (shift + g[j] - step * codes[j])`` and its sum, in the precision of g."""
    real, total = g.dtype.type, g.dtype.type(0)
    for j in range(codes.shape[0]):
        value = exp2((g[j] - step * real(codes[j])) + shift)
        out[j] = value
        total += value
    return total


@njit(nogil=True, cache=True, fastmath=_VECTOR)
def _largest_exponent(codes, g, step):  # type: ignore[no-untyped-def]
    real = g.dtype.type
    largest = g[0] - step * real(codes[0])
    for j in range(codes.shape[0]):
        largest = max(largest, g[j] - step * real(codes[j]))
    return largest


@njit(nogil=True, cache=True, fastmath=_VECTOR)
def _add_scaled(weight, row, totals):  # type: ignore[no-untyped-def]
    for j in range(row.shape[0]):
        totals[j] += weight * row[j]


def _scratch(n: int, m: int, dtype: Any) -> Array:
    """Arrays to work in, 64 numbers from others: a loop over close arrays is not vectorized, so its sums differ."""
    return np.zeros(64 + n * m, dtype)[64:].reshape(n, m)


def sweep(rows: Any, guess: Array, weights: Array, unit: float, g: Array, damping: float) -> tuple[Array, Array]:
    """One Sinkhorn iteration over some :class:`EncodedRows`, see :meth:`Cost.sweep`, in the precision of ``g``.

    Returns f, of which ``guess`` is the order of magnitude, and the column sums of these rows of the plan.
    """
    f, column_sums = guess.astype(np.float64), np.zeros(len(g))
    sweep_rows(rows, f, weights, unit, g, damping, column_sums, _scratch(2, len(g), g.dtype))
    return f, column_sums


@njit(nogil=True, cache=True)
def sweep_rows(rows, f, weights, unit, g, damping, column_sums, scratch):  # type: ignore[no-untyped-def]
    """Replace f and add to the column sums, see :func:`sweep`."""
    real, n, m, row, partial = g.dtype.type, len(f), len(g), scratch[0], scratch[1]
    for i in range(n):
        if weights[i] > 0.0:
            step, offset = real(rows.steps[i] * unit), rows.offsets[i] * unit
            shift = real(f[i] - offset)
            total = np.float64(_plan_row(rows.codes[i], g, step, shift, row))
            if not 1e-24 < total < 1e24:  # the guess was far off: start from the largest entry
                shift = -_largest_exponent(rows.codes[i], g, step)
                total = np.float64(_plan_row(rows.codes[i], g, step, shift, row))
            start = np.float64(shift) + offset
            f[i] = np.log2(weights[i]) - damping * (np.log2(total) - start)
            _add_scaled(real(2.0 ** (f[i] - start)), row, partial)
        if (i + 1) % _ROWS_PER_FLUSH == 0 or i + 1 == n:
            for j in range(m):
                column_sums[j] += partial[j]
                partial[j] = 0


@njit(nogil=True, cache=True)
def sweep_active(rows, guess, weights, unit, g, damping):  # type: ignore[no-untyped-def]
    """As :func:`sweep`, over some :class:`ActiveRows`."""
    real, first = g.dtype.type, 0
    f, column_sums = guess.astype(np.float64), np.zeros(len(g))
    near, row = np.empty(rows.counts.max(), g.dtype), np.empty(rows.counts.max(), g.dtype)
    for i in range(len(f)):
        count = rows.counts[i]
        columns, codes = rows.columns[first : first + count], rows.codes[first : first + count]
        first += count
        if weights[i] > 0.0 and count > 0:
            for k in range(count):
                near[k] = g[columns[k]]
            step, offset = real(rows.steps[i] * unit), rows.offsets[i] * unit
            shift = real(f[i] - offset)
            total = np.float64(_plan_row(codes, near, step, shift, row))
            if not 1e-24 < total < 1e24:
                shift = -_largest_exponent(codes, near, step)
                total = np.float64(_plan_row(codes, near, step, shift, row))
            start = np.float64(shift) + offset
            f[i] = np.log2(weights[i]) - damping * (np.log2(total) - start)
            weight = 2.0 ** (f[i] - start)
            for k in range(count):
                column_sums[columns[k]] += weight * row[k]
    return f, column_sums


@njit(nogil=True, cache=True, fastmath=_VECTOR)
def _heights(codes, g, step, shift, low_row, low_columns, out):  # type: ignore[no-untyped-def]
    """Exponents of a row above the lower of its two marks."""
    for j in range(codes.shape[0]):
        height = (g[j] - step * np.float64(codes[j])) + shift
        out[j] = max(height - low_row, height - low_columns[j])


@njit(nogil=True, cache=True)
def gather(rows, f, low_rows, unit, g, low_columns, limit):  # type: ignore[no-untyped-def]
    """Fields of :class:`ActiveRows`: the entries of some rows that are above a mark, see :meth:`Cost.gather`.

    Of more than ``limit`` entries for each row on average, only the numbers are returned.
    """
    n, m = rows.codes.shape
    counts, found, kept = np.zeros(n, np.int64), 0, 0
    columns, codes, heights = np.empty(n * limit + m, np.int32), np.empty(n * limit, rows.codes.dtype), np.empty(m)
    for i in range(n):
        shift = f[i] - rows.offsets[i] * unit
        _heights(rows.codes[i], g, rows.steps[i] * unit, shift, low_rows[i], low_columns, heights)
        found = kept
        for j in range(m):  # without branches
            columns[found] = j
            found += heights[j] > 0.0
        counts[i] = found - kept
        if found <= n * limit:
            for k in range(kept, found):
                codes[k] = rows.codes[i, columns[k]]
            kept = found
    if kept < counts.sum():
        kept = 0
    return counts, columns[:kept].copy(), codes[:kept].copy(), rows.offsets, rows.steps


@njit(nogil=True, cache=True, fastmath=_VECTOR)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * np.float64(b[j])
    return total


@njit(nogil=True, cache=True)
def _largest(row, indices, masses):  # type: ignore[no-untyped-def]
    """Find the k largest entries of a row, in falling order, by insertion (most chunks fail the first test)."""
    k = masses.shape[0]
    masses[:] = -1.0
    for start in range(0, row.shape[0], _CHUNK):
        chunk, least, above = row[start : start + _CHUNK], masses[k - 1], 0
        for j in range(chunk.shape[0]):  # without branches, so that it vectorizes
            above += chunk[j] > least
        for j in range(chunk.shape[0] if above else 0):
            if chunk[j] > masses[k - 1]:
                place = k - 1
                while place > 0 and masses[place - 1] < chunk[j]:
                    masses[place], indices[place] = masses[place - 1], indices[place - 1]
                    place -= 1
                masses[place], indices[place] = chunk[j], start + j


@njit(nogil=True, cache=True)
def _smallest(codes):  # type: ignore[no-untyped-def]
    """Index of the first of the smallest codes, see :func:`_largest`."""
    best = 0
    for start in range(0, codes.shape[0], _CHUNK):
        chunk, least, below = codes[start : start + _CHUNK], codes[best], 0
        for j in range(chunk.shape[0]):
            below += chunk[j] < least
        for j in range(chunk.shape[0] if below else 0):
            best = start + j if chunk[j] < codes[best] else best
    return best


def read(rows, f, source_labels, unit, g, target_labels, k, n_sources, n_targets):  # type: ignore[no-untyped-def]
    """Fields of a :class:`PlanSummary` of some rows of the plan, see :meth:`Cost.read`."""
    n, m = rows.codes.shape
    top = np.zeros((n, k), np.int64), np.zeros((n, k)), np.zeros((n, k))
    by_rows = (np.zeros(n), np.zeros(n), *top, np.zeros(n, np.int64), np.zeros(n), np.zeros((n, n_targets)))
    sums = np.zeros(m), np.zeros((n_sources, m))
    lanes = np.empty((8, n_targets + 1))  # sums in turns: an addition need not wait for the one before it
    summarize(rows, f, source_labels, unit, g, target_labels, by_rows, sums, (_scratch(1, m, float)[0], lanes))
    return by_rows + sums


@njit(nogil=True, cache=True)
def summarize(rows, f, source_labels, unit, g, target_labels, by_rows, sums, scratch):  # type: ignore[no-untyped-def]
    """Fill the results of rows and the sums over them, see :func:`read`."""
    row_sums, row_costs, top_indices, top_masses, top_costs, nearest, nearest_costs, source_class_mass = by_rows
    (column_sums, target_class_mass), (row, lanes), codes = sums, scratch, rows.codes
    for i in range(codes.shape[0]):
        offset, step = rows.offsets[i], rows.steps[i]
        if f[i] == -np.inf:
            row[:] = 0.0
        else:
            row_sums[i] = _plan_row(codes[i], g, step * unit, f[i] - offset * unit, row)
        row_costs[i] = offset * row_sums[i] + step * _dot(row, codes[i])
        _add_scaled(1.0, row, column_sums)
        if top_masses.shape[1] > 0:
            _largest(row, top_indices[i], top_masses[i])
            for place in range(top_masses.shape[1]):
                top_costs[i, place] = offset + step * np.float64(codes[i, top_indices[i, place]])
            nearest[i] = _smallest(codes[i])
            nearest_costs[i] = offset + step * np.float64(codes[i, nearest[i]])
        if lanes.shape[1] > 1:
            lanes[:] = 0.0
            for j in range(row.shape[0]):
                lanes[j & 7, target_labels[j] + 1] += row[j]
            for lane in range(8):
                _add_scaled(1.0, lanes[lane, 1:], source_class_mass[i])
        if len(target_class_mass) > 0 and source_labels[i] >= 0:
            _add_scaled(1.0, row, target_class_mass[source_labels[i]])


def class_kernels(rows: Any, labels: Array, n_classes: int, unit: float) -> tuple[Array, Array]:
    """Kernel sums (n, classes, 3) and smallest costs (n,) of some rows, see :meth:`Cost.class_kernels`."""
    n, m = rows.codes.shape
    sums, smallest = np.zeros((n, 3 * n_classes)), np.zeros(n)
    add_kernels(rows, labels, unit, sums, smallest, np.empty((4, 3 * n_classes)), _scratch(2, m, np.float32))
    return sums.reshape((n, n_classes, 3)).astype(np.float32), smallest


@njit(nogil=True, cache=True)
def add_kernels(rows, labels, unit, sums, smallest, lanes, scratch):  # type: ignore[no-untyped-def]
    """Fill kernel sums and smallest costs, see :func:`class_kernels`."""
    m, zeros, row = len(labels), scratch[0], scratch[1]
    for i in range(len(smallest)):
        codes, step, low = rows.codes[i], np.float32(rows.steps[i] * unit), rows.codes[i, 0]
        for j in range(m):
            low = min(low, codes[j])
        _plan_row(codes, zeros, step, step * np.float32(low), row)
        lanes[:] = 0.0
        for j in range(m):
            wide = np.float64(row[j])  # its powers may be beyond float32
            middle, total, at = wide * wide * wide, lanes[j & 3], 3 * labels[j]  # in turns, as in `read`
            total[at] += middle * middle * middle
            total[at + 1] += middle
            total[at + 2] += wide
        for lane in range(4):
            _add_scaled(1.0, lanes[lane], sums[i])
        smallest[i] = rows.offsets[i] + rows.steps[i] * np.float64(low)
