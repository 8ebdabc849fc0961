"""Real spherical harmonics and signals on the sphere: grids, quadrature, projection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.compiled import njit
from bispectral_ot.errors import InputError

Points = NDArray[np.float64]


def equiangular_grid(n_theta: int, n_phi: int) -> tuple[Points, NDArray[np.float64]]:
    """Unit vectors (n_theta, n_phi, 3) and quadrature weights (n_theta, n_phi) of an equiangular grid.

    ``theta = pi (j + 1/2) / n_theta`` from the north pole, ``phi = 2 pi k / n_phi``. The weights (Fejer's first rule)
    integrate polynomials of degree below ``min(n_theta, n_phi)`` exactly and sum to 4 pi.
    """
    check_integer("n_theta", n_theta, minimum=1)
    check_integer("n_phi", n_phi, minimum=1)
    theta = np.pi * (np.arange(n_theta) + 0.5) / n_theta
    phi = 2 * np.pi * np.arange(n_phi) / n_phi
    k = np.arange(1, n_theta // 2 + 1)
    rule = 2 / n_theta * (1 - 2 * np.sum(np.cos(2 * k * theta[:, None]) / (4 * k**2 - 1), axis=1))
    ring = np.stack([np.cos(phi), np.sin(phi)], axis=1)
    points = np.empty((n_theta, n_phi, 3))
    points[..., :2] = np.sin(theta)[:, None, None] * ring
    points[..., 2] = np.cos(theta)[:, None]
    return points, np.repeat(rule[:, None] * 2 * np.pi / n_phi, n_phi, axis=1)


def real_harmonics(points: ArrayLike, lmax: int) -> NDArray[np.float64]:
    """Orthonormal real spherical harmonics up to degree lmax at unit vectors.

    Parameters
    ----------
    points : array of shape (..., 3)
        Directions; their length does not matter. The zero vector gets only its degree 0.

    Returns
    -------
    ndarray of shape (..., (lmax + 1) ** 2)
        Degree by degree, orders m from -l to l: column ``l * l + l + m``.
    """
    directions = np.asarray(points, dtype=np.float64)
    vectors = np.ascontiguousarray(directions.reshape(-1, 3).T)
    lengths = np.linalg.norm(vectors, axis=0)
    vectors /= np.where(lengths > 0, lengths, 1)
    values = np.empty(((lmax + 1) ** 2, vectors.shape[1]))
    fill_harmonics(vectors, lmax, values)
    values[1:, lengths == 0] = 0
    return np.moveaxis(values.reshape(-1, *directions.shape[:-1]), 0, -1)


# SciPy's sph_legendre_p_all and its angles take almost 5 times as long (CPU time).
@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def fill_harmonics(vectors: Points, lmax: int, out: Points) -> None:
    """Write the harmonics of unit vectors (3, n) to ``out``, shape ((lmax + 1) ** 2, n).

    By the recurrence in the degree, ``Y[l] = a z Y[l - 1] - b Y[l - 2]``, from ``Y[m] ~ (x + iy)^m`` on.
    """
    x, y, z = vectors[0], vectors[1], vectors[2]
    real, imag = np.ones(len(x)), np.zeros(len(x))  # (x + iy)^m
    factor = np.sqrt(1 / (4 * np.pi))
    for m in range(lmax + 1):
        if m > 0:
            factor *= np.sqrt((2 * m + 1) / (2 * m)) * (np.sqrt(2.0) if m == 1 else 1.0)
            for i in range(len(x)):
                real[i], imag[i] = real[i] * x[i] - imag[i] * y[i], real[i] * y[i] + imag[i] * x[i]
        for sign in range(1, -2 if m > 0 else 0, -2):
            powers = real if sign > 0 else imag
            first = out[m * m + m + sign * m]
            for i in range(len(x)):
                first[i] = factor * powers[i]
            for degree in range(m + 1, lmax + 1):
                before, row = out[degree * degree - degree + sign * m], out[degree * degree + degree + sign * m]
                a = np.sqrt((4.0 * degree * degree - 1) / (degree * degree - m * m))
                if degree == m + 1:
                    for i in range(len(x)):
                        row[i] = a * z[i] * before[i]
                else:
                    last = (degree - 1.0) ** 2
                    b = a * np.sqrt((last - m * m) / (4 * last - 1))
                    two_before = out[(degree - 1) * (degree - 2) + sign * m]
                    for i in range(len(x)):
                        row[i] = a * z[i] * before[i] - b * two_before[i]


def analysis_matrix(points: Any, weights: Any, lmax: int) -> NDArray[np.float64]:
    """The matrix that takes samples to harmonic coefficients, shape (n_points, (lmax + 1) ** 2).

    Coefficients are the weighted least-squares fit ``(Y^T W Y)^-1 Y^T W f``: with exact quadrature weights the
    harmonics are orthonormal and this is the quadrature ``Y^T W f``.
    """
    harmonics = real_harmonics(points, lmax)
    n_points, n_harmonics = harmonics.shape
    roots = np.sqrt(np.asarray(weights, dtype=np.float64))[:, None]
    left, values, right = np.linalg.svd(roots * harmonics, full_matrices=False)
    if n_points < n_harmonics or values[-1] < 1e-6 * values[0]:
        raise InputError(
            f"{n_points} points do not determine the {n_harmonics} harmonics up to degree {lmax}; "
            "give more points, spread over the whole sphere, or a smaller lmax."
        )
    matrix: NDArray[np.float64] = roots * (left / values) @ right
    return matrix
