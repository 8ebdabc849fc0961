from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.errors import InputError
from bispectral_ot.groups import (
    CyclicGroup,
    DihedralGroup,
    FiniteGroup,
    OctahedralGroup,
    ProductGroup,
    SymmetricGroup,
)
from group_examples import EXAMPLES, example, random_signals

DIMENSIONS = {
    "Z/8": [1] * 8,
    "Z/2 x Z/4": [1] * 8,
    "D_3": [1, 1, 2],
    "S_3": [1, 1, 2],
    "D_4": [1, 1, 1, 1, 2],
    "D_6": [1, 1, 1, 1, 2, 2],
    "Q_8": [1, 1, 1, 1, 2],
    "A_4": [1, 1, 1, 3],
    "O": [1, 1, 2, 3, 3],
    "S_4": [1, 1, 2, 3, 3],
}


def both_ways(name):
    """The group as it is, and its irreps found from the bare table."""
    return [example(name), FiniteGroup.from_table(example(name).table)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_irreps_are_unitary_homomorphisms(name):
    for group in both_ways(name):
        assert group.dimensions.tolist() == DIMENSIONS[name]
        for irrep in group.irreps:
            unit = np.eye(irrep.shape[1])
            np.testing.assert_allclose(
                irrep @ irrep.conj().swapaxes(1, 2), np.tile(unit, (group.order, 1, 1)), atol=1e-12
            )
            np.testing.assert_allclose(irrep[:, None] @ irrep[None], irrep[group.table], atol=1e-12)


@pytest.mark.parametrize("name", EXAMPLES)
def test_characters_are_orthonormal_and_constant_on_classes(name):
    for group in both_ways(name):
        assert len(group.irreps) == len(group.conjugacy_classes)
        gram = group.characters @ group.characters.conj().T / group.order
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-12)
        for members in group.conjugacy_classes:
            np.testing.assert_allclose(np.ptp(group.characters[:, members].real, axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("name", EXAMPLES)
def test_clebsch_gordan_matrices_split_the_products(name):
    for group in both_ways(name):
        for r, first in enumerate(group.irreps):
            for s, second in enumerate(group.irreps):
                matrix, parts = group.clebsch_gordan(r, s)
                np.testing.assert_allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), atol=1e-10)
                for g in range(group.order):
                    split = matrix.conj().T @ np.kron(first[g], second[g]) @ matrix
                    start = 0
                    for t in parts:
                        stop = start + group.dimensions[t]
                        split[start:stop, start:stop] -= group.irreps[t][g]
                        start = stop
                    np.testing.assert_allclose(split, 0, atol=1e-10)


def test_irreps_of_real_type_are_real_and_others_come_in_conjugate_pairs():
    permutations = example("S_4")
    assert not any(irrep.imag.any() for irrep in permutations.irreps)
    tetrahedral = example("A_4")
    pairs = tetrahedral.conjugate_irrep
    assert sorted(pairs.tolist()) == [0, 1, 2, 3]
    assert (pairs != np.arange(4)).sum() == 2
    for r in range(4):
        np.testing.assert_allclose(tetrahedral.irreps[pairs[r]], tetrahedral.irreps[r].conj(), atol=1e-14)
    # the quaternions act on two complex dimensions with a real character, but not by real matrices
    assert example("Q_8").conjugate_irrep.tolist() == [0, 1, 2, 3, 4]
    assert example("Q_8").irreps[4].imag.any()


@pytest.mark.parametrize(
    "group",
    [CyclicGroup(60), DihedralGroup(30), SymmetricGroup(5), ProductGroup(example("Q_8"), OctahedralGroup())],
)
def test_larger_groups_from_their_tables(group):
    labels = np.random.default_rng(1).permutation(group.order)
    back = np.argsort(labels)
    relabelled = FiniteGroup.from_table(labels[group.table[np.ix_(back, back)]])
    assert sorted(relabelled.dimensions) == sorted(group.dimensions)
    for irrep in relabelled.irreps[-3:]:
        np.testing.assert_allclose(irrep[:, None] @ irrep[None], irrep[relabelled.table], atol=1e-10)


