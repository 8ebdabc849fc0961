"""Compiled loops over rows of coefficients: products, norms, compressed magnitudes and edge fields.

They release the interpreter lock. A transformer and its copy from a file must give the same bits, but two compilations
of a kernel (read-only arrays get one of their own) may differ in what fast maths makes of float32 products: products
have none, norms are summed in float64, and complex products are written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit

Floats = NDArray[np.float32]
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
def triple_products(
    values: NDArray[np.complex64], i: NDArray[Any], j: NDArray[Any], k: NDArray[Any], n_real: int, out: Floats
) -> None:
    """Write ``z_i z_j z_k`` for every triple of every row, real parts and then imaginary parts.

    ``values`` is (n, n_values); ``out`` is (n, 2 * n_triples - n_real), the first ``n_real`` triples being real.
    """
    n_triples = len(i)
    real, imag = np.empty((2, values.shape[1]), dtype=np.float32)
    for n in range(len(values)):
        # copied apart: the gathers below then stay in the first cache, free of complex arithmetic
        for f in range(values.shape[1]):
            real[f] = values[n, f].real
            imag[f] = values[n, f].imag
        row = out[n]
        for t in range(n_triples):
            a, b, c = i[t], j[t], k[t]
            product_real = real[a] * real[b] - imag[a] * imag[b]
            product_imag = real[a] * imag[b] + imag[a] * real[b]
            row[t] = product_real * real[c] - product_imag * imag[c]
            if t >= n_real:
                row[n_triples + t - n_real] = product_real * imag[c] + product_imag * real[c]


@njit(nogil=True, cache=True)
def pair_products(
    values: NDArray[np.complex64], first: NDArray[Any], second: NDArray[Any], n_real: int, out: Floats
) -> None:
    """Write ``z_first conj(z_second)`` for every pair of every row, laid out as by :func:`triple_products`."""
    n_pairs = len(first)
    real, imag = np.empty((2, values.shape[1]), dtype=np.float32)
    for n in range(len(values)):
        for f in range(values.shape[1]):
            real[f] = values[n, f].real
            imag[f] = values[n, f].imag
        row = out[n]
        for t in range(n_pairs):
            a, b = first[t], second[t]
            row[t] = real[a] * real[b] + imag[a] * imag[b]
            if t >= n_real:
                row[n_pairs + t - n_real] = imag[a] * real[b] - real[a] * imag[b]


@njit(**FAST)
def normalize_rows(rows: Floats, weights: Floats, vanishing: NDArray[np.bool_], length: float = 1.0) -> None:
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
def compress(values: NDArray[np.complex64], power: float, out: NDArray[np.complex64]) -> None:
    """Write ``z |z|^(power - 1)``: the phase stays, the magnitude is raised to ``power``."""
    exponent = np.float32((power - 1) / 2)
    for n in range(len(values)):
        for i in range(values.shape[1]):
            z = values[n, i]
            squares = z.real * z.real + z.imag * z.imag
            factor = squares**exponent if squares > 0 else np.float32(0)
            out[n, i] = complex(z.real * factor, z.imag * factor)


@njit(**FAST)
def edge_fields(across: Floats, down: Floats, out: Floats) -> None:
    """Gradients (n, channels, pixels) to their edge fields (n, 5, pixels), added up over channels."""
    out[:] = 0
    scratch = np.empty((3, across.shape[2]), dtype=np.float32)
    for n in range(len(across)):
        for channel in range(across.shape[1]):
            add_edges(across[n, channel], down[n, channel], scratch, out[n])


@njit(**FAST)
def add_edges(across: Floats, down: Floats, scratch: Floats, out: Floats) -> None:
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
