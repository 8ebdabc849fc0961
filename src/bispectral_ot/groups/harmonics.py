"""Real spherical harmonics: values, projection of signals on the sphere, and rotation of coefficients."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.errors import InputError

Floats = NDArray[np.float64]


def equiangular_grid(n_theta: int, n_phi: int) -> tuple[Floats, Floats]:
    """Unit vectors (n_theta, n_phi, 3) and quadrature weights (n_theta, n_phi) of an equiangular grid.

    ``theta = pi (j + 1/2) / n_theta`` from the north pole, ``phi = 2 pi k / n_phi``. The weights (Fejer's first rule)
    integrate polynomials of degree below ``min(n_theta, n_phi)`` exactly and sum to 4 pi.
    """
    theta, phi = np.pi * (np.arange(n_theta)[:, None] + 0.5) / n_theta, 2 * np.pi * np.arange(n_phi) / n_phi
    k = np.arange(1, n_theta // 2 + 1)
    rule = 2 / n_theta * (1 - 2 * np.sum(np.cos(2 * k * theta) / (4 * k**2 - 1), axis=1, keepdims=True))
    x, y, z = np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta) + 0 * phi
    return np.stack([x, y, z], axis=-1), np.repeat(rule * 2 * np.pi / n_phi, n_phi, axis=1)


def real_harmonics(points: ArrayLike, lmax: int) -> Floats:
    """Orthonormal real spherical harmonics (..., (lmax + 1) ** 2) of directions (..., 3); column ``l * l + l + m``.

    By the recurrence ``Y[l] = a z Y[l - 1] - b Y[l - 2]``, from ``Y[m] ~ (x + iy)^m`` on (30 times as fast as
    ``scipy.special.sph_harm_y_all``). The zero vector only has its degree 0.
    """
    directions = np.asarray(points, dtype=np.float64)
    lengths = np.linalg.norm(directions, axis=-1)
    x, y, z = np.moveaxis(directions, -1, 0) / np.where(lengths > 0, lengths, 1)
    values = np.zeros((lmax + 1, 2 * lmax + 1, *lengths.shape))  # degree, order (negative ones from the end)
    power = np.full(lengths.shape, np.sqrt(1 / (4 * np.pi)), dtype=np.complex128)
    for m in range(lmax + 1):
        if m:
            power *= np.sqrt((2 * m + 1) / (2 * m) * (2 if m == 1 else 1)) * (x + 1j * y)
        orders = [m, -m] if m else [0]
        values[m, orders] = [power.real, power.imag][: len(orders)]
        for degree in range(m + 1, lmax + 1):
            a = np.sqrt((4 * degree**2 - 1) / (degree**2 - m**2))
            b = a * np.sqrt(((degree - 1) ** 2 - m**2) / (4 * (degree - 1) ** 2 - 1))
            values[degree, orders] = a * z * values[degree - 1, orders] - b * values[degree - 2, orders]
    values[1:, :, lengths == 0] = 0
    degrees = [values[degree, np.arange(-degree, degree + 1)] for degree in range(lmax + 1)]
    return np.moveaxis(np.concatenate(degrees), 0, -1)


def analysis_matrix(points: ArrayLike, weights: ArrayLike, lmax: int) -> Floats:
    """Matrix from samples to harmonic coefficients, shape (n_points, (lmax + 1) ** 2).

    Coefficients are the weighted least-squares fit ``(Y^T W Y)^-1 Y^T W f``; for exact weights, this is ``Y^T W f``.
    """
    harmonics = real_harmonics(points, lmax)
    n_points, n_harmonics = harmonics.shape
    roots = np.sqrt(np.asarray(weights, dtype=np.float64))[:, None]
    left, values, right = np.linalg.svd(roots * harmonics, full_matrices=False)
    if n_points < n_harmonics or values[-1] < 1e-6 * values[0]:
        which = f"the {n_harmonics} harmonics up to degree {lmax}; give more points, spread over the whole sphere"
        raise InputError(f"{n_points} points do not determine {which}, or a smaller lmax.")
    return roots * (left / values) @ right


def wigner_matrices(rotations: Any, lmax: int) -> list[Floats]:
    """Wigner matrices (n, 2 l + 1, 2 l + 1) that rotate the real coefficients of each degree up to lmax.

    If f has the coefficients a, the rotated signal ``f(R^-1 p)`` has ``D_l(R) a_l``. With Euler angles
    ``R = Z(a) Y(b) Z(c)`` these are ``Z(a) J Z(b) J Z(c)``, where J is the half turn that exchanges the y and z axis.
    """
    matrix = rotations.as_matrix()
    sine = np.hypot(matrix[:, 0, 2], matrix[:, 1, 2])
    at_pole = sine < 1e-12  # only the sum or difference of two angles counts
    y, x = np.where(at_pole, [-matrix[:, 0, 1], matrix[:, 1, 1]], [matrix[:, 1, 2], matrix[:, 0, 2]])
    first, second = np.arctan2(y, x), np.arctan2(sine, matrix[:, 2, 2])
    third = np.where(at_pole, 0.0, np.arctan2(matrix[:, 2, 1], -matrix[:, 2, 0]))
    return [
        _about_z(first, degree) @ exchange @ _about_z(second, degree) @ exchange @ _about_z(third, degree)
        for degree, exchange in enumerate(_exchanges(lmax))
    ]


def generators(lmax: int) -> list[Floats]:
    """Derivatives (3, 2 l + 1, 2 l + 1) of the Wigner matrices for small rotations about the x, y and z axis."""
    found = []
    for degree, exchange in enumerate(_exchanges(lmax)):
        about_z = np.diag(-np.arange(-degree, degree + 1.0))[:, ::-1]
        about_y = exchange @ about_z @ exchange
        found.append(np.stack([about_y @ about_z - about_z @ about_y, about_y, about_z]))  # [L_y, L_z] = L_x
    return found


def _about_z(angles: Floats, degree: int) -> Floats:
    """Rotation about the z axis: orders m > 0 are ``cos m phi``, and -m ``sin m phi``."""
    order = np.arange(-degree, degree + 1)
    matrices = np.zeros((len(angles), len(order), len(order)))
    matrices[:, order + degree, degree - order] = np.sin(-np.multiply.outer(angles, order))
    matrices[:, order + degree, order + degree] = np.cos(np.multiply.outer(angles, order))
    return matrices


@lru_cache(maxsize=8)
def _exchanges(lmax: int) -> tuple[Floats, ...]:
    """Matrices of the half turn that exchanges the y and z axis, one per degree."""
    points, weights = (part.reshape(-1, *part.shape[2:]) for part in equiangular_grid(2 * lmax + 2, 2 * lmax + 2))
    turned = real_harmonics(points * [-1, 1, 1] @ np.eye(3)[[0, 2, 1]], lmax)
    whole = (turned.T @ analysis_matrix(points, weights, lmax)).T
    orders = [slice(degree**2, (degree + 1) ** 2) for degree in range(lmax + 1)]
    return tuple(whole[part, part] for part in orders)
