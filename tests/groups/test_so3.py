from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bispectral_ot.groups.so3 import invariant_tensor, triangle, wigner_3j
from sphere_oracles import clebsch_gordan, rotate_coefficients

SOME = [(0, 0, 0), (1, 1, 2), (2, 2, 2), (1, 2, 3), (3, 3, 3), (2, 4, 5), (5, 3, 4), (6, 6, 7)]


def test_known_values():
    assert wigner_3j(1, 1, 0)[1, 1, 0] == pytest.approx(-1 / np.sqrt(3), abs=1e-15)
    assert wigner_3j(2, 2, 2)[2, 2, 2] == pytest.approx(-np.sqrt(2 / 35), abs=1e-15)
    assert wigner_3j(1, 1, 1)[2, 0, 1] == pytest.approx(1 / np.sqrt(6), abs=1e-15)
    assert not wigner_3j(1, 1, 3).any()


@pytest.mark.parametrize("degrees", SOME)
def test_symbols_are_those_of_racahs_formula(degrees):
    l1, l2, l3 = degrees
    symbols = wigner_3j(l1, l2, l3)
    for place in np.ndindex(symbols.shape):
        m1, m2, m3 = (index - degree for index, degree in zip(place, degrees, strict=True))
        expected = (-1) ** (l1 - l2 - m3) / np.sqrt(2 * l3 + 1) * clebsch_gordan(l1, m1, l2, m2, l3, -m3)
        assert symbols[place] == pytest.approx(expected, abs=1e-13)


def test_clebsch_gordan_matrices_are_orthogonal_at_high_degrees():
    l1, l2 = 12, 20
    blocks = [np.sqrt(2 * l3 + 1) * wigner_3j(l1, l2, l3).reshape(-1, 2 * l3 + 1) for l3 in range(8, 33)]
    matrix = np.concatenate(blocks, axis=1)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(len(matrix)), atol=1e-14)


@pytest.mark.parametrize("degrees", SOME)
def test_the_invariant_tensor_is_invariant_and_symmetric(degrees):
    rng = np.random.default_rng(0)
    lmax = max(degrees)
    coefficients = rng.standard_normal((3, (lmax + 1) ** 2))
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


def test_triangle():
    assert triangle(2, 3, 5)
    assert not triangle(2, 3, 6)
    assert not triangle(1, 4, 2)
