"""Compiled inner loops over contiguous rows; they release the interpreter lock.

Two compilations of a kernel (read-only arrays get one of their own) may differ in what fast maths makes of float32
products. So that a transformer and its copy from a file give the same bits, products have none, norms are summed in
float64, and complex products are written out: numba compiles its own once, with the fast maths of whoever asks first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit

# Products of float32 spectra carry errors of about 1e-7 of the largest one: a smaller norm is only rounding.
ROUNDING = 1e-6


@njit(nogil=True, cache=True)
def triple_products(
    spectra: NDArray[np.complex64],
    i: NDArray[Any],
    j: NDArray[Any],
    k: NDArray[Any],
    n_real: int,
    out: NDArray[np.float32],
) -> None:
    """Write ``F_i F_j F_k`` for every orbit of every spectrum, real parts and then imaginary parts.

    ``spectra`` is (n, sets, n_frequencies); ``out`` is (n, sets, 2 * n_orbits - n_real), the first ``n_real``
    orbits being real. The spectra of one n are divided by their largest magnitude, so that nothing overflows.
    """
    n_spectra, n_sets, n_frequencies = spectra.shape
    n_orbits = len(i)
    real = np.empty(n_frequencies, dtype=np.float32)
    imag = np.empty(n_frequencies, dtype=np.float32)
    for n in range(n_spectra):
        largest = np.float32(0)
        for s in range(n_sets):
            for f in range(n_frequencies):
                value = spectra[n, s, f]
                largest = max(largest, value.real * value.real + value.imag * value.imag)
        scale = np.float32(1) / np.sqrt(largest) if largest > 0 else np.float32(0)
        for s in range(n_sets):
            # copied apart: the gathers below then stay in the first cache, free of complex arithmetic
            for f in range(n_frequencies):
                real[f] = spectra[n, s, f].real * scale
                imag[f] = spectra[n, s, f].imag * scale
            row = out[n, s]
            for t in range(n_orbits):
                a, b, c = i[t], j[t], k[t]
                product_real = real[a] * real[b] - imag[a] * imag[b]
                product_imag = real[a] * imag[b] + imag[a] * real[b]
                row[t] = product_real * real[c] - product_imag * imag[c]
                if t >= n_real:
                    row[n_orbits + t - n_real] = product_real * imag[c] + product_imag * real[c]


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def normalize_rows(
    rows: NDArray[np.float32], weights: NDArray[np.float32], vanishing: NDArray[np.bool_], length: float = 1.0
) -> None:
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


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def edge_fields(across: NDArray[np.float32], down: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Gradients (n, channels, pixels) to ``m^(1/2)`` times 1, cos 2p, sin 2p, cos 4p, sin 4p: (n, 5, pixels).

    ``m`` is the length of the gradient, ``p`` its angle; channels are added up.
    """
    n_images, n_channels, n_pixels = across.shape
    out[:] = 0
    for n in range(n_images):
        for channel in range(n_channels):
            for pixel in range(n_pixels):
                x, y = across[n, channel, pixel], down[n, channel, pixel]
                squares = x * x + y * y
                if squares > 0:
                    strength = np.sqrt(np.sqrt(squares))
                    cosine = (x * x - y * y) / squares
                    sine = 2 * x * y / squares
                    out[n, 0, pixel] += strength
                    out[n, 1, pixel] += strength * cosine
                    out[n, 2, pixel] += strength * sine
                    out[n, 3, pixel] += strength * (cosine * cosine - sine * sine)
                    out[n, 4, pixel] += strength * 2 * sine * cosine


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def compress(values: NDArray[np.complex64], power: float, out: NDArray[np.complex64]) -> None:
    """Write ``z |z|^(power - 1)``: the phase stays, the magnitude is raised to ``power``."""
    exponent = np.float32((power - 1) / 2)
    for n in range(len(values)):
        for i in range(values.shape[1]):
            z = values[n, i]
            squares = z.real * z.real + z.imag * z.imag
            factor = squares**exponent if squares > 0 else np.float32(0)
            out[n, i] = complex(z.real * factor, z.imag * factor)


@njit(nogil=True, cache=True)
def pair_products(
    values: NDArray[np.complex64],
    first: NDArray[Any],
    second: NDArray[Any],
    n_real: int,
    out: NDArray[np.float32],
) -> None:
    """Write ``z_first conj(z_second)`` for every pair of every row, real parts and then imaginary parts.

    ``values`` is (n, n_values); ``out`` is (n, 2 * n_pairs - n_real), the first ``n_real`` pairs being real.
    """
    n_pairs = len(first)
    real = np.empty(values.shape[1], dtype=np.float32)
    imag = np.empty(values.shape[1], dtype=np.float32)
    for n in range(len(values)):
        for i in range(values.shape[1]):
            real[i] = values[n, i].real
            imag[i] = values[n, i].imag
        row = out[n]
        for t in range(n_pairs):
            a, b = first[t], second[t]
            row[t] = real[a] * real[b] + imag[a] * imag[b]
            if t >= n_real:
                row[n_pairs + t - n_real] = imag[a] * real[b] - real[a] * imag[b]


@njit(nogil=True, cache=True)
def conjugate_triple_products(
    values: NDArray[np.complex64],
    i: NDArray[Any],
    j: NDArray[Any],
    k: NDArray[Any],
    n_real: int,
    weight: float,
    out: NDArray[np.float32],
) -> None:
    """Write ``weight z_i z_j conj(z_k)`` for every triple of every row, real parts and then imaginary parts.

    ``values`` is (n, n_values); ``out`` is (n, 2 * n_triples - n_real), the first ``n_real`` triples being real.
    """
    n_triples = len(i)
    factor = np.float32(weight)
    for n in range(len(values)):
        row = out[n]
        for t in range(n_triples):
            x, y, z = values[n, i[t]], values[n, j[t]], values[n, k[t]]
            product_real = (x.real * y.real - x.imag * y.imag) * factor
            product_imag = (x.real * y.imag + x.imag * y.real) * factor
            row[t] = product_real * z.real + product_imag * z.imag
            if t >= n_real:
                row[n_triples + t - n_real] = product_imag * z.real - product_real * z.imag
