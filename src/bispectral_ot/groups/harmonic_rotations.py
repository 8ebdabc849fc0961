"""How real spherical harmonic coefficients turn: Wigner matrices of any rotations, degree by degree."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.groups.harmonics import analysis_matrix, equiangular_grid, real_harmonics

Matrices = NDArray[np.float64]


def wigner_matrices(rotations: Any, lmax: int) -> list[Matrices]:
    """Matrices (n, 2 l + 1, 2 l + 1) that turn the real coefficients of each degree up to lmax.

    If f has the coefficients a, the turned signal ``f(R^-1 p)`` has ``D_l(R) a_l``. A rotation about the z axis mixes
    orders m and -m only; one about the y axis is such a rotation between two half turns that exchange y and z. So
    with Euler angles ``R = Z(a) Y(b) Z(c)``: ``D = Z(a) J Z(b) J Z(c)`` with the matrix J of that half turn.

    Parameters
    ----------
    rotations : scipy.spatial.transform.Rotation
        n of them.

    Examples
    --------
    >>> from scipy.spatial.transform import Rotation
    >>> matrices = wigner_matrices(Rotation.random(3, rng=0), 2)
    >>> [matrix.shape for matrix in matrices]
    [(3, 1, 1), (3, 3, 3), (3, 5, 5)]
    """
    matrix = rotations.as_matrix()
    at_pole = np.hypot(matrix[:, 0, 2], matrix[:, 1, 2]) < 1e-12  # only the sum or difference of two angles counts
    first = np.where(
        at_pole, np.arctan2(-matrix[:, 0, 1], matrix[:, 1, 1]), np.arctan2(matrix[:, 1, 2], matrix[:, 0, 2])
    )
    second = np.arctan2(np.hypot(matrix[:, 0, 2], matrix[:, 1, 2]), matrix[:, 2, 2])
    third = np.where(at_pole, 0.0, np.arctan2(matrix[:, 2, 1], -matrix[:, 2, 0]))
    return [
        _about_z(first, degree) @ exchange @ _about_z(second, degree) @ exchange @ _about_z(third, degree)
        for degree, exchange in enumerate(_exchanges(lmax))
    ]


def generators(lmax: int) -> list[Matrices]:
    """Derivatives (3, 2 l + 1, 2 l + 1) of the matrices for small rotations about the x, y and z axis."""
    found = []
    for degree, exchange in enumerate(_exchanges(lmax)):
        about_z = np.diag(-np.arange(-degree, degree + 1.0))[:, ::-1]
        about_y = exchange @ about_z @ exchange
        about_x = about_y @ about_z - about_z @ about_y  # [L_y, L_z] = L_x
        found.append(np.stack([about_x, about_y, about_z]))
    return found


def _about_z(angles: NDArray[np.float64], degree: int) -> Matrices:
    """Rotation about the z axis: orders m > 0 are ``cos m phi``, and -m ``sin m phi``."""
    order = np.arange(-degree, degree + 1)
    matrices = np.zeros((len(angles), len(order), len(order)))
    matrices[:, order + degree, degree - order] = np.sin(-np.multiply.outer(angles, order))
    matrices[:, order + degree, order + degree] = np.cos(np.multiply.outer(angles, order))
    return matrices


@lru_cache(maxsize=8)
def _exchanges(lmax: int) -> tuple[Matrices, ...]:
    """Matrices of the half turn that exchanges the y and z axis."""
    points, weights = (part.reshape(-1, *part.shape[2:]) for part in equiangular_grid(2 * lmax + 2, 2 * lmax + 2))
    turned = real_harmonics(points * [-1, 1, 1] @ np.eye(3)[[0, 2, 1]], lmax)
    whole = (turned.T @ analysis_matrix(points, weights, lmax)).T
    orders = [slice(degree**2, (degree + 1) ** 2) for degree in range(lmax + 1)]
    return tuple(whole[part, part] for part in orders)
