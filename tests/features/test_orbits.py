"""Orbits of index pairs against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.features.commutative import cyclic_orbits
from oracles import cyclic_bispectrum


def test_the_papers_numbers():
    orbits = cyclic_orbits(40)
    assert len(orbits.i) == 154
    assert 14 * orbits.n_columns == 4018
    assert orbits.multiplicity.sum() == 1600


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9, 12])
def test_orbits_by_brute_force(n):
    def orbit(i, j):
        triple = (i, j, -(i + j) % n)
        signed = [triple, tuple(-f % n for f in triple)]
        return frozenset((t[a], t[b]) for t in signed for a in range(3) for b in range(3) if a != b)

    orbits = cyclic_orbits(n)
    found = [orbit(i, j) for i, j in zip(orbits.i, orbits.j, strict=True)]
    assert set(found) == {orbit(i, j) for i in range(n) for j in range(n)}
    assert len(found) == len(set(found))
    assert [len(pairs) for pairs in found] == orbits.multiplicity.tolist()
    np.testing.assert_array_equal((orbits.i + orbits.j + orbits.k) % n, 0)
    bispectrum = cyclic_bispectrum(np.random.default_rng(n).normal(size=n))
    atol = 1e-12 * np.abs(bispectrum).max()
    for pairs, value in zip(found, bispectrum[orbits.i, orbits.j], strict=True):
        i, j = np.array(sorted(pairs)).T
        np.testing.assert_allclose(bispectrum[i, j].real, value.real, atol=atol)
        np.testing.assert_allclose(np.abs(bispectrum[i, j].imag), abs(value.imag), atol=atol)
    is_real = np.abs(bispectrum[orbits.i, orbits.j].imag) < atol
    assert is_real.tolist() == [place < orbits.n_real for place in range(len(found))]
