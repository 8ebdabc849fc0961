"""Slow literal formulas of SO(3): Clebsch-Gordan coefficients, Wigner matrices, the bispectrum on the sphere."""

from math import factorial, prod, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation


def clebsch_gordan(l1: int, m1: int, l2: int, m2: int, l3: int, m3: int) -> float:
    """``<l1 m1 l2 m2 | l3 m3>`` by Racah's sum of factorials."""
    if m1 + m2 != m3 or not abs(l1 - l2) <= l3 <= l1 + l2 or abs(m1) > l1 or abs(m2) > l2 or abs(m3) > l3:
        return 0.0
    f = factorial
    square = (2 * l3 + 1) * f(l1 + l2 - l3) * f(l1 - l2 + l3) * f(-l1 + l2 + l3) / f(l1 + l2 + l3 + 1)
    square *= f(l1 + m1) * f(l1 - m1) * f(l2 + m2) * f(l2 - m2) * f(l3 + m3) * f(l3 - m3)
    total = 0.0
    for k in range(l1 + l2 - l3 + 1):
        terms = (k, l1 + l2 - l3 - k, l1 - m1 - k, l2 + m2 - k, l3 - l2 + m1 + k, l3 - l1 - m2 + k)
        if min(terms) >= 0:
            total += (-1) ** k / prod(map(f, terms))
    return sqrt(square) * total


def wigner_matrix(degree: int, rotation: Rotation) -> NDArray[np.complex128]:
    """``D[m', m]`` with ``Y_m(R^-1 x) = sum_m' D[m', m] Y_m'(x)``, orders from -l to l, by Wigner's formula."""
    alpha, beta, gamma = rotation.as_euler("ZYZ")
    orders, f = range(-degree, degree + 1), factorial
    matrix = np.zeros((2 * degree + 1, 2 * degree + 1), dtype=np.complex128)
    for row, m1 in enumerate(orders):
        for column, m2 in enumerate(orders):
            total = 0.0
            for k in range(2 * degree + 1):
                terms = (degree + m2 - k, k, m1 - m2 + k, degree - m1 - k)
                if min(terms) >= 0:
                    waves = np.cos(beta / 2) ** (2 * degree + m2 - m1 - 2 * k) * np.sin(beta / 2) ** (m1 - m2 + 2 * k)
                    total += (-1) ** (m1 - m2 + k) / float(prod(map(f, terms))) * waves
            size = sqrt(f(degree + m1) * f(degree - m1) * f(degree + m2) * f(degree - m2))
            matrix[row, column] = np.exp(-1j * (m1 * alpha + m2 * gamma)) * size * total
    return matrix


def to_complex(real: NDArray[np.float64], degree: int) -> NDArray[np.complex128]:
    """Complex harmonic coefficients of a real signal from its real ones (2 l + 1,)."""
    result = np.zeros(2 * degree + 1, dtype=np.complex128)
    result[degree] = real[degree]
    for m in range(1, degree + 1):
        cosine, sine = real[degree + m], real[degree - m]
        result[degree + m] = (-1) ** m * (cosine - 1j * sine) / sqrt(2)
        result[degree - m] = (cosine + 1j * sine) / sqrt(2)
    return result


def to_real(values: NDArray[np.complex128], degree: int) -> NDArray[np.float64]:
    """The inverse of :func:`to_complex`."""
    result = np.zeros(2 * degree + 1)
    result[degree] = values[degree].real
    for m in range(1, degree + 1):
        result[degree + m] = sqrt(2) * values[degree - m].real
        result[degree - m] = sqrt(2) * values[degree - m].imag
    return result


def rotate_coefficients(real: NDArray[np.float64], rotation: Rotation) -> NDArray[np.float64]:
    """Real coefficients (..., (lmax + 1) ** 2) of signals turned by a rotation, with Wigner matrices."""
    turned, lmax = np.empty_like(real), round(sqrt(real.shape[-1])) - 1
    for degree in range(lmax + 1):
        matrix = wigner_matrix(degree, rotation)
        for place in np.ndindex(real.shape[:-1]):
            part = real[place][degree**2 : (degree + 1) ** 2]
            turned[place][degree**2 : (degree + 1) ** 2] = to_real(matrix @ to_complex(part, degree), degree)
    return turned


def slow_bispectrum(real: NDArray[np.float64], l1: int, l2: int, l3: int) -> complex:
    """``sum_m <l1 m1 l2 m2 | l3 m3> a[l1, m1] a[l2, m2] conj(a[l3, m3])`` of one signal's real coefficients."""
    first, second, third = (to_complex(real[degree**2 : (degree + 1) ** 2], degree) for degree in (l1, l2, l3))
    total = 0j
    for m1 in range(-l1, l1 + 1):
        for m2 in range(-l2, l2 + 1):
            if abs(m1 + m2) <= l3:
                weight = clebsch_gordan(l1, m1, l2, m2, l3, m1 + m2)
                total += weight * first[l1 + m1] * second[l2 + m2] * np.conj(third[l3 + m1 + m2])
    return total
