"""Compiled loops of the features: products and norms of coefficients, edges, and local filters.

They release the interpreter lock. A transformer and its copy from a file must give the same bits, but two compilations
of a kernel (read-only arrays get one of their own) may differ in what fast maths makes of float32 products: products
have none, norms are summed in float64, and complex products are written out.

Local filters work on planes with a margin of zeros, one image at a time, so that all stays in cache. Planes are walked
as one flat stretch of memory, margins between rows included, which the compiler can vectorize.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit

Plane = NDArray[np.float32]
Index = NDArray[Any]
Rows = tuple[int, int]  # first and last (exclusive) row
MARGIN = 2  # zeros around a plane: as far as the filters reach
STRIP_PIXELS = 4096  # of a strip of a large plane
# Products of float32 spectra carry errors of about 1e-7 of the largest one: a smaller norm is only rounding.
ROUNDING = 1e-6
# Sums may be reordered, and divisions do not check for zero: only then does the compiler use vector instructions.
_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}
FAST: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": _FASTMATH}
# Added to squares before roots: far below the rounding of any response, and keeps quotients finite.
TINY, ONE = np.float32(1e-20), np.float32(1)


@njit(nogil=True, cache=True)
def multiply(values: NDArray[np.complex64], factors: Index, n_real: int, out: Plane, first: int) -> None:
    """Write products of two or three of the values (n, n_values) of every row, real parts and then imaginary parts.

    ``factors`` (2 or 3, n_products) are the places of the factors, of which the third is optional; the first ``n_real``
    products are real. The 2 * n_products - n_real columns of ``out`` from ``first`` on are written: slices of rows are
    contiguous, a slice of all columns is not, and several times slower.
    """
    n_products = factors.shape[1]
    for n in range(len(values)):
        # copied apart: the gathers below then stay in the first cache, free of complex arithmetic
        real, imag, row = values[n].real.copy(), values[n].imag.copy(), out[n, first:]
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
def normalize_rows(rows: Plane, weights: Plane, vanishing: Index, length: float, first: int) -> None:
    """Bring the columns of each row from ``first`` on, as many as weights, to the norm ``sqrt(sum w x^2) = length``.

    Those whose norm is only rounding are cleared and marked.
    """
    for n in range(len(rows)):
        row = rows[n, first : first + len(weights)]
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


@njit(nogil=True, cache=True)
def interpolate(pixels: Index, weights: Plane, rows: Plane, out: Plane) -> None:
    """Sums (n, samples) of the four ``pixels`` (4, samples) of every row (n, n_pixels) times ``weights``."""
    for n in range(len(rows)):
        row, found = rows[n], out[n]
        for s in range(len(found)):
            total = weights[0, s] * row[pixels[0, s]] + weights[1, s] * row[pixels[1, s]]
            total += weights[2, s] * row[pixels[2, s]]
            found[s] = total + weights[3, s] * row[pixels[3, s]]


@njit(**FAST)
def edge_fields(across: Plane, down: Plane, scratch: Plane, out: Plane) -> None:
    """Add the edge fields of gradients (n, channels, pixels) to ``out`` (n, 5, pixels); scratch is (3, pixels)."""
    for n in range(len(across)):
        for channel in range(across.shape[1]):
            _add_edges(across[n, channel], down[n, channel], scratch, out[n])


@njit(**FAST)
def _add_edges(across: Plane, down: Plane, scratch: Plane, out: Plane) -> None:
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
    for row in range(len(plane)):
        for column in range(MARGIN):
            plane[row, column] = plane[row, -1 - column] = 0


@njit(**FAST)
def smooth(planes: Plane, across: Plane, out: Plane) -> None:
    """Filter planes (n, height, width), margins included, with (1, 4, 6, 4, 1) / 16; ``across`` is a plane of zeros."""
    n, height, width = planes.shape
    first, count = MARGIN * width + MARGIN, (height - 2 * MARGIN) * width - 2 * MARGIN
    for i in range(n):
        _weighted_taps(planes[i].ravel(), first, count, np.int64(1), across.ravel())
        _weighted_taps(across.ravel(), first, count, width, out[i].ravel())
        _clear_sides(out[i])


@njit(**FAST)
def halve(planes: Plane, out: Plane) -> None:
    """Sample at every second pixel, symmetrically about the centre: rotated images have rotated samples.

    Along an even side neighbours are averaged; along an odd one every second pixel is kept, both ends included.
    """
    height, width = planes.shape[1] - 2 * MARGIN, planes.shape[2] - 2 * MARGIN
    even_y, even_x = 1 - height % 2, 1 - width % 2
    for i in range(len(planes)):
        for y in range((height + 1) // 2):
            first, second = planes[i, MARGIN + 2 * y], planes[i, MARGIN + 2 * y + even_y]
            line = out[i, MARGIN + y]
            for x in range((width + 1) // 2):
                left, right = MARGIN + 2 * x, MARGIN + 2 * x + even_x
                line[MARGIN + x] = np.float32(0.25) * ((first[left] + second[left]) + (first[right] + second[right]))


@njit(**FAST)
def _across_rows(plane: Plane, first: int, count: int, width: int, mean: Plane, step: Plane) -> None:
    """(1, 4, 1) / 12 and (-1, 0, 1) along the columns of a flat plane, for a stretch of pixels."""
    corner, side = np.float32(1 / 12), np.float32(1 / 3)
    above, here, below = plane[first - width :][:count], plane[first:][:count], plane[first + width :][:count]
    for p in range(count):
        mean[p] = side * here[p] + corner * (above[p] + below[p])
    for p in range(count):
        step[p] = below[p] - above[p]


@njit(**FAST)
def _along_rows(mean: Plane, step: Plane, sign: np.float32, count: int, out: Plane) -> None:
    """``d/dx + sign d/dy`` from the output of :func:`_across_rows` for one more pixel at either end."""
    left, right, mid = mean[:count], mean[2:][:count], step[1:][:count]
    before, after = step[:count], step[2:][:count]
    side, corner = sign * np.float32(1 / 3), sign * np.float32(1 / 12)
    for p in range(count):
        out[p] = (right[p] - left[p]) + (side * mid[p] + corner * (before[p] + after[p]))


@njit(**FAST)
def _derive(plane: Plane, sign: np.float32, rows: Rows, scratch: Plane, out: Plane) -> None:
    """``(d/dx + i sign d/dy)`` of some rows of a complex plane, (2, height + 2 margin, width + 2 margin).

    Central differences, averaged across with (1, 4, 1) / 6: their error is the same in all directions up to order 4.
    """
    width, (start, stop) = plane.shape[2], rows
    first, count = (MARGIN + start) * width + MARGIN, (stop - start) * width - 2 * MARGIN
    if count <= 0:
        return
    _across_rows(plane[0].ravel(), first - 1, count + 2, width, scratch[0], scratch[1])
    _across_rows(plane[1].ravel(), first - 1, count + 2, width, scratch[2], scratch[3])
    _along_rows(scratch[0], scratch[3], -sign, count, out[0].ravel()[first:])
    _along_rows(scratch[2], scratch[1], sign, count, out[1].ravel()[first:])
    _clear_sides(out[0, MARGIN + start : MARGIN + stop])
    _clear_sides(out[1, MARGIN + start : MARGIN + stop])


@njit(**FAST)
def local_edges(planes: Plane, scratch: Plane, out: Plane) -> None:
    """Add edge fields of planes (n, channels, height, width) to ``out`` (n, 5, height, width); scratch: 6 planes."""
    n, channels, height, width = planes.shape
    first, count = MARGIN * width + MARGIN, (height - 2 * MARGIN) * width - 2 * MARGIN
    across, down, zero = scratch[3], scratch[4], scratch[5]
    for i in range(n):
        for channel in range(channels):
            _across_rows(planes[i, channel].ravel(), first - 1, count + 2, width, scratch[0], scratch[1])
            _along_rows(scratch[0], zero, ONE, count, across[first:])
            _along_rows(zero, scratch[1], ONE, count, down[first:])
            _add_edges(across, down, scratch, out[i].reshape(5, height * width))


@njit(**FAST)
def _gather(plane: Plane, disk: Index, rows: Rows, out: Plane) -> int:
    """Pixels of some rows of the disk; returns their number."""
    at = 0
    for y in range(rows[0], rows[1]):
        count = disk[1, y] - disk[0, y]
        line, part = plane[MARGIN + y, MARGIN + disk[0, y] :], out[at:]
        for x in range(count):
            part[x] = line[x]
        at += count
    return at


@njit(**FAST)
def _add_sizes(re: Plane, im: Plane, size: Plane, sums: NDArray[np.float64]) -> None:
    """Magnitudes; add them and their squares to two sums."""
    total, squares = np.float32(0), np.float32(0)
    for p in range(len(re)):
        square = re[p] * re[p] + im[p] * im[p] + TINY
        root = np.sqrt(square)
        size[p] = root
        total += root
        squares += square
    sums[0] += total
    sums[1] += squares


@njit(**FAST)
def _divide_by_root(re: Plane, im: Plane, size: Plane, out: Plane) -> None:
    """Numbers divided by the root of ``size``: real and imaginary parts."""
    real, imag = out[0], out[1]
    for p in range(len(re)):
        factor = ONE / np.sqrt(size[p])
        real[p] = re[p] * factor
        imag[p] = im[p] * factor


@njit(**FAST)
def _add_product(a: Plane, b: Plane, n: int, sums: NDArray[np.float64]) -> None:
    """Add real and imaginary part of n numbers ``a conj(b)``, and their squares, to sums (2, 2)."""
    total = squares = other = other_squares = np.float32(0)
    ar, ai, br, bi = a[0], a[1], b[0], b[1]
    for p in range(n):
        u = ar[p] * br[p] + ai[p] * bi[p]
        v = ai[p] * br[p] - ar[p] * bi[p]
        total += u
        squares += u * u
        other += v
        other_squares += v * v
    sums[0, 0] += total
    sums[0, 1] += squares
    sums[1, 0] += other
    sums[1, 1] += other_squares


@njit(**FAST)
def _multiply(a: Plane, b: Plane, n: int, out: Plane) -> None:
    """Products of n complex numbers, whose real and imaginary parts are apart."""
    ar, ai, br, bi, re, im = a[0], a[1], b[0], b[1], out[0], out[1]
    for p in range(n):
        re[p] = ar[p] * br[p] - ai[p] * bi[p]
    for p in range(n):
        im[p] = ar[p] * bi[p] + ai[p] * br[p]


@njit(**FAST)
def _pool(
    slots: Plane, disk: Index, rows: Rows, pairs: Index, triples: Index, uses: Index, scratch: Plane, sums: Any
) -> None:
    """Add up magnitudes, pairs and triples of responses (n_responses, 2, height, width) in some rows of the disk.

    ``uses`` (n_responses, 2) is whether ``z / |z|^(1/2)`` and ``z / |z|^(3/4)`` of a response are needed.
    """
    values, n = scratch[0, 0], np.int64(0)  # no literal, for which functions would be compiled again
    for r in range(len(uses)):
        n = _gather(slots[r, 0], disk, rows, values[0])
        _gather(slots[r, 1], disk, rows, values[1])
        re, im, size = values[0, :n], values[1, :n], values[2, :n]
        _add_sizes(re, im, size, sums[r])
        if uses[r, 0]:
            _divide_by_root(re, im, size, scratch[1, r])
        if uses[r, 1]:
            for p in range(n):
                size[p] *= np.sqrt(size[p])  # to the power 3/2
            _divide_by_root(re, im, size, scratch[2, r])
    halves, quarters, rest = scratch[1], scratch[2], sums[len(uses) :]
    for t in range(len(pairs)):
        _add_product(halves[pairs[t, 0]], halves[pairs[t, 1]], n, rest[2 * t :])
    for t in range(len(triples)):
        _multiply(quarters[triples[t, 0]], quarters[triples[t, 1]], n, values)
        _add_product(values, halves[triples[t, 2]], n, rest[2 * t :])


@njit(**FAST)
def _copy(line: Plane, out: Plane) -> None:
    """Copy a line: in place of an assignment, whose error messages alone take seconds to compile."""
    for p in range(len(line)):
        out[p] = line[p]


@njit(**FAST)
def pool_ladder(planes: Plane, disk: Index, ladder: Any, slots: Plane, scratch: Plane, sums: Any) -> None:
    """Add up the invariants of a ``Ladder`` and their squares over the disk: sums (n, columns, 2).

    ``planes`` (n, n_planes, height + 2 margin, width + 2 margin) are smoothed fields, ``disk`` (2, height) the first
    and last (exclusive) pixel of each row in the disk. The strips of rows for which ``scratch`` has room stay in the
    cache: each derivative is one row behind its source, since it needs the row below.
    """
    height, width = planes.shape[2] - 2 * MARGIN, planes.shape[3]
    steps, depths, behind = ladder.steps, ladder.depths, max(ladder.depths)
    at_once = (scratch.shape[3] - 2) // width
    for i in range(len(planes)):
        for top in range(0, height + behind, at_once):
            for t in range(len(steps)):
                slot, source, other, sign = steps[t, 0], steps[t, 1], steps[t, 2], steps[t, 3]
                rows = max(top - depths[slot], 0), min(top - depths[slot] + at_once, height)
                if sign:
                    _derive(slots[source], np.float32(sign), rows, scratch[0, 0], slots[slot])
                elif top == 0:
                    _copy(planes[i, source].ravel(), slots[slot, 0].ravel())
                    if other >= 0:
                        _copy(planes[i, other].ravel(), slots[slot, 1].ravel())
            rows = max(top - behind, 0), min(top - behind + at_once, height)
            _pool(slots, disk, rows, ladder.pairs, ladder.triples, ladder.uses, scratch, sums[i])


@njit(**FAST)
def shares_above(values: Plane, levels: Plane, slopes: Plane, out: Plane) -> None:
    """Fraction (n, channels, m) of values (n, channels, pixels) above each level (channels, m), with a soft step."""
    n, channels, n_pixels = values.shape
    for i in range(n):
        for channel in range(channels):
            row, slope = values[i, channel], slopes[channel]
            for m in range(levels.shape[1]):
                level, total = levels[channel, m], np.float32(0)
                for p in range(n_pixels):
                    total += min(max(slope * (row[p] - level) + np.float32(0.5), np.float32(0)), np.float32(1))
                out[i, channel, m] = total / np.float32(n_pixels)
