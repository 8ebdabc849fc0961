"""Compiled inner loops over contiguous rows; they release the interpreter lock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Products of float32 spectra carry errors of about 1e-7 of the largest one: a smaller norm is only rounding.
ROUNDING = 1e-6


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
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
def normalise_rows(rows: NDArray[np.float32], weights: NDArray[np.float32], vanishing: NDArray[np.bool_]) -> None:
    """Divide each row by its norm ``sqrt(sum w x^2)``; clear and mark those whose norm is only rounding."""
    for n in range(len(rows)):
        row = rows[n]
        squares = 0.0
        for column in range(len(row)):
            squares += weights[column] * row[column] * row[column]
        norm = np.sqrt(squares)
        vanishing[n] = norm <= ROUNDING
        factor = np.float32(0) if vanishing[n] else np.float32(1 / norm)
        for column in range(len(row)):
            row[column] *= factor
