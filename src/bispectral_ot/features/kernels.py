"""Compiled loops of the features: products and norms of coefficients, edges, and local filters.

They release the interpreter lock. A transformer and its copy from a file must give the same bits, but two compilations
of a kernel (read-only arrays get one of their own) may differ in what fast maths makes of float32 products: products
have none, norms are summed in float64, and complex products are written out.

Local filters work on planes with a margin of zeros, one image at a time, so that all stays in cache. Planes are walked
as one flat stretch of memory, margins between rows included, which the compiler can vectorize.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit

Plane = NDArray[np.float32]
Index = NDArray[Any]
MARGIN = 2  # zeros around a plane: as far as the filters reach
# Products of float32 spectra carry errors of about 1e-7 of the largest one: a smaller norm is only rounding.
ROUNDING = 1e-6
# Sums may be reordered, and divisions do not check for zero: only then does the compiler use vector instructions.
FAST: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
}
# Added to squares before roots: far below the rounding of any response, and keeps quotients finite.
TINY = np.float32(1e-20)


@njit(nogil=True, cache=True)
def multiply(values: NDArray[np.complex64], factors: Index, n_real: int, out: Plane) -> None:
    """Write products of two or three of the values (n, n_values) of every row, real parts and then imaginary parts.

    ``factors`` (2 or 3, n_products) are the places of the factors, of which the third is optional; the first ``n_real``
    products are real. ``out`` is (n, 2 * n_products - n_real).
    """
    n_products = factors.shape[1]
    real, imag = np.empty((2, values.shape[1]), dtype=np.float32)
    for n in range(len(values)):
        # copied apart: the gathers below then stay in the first cache, free of complex arithmetic
        for f in range(values.shape[1]):
            real[f] = values[n, f].real
            imag[f] = values[n, f].imag
        row = out[n]
        for t in range(n_products):
            a, b = factors[0, t], factors[1, t]
            x, y = real[a] * real[b] - imag[a] * imag[b], real[a] * imag[b] + imag[a] * real[b]
            if len(factors) == 3:
                c = factors[2, t]
                x, y = x * real[c] - y * imag[c], x * imag[c] + y * real[c]
            row[t] = x
            if t >= n_real:
                row[n_products + t - n_real] = y


@njit(**FAST)
def normalize_rows(rows: Plane, weights: Plane, vanishing: NDArray[np.bool_], length: float = 1.0) -> None:
    """Bring each row to the norm ``sqrt(sum w x^2) = length``; clear and mark those whose norm is only rounding."""
    for n in range(len(rows)):
        row = rows[n]
        squares = 0.0
        for column in range(len(row)):
            squares += weights[column] * np.float64(row[column]) ** 2
        norm = np.sqrt(squares)
        vanishing[n] = norm <= ROUNDING
        factor = np.float32(0) if vanishing[n] else np.float32(length / norm)
        for column in range(len(row)):
            row[column] *= factor


@njit(**FAST)
def compress(values: NDArray[np.complex64], power: float) -> NDArray[np.complex64]:
    """``z |z|^(power - 1)`` of rows of values, and then their conjugates: (n, 2 n_values)."""
    exponent, m = np.float32((power - 1) / 2), values.shape[1]
    out = np.empty((len(values), 2 * m), dtype=np.complex64)
    for n in range(len(values)):
        for i in range(m):
            z = values[n, i]
            squares = z.real * z.real + z.imag * z.imag
            factor = squares**exponent if squares > 0 else np.float32(0)
            out[n, i] = complex(z.real * factor, z.imag * factor)
            out[n, m + i] = complex(z.real * factor, -z.imag * factor)
    return out


@njit(**FAST)
def edge_fields(across: Plane, down: Plane, out: Plane) -> None:
    """Gradients (n, channels, pixels) to their edge fields (n, 5, pixels), added up over channels."""
    out[:] = 0
    scratch = np.empty((3, across.shape[2]), dtype=np.float32)
    for n in range(len(across)):
        for channel in range(across.shape[1]):
            add_edges(across[n, channel], down[n, channel], scratch, out[n])


@njit(**FAST)
def add_edges(across: Plane, down: Plane, scratch: Plane, out: Plane) -> None:
    """Add ``m^(1/2)`` times 1, cos 2p, sin 2p, cos 4p, sin 4p to ``out`` (5, pixels), ``m e^{ip}`` the gradient."""
    roots, cosines, sines = scratch[0], scratch[1], scratch[2]
    strength, cos2, sin2, cos4, sin4 = out[0], out[1], out[2], out[3], out[4]
    # one result a loop: the compiler checks for overlaps of a few arrays only
    for p in range(len(across)):
        roots[p] = np.sqrt(np.sqrt(across[p] * across[p] + down[p] * down[p]))
    for p in range(len(across)):
        dx, dy = across[p], down[p]
        cosines[p] = (dx * dx - dy * dy) / (dx * dx + dy * dy + TINY)
    for p in range(len(across)):
        dx, dy = across[p], down[p]
        sines[p] = np.float32(2) * dx * dy / (dx * dx + dy * dy + TINY)
    for p in range(len(roots)):
        strength[p] += roots[p]
    for p in range(len(roots)):
        cos2[p] += roots[p] * cosines[p]
    for p in range(len(roots)):
        sin2[p] += roots[p] * sines[p]
    for p in range(len(roots)):
        cos4[p] += roots[p] * (cosines[p] * cosines[p] - sines[p] * sines[p])
    for p in range(len(roots)):
        sin4[p] += np.float32(2) * roots[p] * sines[p] * cosines[p]


@njit(**FAST)
def _weighted_taps(line: Plane, first: int, count: int, step: int, out: Plane) -> None:
    """``out[p]`` is (1, 4, 6, 4, 1) / 16 of the five taps ``step`` apart about ``line[p]``, for a stretch of p."""
    near, far, mid = np.float32(0.25), np.float32(0.0625), np.float32(0.375)
    a, b, c = line[first - 2 * step :][:count], line[first - step :][:count], line[first:][:count]
    d, e = line[first + step :][:count], line[first + 2 * step :][:count]
    filtered = out[first : first + count]
    for p in range(count):
        filtered[p] = mid * c[p] + near * (b[p] + d[p]) + far * (a[p] + e[p])


@njit(**FAST)
def _clear_sides(plane: Plane) -> None:
    plane[:, :MARGIN] = 0
    plane[:, plane.shape[1] - MARGIN :] = 0


@njit(**FAST)
def smooth(planes: Plane, out: Plane) -> None:
    """Filter planes (n, height + 2 margin, width + 2 margin) with (1, 4, 6, 4, 1) / 16 along both axes."""
    n, height, width = planes.shape
    first, count = MARGIN * width + MARGIN, (height - 2 * MARGIN) * width - 2 * MARGIN
    across = np.zeros((height, width), dtype=np.float32)
    for i in range(n):
        _weighted_taps(planes[i].ravel(), first, count, 1, across.ravel())
        _weighted_taps(across.ravel(), first, count, width, out[i].ravel())
        _clear_sides(out[i])


@njit(**FAST)
def halve(planes: Plane, out: Plane) -> None:
    """Sample at every second pixel, symmetrically about the centre, so that turned images have turned samples.

    Along an even side neighbours are averaged; along an odd one every second pixel is kept, both ends included.
    """
    height, width = planes.shape[1] - 2 * MARGIN, planes.shape[2] - 2 * MARGIN
    even_y, even_x = 1 - height % 2, 1 - width % 2
    for i in range(len(planes)):
        for y in range((height + 1) // 2):
            first = planes[i, MARGIN + 2 * y]
            second = planes[i, MARGIN + 2 * y + even_y]
            line = out[i, MARGIN + y]
            for x in range((width + 1) // 2):
                at = MARGIN + 2 * x
                line[MARGIN + x] = np.float32(0.25) * (
                    (first[at] + first[at + even_x]) + (second[at] + second[at + even_x])
                )


@njit(**FAST)
def _add_differences(
    along: Plane, across: Plane, sign: np.float32, width: int, first: int, count: int, out: Plane
) -> None:
    """``out = d/dx along + sign d/dy across`` of flat planes, for a stretch of pixels."""
    corner, side = np.float32(1 / 12), np.float32(1 / 3)
    al, ar = along[first - width - 1 :][:count], along[first - width + 1 :][:count]
    left, right = along[first - 1 :][:count], along[first + 1 :][:count]
    bl, br = along[first + width - 1 :][:count], along[first + width + 1 :][:count]
    result = out[first : first + count]
    for p in range(count):
        result[p] = side * (right[p] - left[p]) + corner * ((ar[p] + br[p]) - (al[p] + bl[p]))
    side, corner = sign * side, sign * corner
    above, below = across[first - width - 1 :], across[first + width - 1 :]
    al, a, ar = above[:count], above[1:][:count], above[2:][:count]
    bl, b, br = below[:count], below[1:][:count], below[2:][:count]
    for p in range(count):
        result[p] += side * (b[p] - a[p]) + corner * ((bl[p] + br[p]) - (al[p] + ar[p]))


@njit(**FAST)
def derive(real: Plane, imag: Plane, sign: int, out_real: Plane, out_imag: Plane) -> None:
    """``(d/dx + i sign d/dy)`` of one complex plane, (height + 2 margin, width + 2 margin).

    Central differences, averaged across with (1, 4, 1) / 6: their error is the same in all directions up to order 4.
    """
    height, width = real.shape
    first, count = MARGIN * width + MARGIN, (height - 2 * MARGIN) * width - 2 * MARGIN
    s = np.float32(sign)
    _add_differences(real.ravel(), imag.ravel(), -s, width, first, count, out_real.ravel())
    _add_differences(imag.ravel(), real.ravel(), s, width, first, count, out_imag.ravel())
    _clear_sides(out_real)
    _clear_sides(out_imag)


@njit(**FAST)
def local_edges(planes: Plane, out: Plane) -> None:
    """Edge fields (n, 5, height, width) of planes (n, channels, height, width); margins are not used."""
    n, channels, height, width = planes.shape
    zero = np.zeros((height, width), dtype=np.float32)
    across, down = zero.copy(), zero.copy()
    scratch = np.empty((3, height * width), dtype=np.float32)
    out[:] = 0
    for i in range(n):
        for channel in range(channels):
            derive(planes[i, channel], zero, 1, across, down)
            add_edges(across.ravel(), down.ravel(), scratch, out[i].reshape(5, height * width))


@njit(**FAST)
def _gather(plane: Plane, disk: Index, out: Plane) -> None:
    """The pixels of the disk, row after row."""
    at = 0
    for y in range(disk.shape[1]):
        start, stop = disk[0, y], disk[1, y]
        out[at : at + stop - start] = plane[MARGIN + y, MARGIN + start : MARGIN + stop]
        at += stop - start


@njit(**FAST)
def _rooted(real: Plane, imag: Plane, sizes: Plane, out_real: Plane, out_imag: Plane) -> None:
    """Numbers divided by the root of ``sizes``."""
    for p in range(len(real)):
        factor = np.float32(1) / np.sqrt(sizes[p])
        out_real[p] = real[p] * factor
        out_imag[p] = imag[p] * factor


@njit(**FAST)
def _write(total: np.float32, squares: np.float32, n: int, column: int, out: Plane) -> None:
    """Mean and standard deviation of n numbers, from their sums, to the two rows of ``out``."""
    one_over = np.float32(1) / np.float32(n)
    mean = total * one_over
    out[0, column] = mean
    out[1, column] = np.sqrt(max(squares * one_over - mean * mean, np.float32(0)))


@njit(**FAST)
def _write_product(ar: Plane, ai: Plane, br: Plane, bi: Plane, column: int, out: Plane) -> None:
    """Means and standard deviations of the real and imaginary part of ``a conj(b)``."""
    total, squares, other, other_squares = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for p in range(len(ar)):
        u = ar[p] * br[p] + ai[p] * bi[p]
        v = ai[p] * br[p] - ar[p] * bi[p]
        total += u
        squares += u * u
        other += v
        other_squares += v * v
    _write(total, squares, len(ar), column, out)
    _write(other, other_squares, len(ar), column + 1, out)


@njit(**FAST)
def _pool(
    real: Plane, imag: Plane, disk: Index, pairs: Index, triples: Index, roots: Plane, scratch: Plane, out: Plane
) -> None:
    """Means and spreads over the disk of magnitudes, pairs and triples of responses (n_responses, height, width)."""
    halves, quarters = roots[0], roots[1]
    re, im, size, root = scratch[0], scratch[1], scratch[2], scratch[3]
    for r in range(len(real)):
        _gather(real[r], disk, re)
        _gather(imag[r], disk, im)
        total, squares = np.float32(0), np.float32(0)
        for p in range(len(re)):
            size[p] = np.sqrt(re[p] * re[p] + im[p] * im[p] + TINY)
        for p in range(len(re)):
            total += size[p]
            squares += size[p] * size[p]
        _write(total, squares, len(re), r, out)
        _rooted(re, im, size, halves[0, r], halves[1, r])
        if len(triples):
            for p in range(len(re)):
                root[p] = np.sqrt(size[p])
            _rooted(halves[0, r], halves[1, r], root, quarters[0, r], quarters[1, r])
    column = len(real)
    for t in range(len(pairs)):
        a, b = pairs[t, 0], pairs[t, 1]
        _write_product(halves[0, a], halves[1, a], halves[0, b], halves[1, b], column + 2 * t, out)
    for t in range(len(triples)):
        a, b, c = triples[t, 0], triples[t, 1], triples[t, 2]
        ar, ai, br, bi = quarters[0, a], quarters[1, a], quarters[0, b], quarters[1, b]
        for p in range(len(re)):
            re[p] = ar[p] * br[p] - ai[p] * bi[p]
        for p in range(len(re)):
            im[p] = ar[p] * bi[p] + ai[p] * br[p]
        _write_product(re, im, halves[0, c], halves[1, c], column + 2 * t, out)


@njit(**FAST)
def pool_ladder(
    planes: Plane, steps: Index, n_responses: int, disk: Index, pairs: Index, triples: Index, out: Plane
) -> None:
    """Means and spreads (n, 2, n_responses + 2 n_pairs + 2 n_triples) of the invariants of a ``Ladder``.

    ``planes`` (n, n_planes, height + 2 margin, width + 2 margin) are smoothed fields, ``disk`` (2, height) the first
    and last (exclusive) pixel of each row in the disk.
    """
    n, _, height, width = planes.shape
    n_slots = len(steps)
    n_pixels = int((disk[1] - disk[0]).sum())
    real = np.zeros((n_slots, height, width), dtype=np.float32)
    imag = np.zeros((n_slots, height, width), dtype=np.float32)
    roots = np.empty((2, 2, n_responses, n_pixels), dtype=np.float32)  # z / |z|^(1/2) and z / |z|^(3/4)
    scratch = np.empty((4, n_pixels), dtype=np.float32)
    for i in range(n):
        for t in range(n_slots):
            slot, source, other, sign = steps[t]
            if sign == 0:
                real[slot] = planes[i, source]
                if other >= 0:
                    imag[slot] = planes[i, other]
            else:
                derive(real[source], imag[source], sign, real[slot], imag[slot])
        _pool(real[:n_responses], imag[:n_responses], disk, pairs, triples, roots, scratch, out[i])


@njit(**FAST)
def shares_above(values: Plane, levels: Plane, slopes: Plane, out: Plane) -> None:
    """Share of the values (n, channels, pixels) above each level (channels, m), with a soft step: (n, channels, m)."""
    n, channels, n_pixels = values.shape
    for i in range(n):
        for channel in range(channels):
            row, slope = values[i, channel], slopes[channel]
            for m in range(levels.shape[1]):
                level, total = levels[channel, m], np.float32(0)
                for p in range(n_pixels):
                    total += min(max(slope * (row[p] - level) + np.float32(0.5), np.float32(0)), np.float32(1))
                out[i, channel, m] = total / np.float32(n_pixels)
