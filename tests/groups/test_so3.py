"""3j symbols, invariant tensors, spherical harmonics and their rotation."""

from itertools import permutations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.special import sph_harm_y

from bispectral_ot.groups.sphere import equiangular_grid, invariant_tensor, real_harmonics, wigner_3j, wigner_matrices
from sphere_oracles import clebsch_gordan, rotate_coefficients

SOME = [(0, 0, 0), (1, 1, 2), (2, 2, 2), (1, 2, 3), (3, 3, 3), (2, 4, 5), (5, 3, 4)]
LMAX = 6
SPECIAL = np.radians([[0, 0], [40, 0], [0, 180], [30, 180], [0, 5.7e-8]])  # with poles of the Euler angles
ROTATIONS = Rotation.concatenate([Rotation.random(6, rng=np.random.default_rng(0)), Rotation.from_euler("zy", SPECIAL)])


def test_known_3j_symbols():
    assert wigner_3j(1, 1, 1)[2, 0, 1] == pytest.approx(1 / np.sqrt(6), abs=1e-15)
    assert not wigner_3j(1, 1, 3).any()
    # Clebsch-Gordan matrices are orthogonal at high degrees
    l1, l2 = 12, 20
    parts = [np.sqrt(2 * l3 + 1) * wigner_3j(l1, l2, l3).reshape(-1, 2 * l3 + 1) for l3 in range(8, 33)]
    matrix = np.concatenate(parts, axis=1)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(len(matrix)), atol=1e-14)


@pytest.mark.parametrize("degrees", SOME)
def test_symbols_are_those_of_racahs_formula(degrees):
    l1, l2, l3 = degrees
    symbols = wigner_3j(l1, l2, l3)
    for place in np.ndindex(symbols.shape):
        m1, m2, m3 = (index - degree for index, degree in zip(place, degrees, strict=True))
        expected = (-1) ** (l1 - l2 - m3) / np.sqrt(2 * l3 + 1) * clebsch_gordan(l1, m1, l2, m2, l3, -m3)
        assert symbols[place] == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("degrees", SOME)
def test_the_invariant_tensor_is_invariant_and_symmetric(degrees):
    coefficients = np.random.default_rng(0).standard_normal((3, (max(degrees) + 1) ** 2))
    turned = rotate_coefficients(coefficients, Rotation.from_euler("ZYZ", [0.3, 1.2, -2.0]))

    def contract(three, order=(0, 1, 2)):
        parts = [three[k][degrees[k] ** 2 : (degrees[k] + 1) ** 2] for k in order]
        return np.einsum("ijk,i,j,k->", invariant_tensor(*(degrees[k] for k in order)), *parts)

    value = contract(coefficients)
    assert contract(turned) == pytest.approx(value, abs=1e-12)
    assert np.linalg.norm(invariant_tensor(*degrees)) == pytest.approx(1, abs=1e-14)
    for order in permutations(range(3)):
        even = order in [(0, 1, 2), (1, 2, 0), (2, 0, 1)] or sum(degrees) % 2 == 0
        assert contract(coefficients, order) == pytest.approx(value if even else -value, abs=1e-12)


def test_harmonics_are_those_of_scipy_and_their_quadrature_is_exact():
    x, y, z = points = np.random.default_rng(0).standard_normal((3, 10))
    harmonics = real_harmonics(points.T, 5)
    for degree in range(6):
        for m in range(-degree, degree + 1):
            value = sph_harm_y(degree, abs(m), np.arctan2(np.hypot(x, y), z), np.arctan2(y, x))
            expected = value.real if m == 0 else np.sqrt(2) * (-1) ** m * (value.real if m > 0 else value.imag)
            np.testing.assert_allclose(harmonics[:, degree * degree + degree + m], expected, atol=1e-12)
    np.testing.assert_allclose(real_harmonics(np.zeros(3), 1), [np.sqrt(1 / (4 * np.pi)), 0, 0, 0])
    points, weights = equiangular_grid(21, 22)
    harmonics = real_harmonics(points.reshape(-1, 3), 10)
    np.testing.assert_allclose(harmonics.T @ (weights.reshape(-1, 1) * harmonics), np.eye(121), atol=1e-13)
    assert weights.sum() == pytest.approx(4 * np.pi)
    np.testing.assert_allclose(np.linalg.norm(points, axis=2), 1)


def test_wigner_matrices_rotate_the_coefficients_of_a_signal():
    random = np.random.default_rng(1)
    coefficients, points = random.normal(size=(LMAX + 1) ** 2), random.normal(size=(30, 3))
    matrices = wigner_matrices(ROTATIONS, LMAX)
    for number, rotation in enumerate(ROTATIONS):
        parts = [coefficients[degree**2 : (degree + 1) ** 2] for degree in range(LMAX + 1)]
        turned = np.concatenate([matrix[number] @ part for matrix, part in zip(matrices, parts, strict=True)])
        expected = real_harmonics(rotation.inv().apply(points), LMAX) @ coefficients
        np.testing.assert_allclose(real_harmonics(points, LMAX) @ turned, expected, atol=1e-12)
        np.testing.assert_allclose(rotate_coefficients(coefficients[None], rotation)[0], turned, atol=1e-10)