@pytest.mark.parametrize("name", EXAMPLES)
def test_fourier_transform_goes_there_and_back(name):
    group = example(name)
    signals = random_signals(group, 3)
    coefficients = group.fourier(signals)
    assert [part.shape for part in coefficients] == [(3, d, d) for d in group.dimensions]
    np.testing.assert_allclose(coefficients[0][:, 0, 0], signals.sum(axis=1))
    np.testing.assert_allclose(group.inverse_fourier(coefficients), signals, atol=1e-13)


def test_translations_are_what_they_say_and_multiply_the_coefficients():
    group = example("D_6")
    signal = random_signals(group, 1)[0]
    before = group.fourier(signal)
    for t in range(group.order):
        left = group.translate(signal, t)
        for g in range(group.order):
            assert left[group.table[t, g]] == signal[g]
        for part, moved, irrep in zip(before, group.fourier(left), group.irreps, strict=True):
            np.testing.assert_allclose(moved, irrep[t] @ part, atol=1e-12)


def test_translation_on_a_cyclic_group_is_a_roll():
    signal = np.arange(8.0)
    np.testing.assert_array_equal(CyclicGroup(8).translate(signal, 3), np.roll(signal, 3))
    np.testing.assert_allclose(np.ravel(CyclicGroup(8).fourier(signal)), np.fft.fft(signal).conj())


def test_a_product_group_is_a_torus():
    group = ProductGroup(3, 4)
    image = np.random.default_rng(0).random((3, 4))
    moved = group.translate(image.ravel(), 2 * 4 + 1).reshape(3, 4)
    np.testing.assert_array_equal(moved, np.roll(image, (2, 1), axis=(0, 1)))
    assert group.elements[5] == "(1, 1)"


def test_dihedral_and_octahedral_relations():
    group = DihedralGroup(5)
    turn, mirror = 1, 5
    assert group.elements[group.table[turn, mirror]] == "r1s"
    assert group.elements[group.table[mirror, turn]] == "r4s"
    cube = OctahedralGroup()
    for a, b in [(3, 17), (8, 5)]:
        np.testing.assert_array_equal(cube.matrices[cube.table[a, b]], cube.matrices[a] @ cube.matrices[b])
    np.testing.assert_allclose(cube.irreps[3], cube.matrices)
    assert len(set(cube.elements)) == 24


def test_permutations_compose_from_the_right():
    group = SymmetricGroup(3)
    p, q = group.elements.index("120"), group.elements.index("102")
    assert group.elements[group.table[p, q]] == "210"  # x -> p[q[x]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CyclicGroup(0), "at least 1"),
        (lambda: DihedralGroup(2.5), "integer"),
        (lambda: SymmetricGroup(7), "5,040 elements"),
        (lambda: ProductGroup(), "at least one group"),
        (lambda: FiniteGroup.from_table([[0]], elements=["e", "a"]), "2 element names"),
        (lambda: FiniteGroup.from_table([[0, 1], [1]]), "different lengths"),
        (lambda: CyclicGroup(3).fourier(np.zeros(4)), "3 values"),
        (lambda: CyclicGroup(3).inverse_fourier([np.ones((1, 1))] * 2), "one array per irrep"),
        (lambda: DihedralGroup(3).inverse_fourier([np.ones((1, 1))] * 3), r"\(2, 2\)"),
        (lambda: CyclicGroup(3).translate(np.zeros(4), 0), "3 values"),
        (lambda: CyclicGroup(3).translate(np.zeros(3), 3), "from 0 to 2, got 3"),
        (lambda: CyclicGroup(3).translate(np.zeros(3), -1), "from 0 to 2, got -1"),
        (lambda: DihedralGroup(4).clebsch_gordan(0, 5), "irrep .* from 0 to 4, got 5"),
        (lambda: DihedralGroup(4).multiplicities(-1, 0), "irrep .* from 0 to 4, got -1"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_the_smallest_groups():
    for group in (CyclicGroup(1), SymmetricGroup(1), FiniteGroup.from_table([[0]])):
        assert group.dimensions.tolist() == [1]
        assert group.clebsch_gordan(0, 0)[1] == [0]
    assert DihedralGroup(1).is_commutative
    assert DihedralGroup(2).is_commutative
    assert not DihedralGroup(3).is_commutative
