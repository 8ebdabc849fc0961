"""SO(3): Wigner 3j symbols in exact arithmetic, and the invariant tensor of three real spherical harmonics."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

Tensor = NDArray[np.float64]


def triangle(l1: int, l2: int, l3: int) -> bool:
    """Whether degree l3 occurs in the product of degrees l1 and l2."""
    return abs(l1 - l2) <= l3 <= l1 + l2


@lru_cache(maxsize=4096)
def wigner_3j(l1: int, l2: int, l3: int) -> Tensor:
    """All 3j symbols of three degrees, shape (2 l1 + 1, 2 l2 + 1, 2 l3 + 1), orders m from -l to l.

    Up to the sign ``(-1)^(l1 - l2 - m3)`` and the factor ``1 / sqrt(2 l3 + 1)`` these are the Clebsch-Gordan
    coefficients ``<l1 m1 l2 m2 | l3 -m3>``. The alternating sum is taken over integers, so nothing cancels:
    each symbol has the accuracy of one square root.
    """
    symbols = np.zeros((2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1))
    if not triangle(l1, l2, l3):
        return symbols
    a, b, c = l1 + l2 - l3, l1 - l2 + l3, -l1 + l2 + l3
    common = Fraction(comb(2 * l1, a) * comb(2 * l2, a), comb(l1 + l2 + l3 + 1, a) * (2 * l3 + 1))
    for m1 in range(-l1, l1 + 1):
        for m2 in range(-l2, l2 + 1):
            m3 = -m1 - m2
            if abs(m3) > l3:
                continue
            first, last = max(0, l1 - m1 - b, l2 + m2 - c), min(a, l1 - m1, l2 + m2)
            total = sum(
                (-1) ** k * comb(a, k) * comb(b, l1 - m1 - k) * comb(c, l2 + m2 - k) for k in range(first, last + 1)
            )
            if total:
                square = common * total**2 / (comb(2 * l1, l1 - m1) * comb(2 * l2, l2 - m2) * comb(2 * l3, l3 + m3))
                positive = (total > 0) == ((l1 - l2 - m3) % 2 == 0)
                symbols[m1 + l1, m2 + l2, m3 + l3] = sqrt(square) if positive else -sqrt(square)
    symbols.flags.writeable = False
    return symbols


@lru_cache(maxsize=4096)
def invariant_tensor(l1: int, l2: int, l3: int) -> Tensor:
    """The one rotation-invariant tensor of three real harmonic vectors, of unit norm, shape (2 l1 + 1, ...).

    ``sum W[i, j, k] a_i b_j c_k`` does not change when the real harmonic coefficients a, b, c of degrees l1, l2, l3 are
    rotated. Exchanging two of the degrees multiplies W by ``(-1)^(l1 + l2 + l3)``.
    """
    complex_tensor = np.einsum(
        "ijk,ai,bj,ck->abc", wigner_3j(l1, l2, l3), *map(_to_complex, (l1, l2, l3)), optimize=True
    )
    # real for an even sum of degrees, imaginary for an odd one
    tensor: Tensor = np.ascontiguousarray(complex_tensor.real if (l1 + l2 + l3) % 2 == 0 else complex_tensor.imag)
    tensor.flags.writeable = False
    return tensor


def _to_complex(degree: int) -> NDArray[np.complex128]:
    """Rows: real harmonics of one degree, m from -l to l, in terms of the complex ones."""
    matrix = np.zeros((2 * degree + 1, 2 * degree + 1), dtype=np.complex128)
    matrix[degree, degree] = 1
    for m in range(1, degree + 1):
        sign = (-1) ** m
        matrix[degree + m, [degree - m, degree + m]] = np.array([1, sign]) / sqrt(2)
        matrix[degree - m, [degree - m, degree + m]] = np.array([1j, -1j * sign]) / sqrt(2)
    return matrix
