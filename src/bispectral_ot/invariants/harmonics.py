"""Real spherical harmonics and signals on the sphere: grids, quadrature, projection."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_integer
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
    x, y, z = np.moveaxis(directions, -1, 0)
    theta, phi = np.arctan2(np.hypot(x, y), z), np.arctan2(y, x)
    legendre = scipy.special.sph_legendre_p_all(lmax, lmax, theta)[0]  # (degree, order, ...)
    turns = np.sqrt(2) * (-np.exp(1j * phi)) ** np.arange(lmax + 1).reshape(-1, *[1] * phi.ndim)
    values = np.empty(((lmax + 1) ** 2, *theta.shape))
    for degree in range(lmax + 1):
        center = degree * degree + degree
        values[center] = legendre[degree, 0]
        for m in range(1, degree + 1):
            values[center + m] = legendre[degree, m] * turns[m].real
            values[center - m] = legendre[degree, m] * turns[m].imag
    values[1:, ~directions.any(axis=-1)] = 0
    return np.moveaxis(values, 0, -1)


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
