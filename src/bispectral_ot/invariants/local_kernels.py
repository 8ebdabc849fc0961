"""Compiled loops of local bispectra: planes with a margin of zeros, one image at a time, so that all stays in cache.

They release the interpreter lock. Fast maths reorders sums only: features change by rounding, as they do under quarter
turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Plane = NDArray[np.float32]
_FAST = {"contract", "reassoc", "nsz", "arcp"}
# Added to squares before roots: far below the rounding of any response, and keeps quotients finite.
_TINY = np.float32(1e-20)


@njit(nogil=True, cache=True, fastmath=_FAST)
def smooth(planes: Plane, step: int, margin: int, out: Plane) -> None:
    """Filter with (1, 4, 6, 4, 1) / 16 along both axes, its taps ``step`` pixels apart.

    ``planes`` and ``out`` are (n, height + 2 margin, width + 2 margin); margins are zero and at least ``2 step``.
    """
    n, height, width = planes.shape
    near, far, mid = np.float32(0.25), np.float32(0.0625), np.float32(0.375)
    across = np.zeros((height, width), dtype=np.float32)
    for i in range(n):
        for y in range(margin, height - margin):
            row, line = planes[i, y], across[y]
            for x in range(margin, width - margin):
                line[x] = (
                    mid * row[x]
                    + near * (row[x - step] + row[x + step])
                    + far * (row[x - 2 * step] + row[x + 2 * step])
                )
        for y in range(margin, height - margin):
            line = out[i, y]
            above2, above, here, below, below2 = (
                across[y - 2 * step],
                across[y - step],
                across[y],
                across[y + step],
                across[y + 2 * step],
            )
            for x in range(margin, width - margin):
                line[x] = mid * here[x] + near * (above[x] + below[x]) + far * (above2[x] + below2[x])


@njit(nogil=True, cache=True, fastmath=_FAST)
def halve(planes: Plane, margin: int, out: Plane, out_margin: int) -> None:
    """Sample at every second pixel, symmetrically about the centre, so that turned images have turned samples.

    Along an even side neighbours are averaged; along an odd one every second pixel is kept, both ends included.
    """
    n = len(planes)
    height, width = planes.shape[1] - 2 * margin, planes.shape[2] - 2 * margin
    even_y, even_x = 1 - height % 2, 1 - width % 2
    for i in range(n):
        for y in range((height + 1) // 2):
            first = planes[i, margin + 2 * y]
            second = planes[i, margin + 2 * y + even_y]
            line = out[i, out_margin + y]
            for x in range((width + 1) // 2):
                at = margin + 2 * x
                line[out_margin + x] = np.float32(0.25) * (
                    (first[at] + first[at + even_x]) + (second[at] + second[at + even_x])
                )


@njit(nogil=True, cache=True, fastmath=_FAST)
def derive(real: Plane, imag: Plane, sign: int, step: int, margin: int, out_real: Plane, out_imag: Plane) -> None:
    """``(d/dx + i sign d/dy)`` of one complex plane, (height + 2 margin, width + 2 margin).

    Central differences over ``step`` pixels, averaged across with (1, 4, 1) / 6: their error does not depend on the
    direction up to fourth order.
    """
    height, width = real.shape
    corner, side, s = np.float32(1 / 12), np.float32(1 / 3), np.float32(sign)
    for y in range(margin, height - margin):
        ra, rh, rb = real[y - step], real[y], real[y + step]
        ia, ih, ib = imag[y - step], imag[y], imag[y + step]
        line, other = out_real[y], out_imag[y]
        for x in range(margin, width - margin):
            left, right = x - step, x + step
            real_x = side * (rh[right] - rh[left]) + corner * ((ra[right] + rb[right]) - (ra[left] + rb[left]))
            real_y = side * (rb[x] - ra[x]) + corner * ((rb[left] + rb[right]) - (ra[left] + ra[right]))
            imag_x = side * (ih[right] - ih[left]) + corner * ((ia[right] + ib[right]) - (ia[left] + ib[left]))
            imag_y = side * (ib[x] - ia[x]) + corner * ((ib[left] + ib[right]) - (ia[left] + ia[right]))
            line[x] = real_x - s * imag_y
            other[x] = imag_x + s * real_y


@njit(nogil=True, cache=True, fastmath=_FAST)
def edge_fields(planes: Plane, margin: int, out: Plane) -> None:
    """Planes (n, channels, height, width) to ``m^(1/2)`` times 1, cos 2p, sin 2p, cos 4p, sin 4p: (n, 5, ...).

    ``m e^{ip}`` is the gradient; channels are added up. All with margins.
    """
    n, channels, height, width = planes.shape
    zero = np.zeros((height, width), dtype=np.float32)
    across, down = zero.copy(), zero.copy()
    out[:] = 0
    for i in range(n):
        strength, cos2, sin2, cos4, sin4 = out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4]
        for channel in range(channels):
            derive(planes[i, channel], zero, 1, 1, margin, across, down)
            for y in range(margin, height - margin):
                for x in range(margin, width - margin):
                    dx, dy = across[y, x], down[y, x]
                    squares = dx * dx + dy * dy + _TINY
                    root = np.sqrt(np.sqrt(squares))
                    cosine = (dx * dx - dy * dy) / squares
                    sine = 2 * dx * dy / squares
                    strength[y, x] += root
                    cos2[y, x] += root * cosine
                    sin2[y, x] += root * sine
                    cos4[y, x] += root * (cosine * cosine - sine * sine)
                    sin4[y, x] += root * 2 * sine * cosine


@njit(nogil=True, cache=True, fastmath=_FAST)
def _pool(
    real: Plane,
    imag: Plane,
    start: NDArray[Any],
    stop: NDArray[Any],
    margin: int,
    pairs: NDArray[Any],
    triples: NDArray[Any],
    halves: Plane,
    quarters: Plane,
    sizes: Plane,
    out: Plane,
) -> None:
    """Means and spreads over the disk of magnitudes, pairs and triples of responses (n_responses, height, width)."""
    n_responses, n_rows = len(real), len(start)
    n_pixels = 0
    for y in range(n_rows):
        n_pixels += stop[y] - start[y]
    one_over = np.float32(1) / np.float32(n_pixels)
    width = n_responses + 2 * len(pairs) + 2 * len(triples)
    for r in range(n_responses):
        at = 0
        for y in range(n_rows):
            count = stop[y] - start[y]
            re = real[r, margin + y, margin + start[y] : margin + stop[y]]
            im = imag[r, margin + y, margin + start[y] : margin + stop[y]]
            size = sizes[r, at : at + count]
            hr, hi = halves[0, r, at : at + count], halves[1, r, at : at + count]
            qr, qi = quarters[0, r, at : at + count], quarters[1, r, at : at + count]
            for x in range(count):
                magnitude = np.sqrt(re[x] * re[x] + im[x] * im[x] + _TINY)
                root = np.sqrt(magnitude)
                fourth = np.sqrt(root)
                factor = np.float32(1) / (root * fourth)
                size[x] = magnitude
                qr[x] = re[x] * factor
                qi[x] = im[x] * factor
                hr[x] = qr[x] * fourth
                hi[x] = qi[x] * fourth
            at += count
    for r in range(n_responses):
        size = sizes[r, :n_pixels]
        total, squares = np.float32(0), np.float32(0)
        for p in range(n_pixels):
            total += size[p]
            squares += size[p] * size[p]
        _write(total * one_over, squares * one_over, r, width, out)
    for t in range(len(pairs)):
        a, b = pairs[t, 0], pairs[t, 1]
        ar, ai, br, bi = (
            halves[0, a, :n_pixels],
            halves[1, a, :n_pixels],
            halves[0, b, :n_pixels],
            halves[1, b, :n_pixels],
        )
        total, squares, other, other_squares = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for p in range(n_pixels):
            u = ar[p] * br[p] + ai[p] * bi[p]
            v = ai[p] * br[p] - ar[p] * bi[p]
            total += u
            squares += u * u
            other += v
            other_squares += v * v
        column = n_responses + 2 * t
        _write(total * one_over, squares * one_over, column, width, out)
        _write(other * one_over, other_squares * one_over, column + 1, width, out)
    for t in range(len(triples)):
        a, b, c = triples[t, 0], triples[t, 1], triples[t, 2]
        ar, ai, br, bi = (
            quarters[0, a, :n_pixels],
            quarters[1, a, :n_pixels],
            quarters[0, b, :n_pixels],
            quarters[1, b, :n_pixels],
        )
        cr, ci = halves[0, c, :n_pixels], halves[1, c, :n_pixels]
        total, squares, other, other_squares = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for p in range(n_pixels):
            re2 = ar[p] * br[p] - ai[p] * bi[p]
            im2 = ar[p] * bi[p] + ai[p] * br[p]
            u = re2 * cr[p] + im2 * ci[p]
            v = im2 * cr[p] - re2 * ci[p]
            total += u
            squares += u * u
            other += v
            other_squares += v * v
        column = n_responses + 2 * len(pairs) + 2 * t
        _write(total * one_over, squares * one_over, column, width, out)
        _write(other * one_over, other_squares * one_over, column + 1, width, out)


@njit(nogil=True, cache=True)
def _write(mean: np.float32, square: np.float32, column: int, width: int, out: Plane) -> None:
    out[column] = mean
    out[width + column] = np.sqrt(max(square - mean * mean, np.float32(0)))


@njit(nogil=True, cache=True)
def pool_ladder(
    planes: Plane,
    steps: NDArray[Any],
    n_responses: int,
    step: int,
    margin: int,
    start: NDArray[Any],
    stop: NDArray[Any],
    pairs: NDArray[Any],
    triples: NDArray[Any],
    out: Plane,
) -> None:
    """Responses of the fields of each image, and their pooled invariants.

    Parameters
    ----------
    planes : (n, n_planes, height + 2 margin, width + 2 margin), smoothed fields
    steps, n_responses, pairs, triples : of the :class:`~bispectral_ot.invariants.local_levels.Ladder`
    start, stop : (height,) the pixels of each row that lie in the disk
    out : (n, 2 * (n_responses + 2 n_pairs + 2 n_triples)) means, then spreads
    """
    n, _, height, width = planes.shape
    n_slots = len(steps)
    n_pixels = int((stop - start).sum())
    real = np.zeros((n_slots, height, width), dtype=np.float32)
    imag = np.zeros((n_slots, height, width), dtype=np.float32)
    halves = np.empty((2, n_responses, n_pixels), dtype=np.float32)
    quarters = np.empty((2, n_responses, n_pixels), dtype=np.float32)
    sizes = np.empty((n_responses, n_pixels), dtype=np.float32)
    for i in range(n):
        for t in range(n_slots):
            slot, source, other, sign = steps[t]
            if sign == 0:
                real[slot] = planes[i, source]
                if other >= 0:
                    imag[slot] = planes[i, other]
            else:
                derive(real[source], imag[source], sign, step, margin, real[slot], imag[slot])
        _pool(
            real[:n_responses], imag[:n_responses], start, stop, margin, pairs, triples, halves, quarters, sizes, out[i]
        )


@njit(nogil=True, cache=True, fastmath=_FAST)
def shares_above(values: Plane, levels: Plane, slopes: Plane, out: Plane) -> None:
    """Share of the values (n, channels, pixels) above each level (channels, m), with a soft step: (n, channels, m)."""
    n, channels, n_pixels = values.shape
    for i in range(n):
        for channel in range(channels):
            row = values[i, channel]
            for m in range(levels.shape[1]):
                level, total = levels[channel, m], np.float32(0)
                slope = slopes[channel]
                for p in range(n_pixels):
                    total += min(max(slope * (row[p] - level) + np.float32(0.5), np.float32(0)), np.float32(1))
                out[i, channel, m] = total / np.float32(n_pixels)
