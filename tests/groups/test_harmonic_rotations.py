"""Turned coefficients are the coefficients of the turned signal."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bispectral_ot.groups.harmonic_rotations import generators, wigner_matrices
from bispectral_ot.groups.harmonics import real_harmonics

LMAX = 6
ROTATIONS = Rotation.concatenate(
    [
        Rotation.random(6, rng=np.random.default_rng(0)),
        Rotation.identity(),
        Rotation.from_euler("z", 40, degrees=True),
        Rotation.from_euler("y", 180, degrees=True),  # poles of the Euler angles
        Rotation.from_euler("zy", [30, 180], degrees=True),
        Rotation.from_euler("y", 1e-9),
    ]
)


def parts(values):
    return [values[..., degree**2 : (degree + 1) ** 2] for degree in range(LMAX + 1)]


@pytest.mark.parametrize("number", range(len(ROTATIONS)))
def test_matrices_turn_the_coefficients_of_a_signal(number):
    random = np.random.default_rng(number)
    coefficients, points = random.normal(size=(LMAX + 1) ** 2), random.normal(size=(30, 3))
    matrices = wigner_matrices(ROTATIONS[[number]], LMAX)
    turned = np.concatenate([matrix[0] @ part for matrix, part in zip(matrices, parts(coefficients), strict=True)])
    expected = real_harmonics(ROTATIONS[number].inv().apply(points), LMAX) @ coefficients
    np.testing.assert_allclose(real_harmonics(points, LMAX) @ turned, expected, atol=1e-12)


def test_matrices_are_a_representation():
    products = wigner_matrices(ROTATIONS[:3] * ROTATIONS[3:6], LMAX)
    both = zip(wigner_matrices(ROTATIONS[:3], LMAX), wigner_matrices(ROTATIONS[3:6], LMAX), strict=True)
    for product, (first, second) in zip(products, both, strict=True):
        np.testing.assert_allclose(product, first @ second, atol=1e-12)


@pytest.mark.parametrize("axis", range(3))
def test_generators_are_derivatives_at_the_identity(axis):
    step = 1e-5 * np.eye(3)[[axis]]
    ahead, behind = (wigner_matrices(Rotation.from_rotvec(sign * step), LMAX) for sign in (1, -1))
    for one, other, generator in zip(ahead, behind, generators(LMAX), strict=True):
        np.testing.assert_allclose((one - other)[0] / 2e-5, generator[axis], atol=1e-7)
