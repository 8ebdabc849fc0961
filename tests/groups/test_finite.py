"""Cayley tables, irreps, Clebsch-Gordan matrices and Fourier transforms of finite groups."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bispectral_ot.errors import InputError
from bispectral_ot.groups import CyclicGroup, DihedralGroup, FiniteGroup, OctahedralGroup, ProductGroup, SymmetricGroup
from group_examples import EXAMPLES, example, quaternion_table, random_signals

DIMENSIONS = {
    **{"Z/8": [1] * 8, "Z/2 x Z/4": [1] * 8, "D_3": [1, 1, 2], "S_3": [1, 1, 2], "D_4": [1, 1, 1, 1, 2]},
    **{"D_6": [1, 1, 1, 1, 2, 2], "Q_8": [1, 1, 1, 1, 2], "A_4": [1, 1, 1, 3]},
    **{"O": [1, 1, 2, 3, 3], "S_4": [1, 1, 2, 3, 3]},
}
# a Latin square with identity 0 and inverses, but (1 * 1) * 2 = 2 and 1 * (1 * 2) = 4
LOOP = np.array([[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]])


@pytest.mark.parametrize("name", EXAMPLES)
def test_irreps_are_a_full_set_of_unitary_homomorphisms(name):
    for group in (example(name), FiniteGroup.from_table(example(name).table)):
        assert group.dimensions.tolist() == DIMENSIONS[name]
        for irrep in group.irreps:
            unit = np.tile(np.eye(irrep.shape[1]), (group.order, 1, 1))
            np.testing.assert_allclose(irrep @ irrep.conj().swapaxes(1, 2), unit, atol=1e-12)
            np.testing.assert_allclose(irrep[:, None] @ irrep[None], irrep[group.table], atol=1e-12)
        assert len(group.irreps) == len(np.unique(group.conjugacy_class))
        gram = group.characters @ group.characters.conj().T / group.order
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-12)
        np.testing.assert_allclose(group.characters, group.characters[:, group.conjugacy_class], atol=1e-12)


@pytest.mark.parametrize("name", ["Z/8", "D_6", "Q_8", "A_4", "O"])
def test_clebsch_gordan_matrices_split_the_products(name):
    for group in (example(name), FiniteGroup.from_table(example(name).table)):
        for r, first in enumerate(group.irreps):
            for s, second in enumerate(group.irreps):
                matrix, parts = group.clebsch_gordan(r, s)
                np.testing.assert_allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), atol=1e-10)
                for g in range(group.order):
                    split, start = matrix.conj().T @ np.kron(first[g], second[g]) @ matrix, 0
                    for t in parts:
                        stop = start + group.dimensions[t]
                        split[start:stop, start:stop] -= group.irreps[t][g]
                        start = stop
                    np.testing.assert_allclose(split, 0, atol=1e-10)


@pytest.mark.parametrize(
    "group", [CyclicGroup(60), SymmetricGroup(5), ProductGroup(example("Q_8"), OctahedralGroup())], ids=repr
)
def test_larger_groups_from_their_relabelled_tables(group):
    labels = np.random.default_rng(1).permutation(group.order)
    back = np.argsort(labels)
    relabelled = FiniteGroup.from_table(labels[group.table[np.ix_(back, back)]])
    assert relabelled.identity == labels[group.identity]
    assert sorted(relabelled.dimensions) == sorted(group.dimensions)
    for irrep in relabelled.irreps[-3:]:
        np.testing.assert_allclose(irrep[:, None] @ irrep[None], irrep[relabelled.table], atol=1e-10)


@pytest.mark.parametrize("name", EXAMPLES)
def test_fourier_transform_and_its_inverse(name):
    group = example(name)
    signals = random_signals(group, 3)
    coefficients = signals @ group.fourier_matrix
    np.testing.assert_allclose(coefficients[:, 0], signals.sum(axis=1))
    weights = np.repeat(group.dimensions, group.dimensions**2) / group.order
    np.testing.assert_allclose((coefficients * weights) @ group.fourier_matrix.conj().T, signals, atol=1e-13)


def test_translations_multiply_the_coefficients():
    group = example("D_6")
    signal = random_signals(group, 1)[0]
    for t in range(group.order):
        moved = group.translate(signal, t)
        np.testing.assert_array_equal(moved[group.table[t]], signal)
        for irrep in group.irreps:
            part, after = (np.tensordot(each, irrep, axes=1) for each in (signal, moved))
            np.testing.assert_allclose(after, irrep[t] @ part, atol=1e-12)
    signal = np.arange(8.0)
    np.testing.assert_array_equal(CyclicGroup(8).translate(signal, 3), np.roll(signal, 3))
    np.testing.assert_allclose(signal @ CyclicGroup(8).fourier_matrix, np.fft.fft(signal).conj())
    image = np.arange(12.0).reshape(3, 4)
    torus = ProductGroup(3, 4).translate(image.ravel(), 2 * 4 + 1).reshape(3, 4)
    np.testing.assert_array_equal(torus, np.roll(image, (2, 1), axis=(0, 1)))


def test_relations_of_named_groups():
    turn, mirror = 1, 5
    assert DihedralGroup(5).table[[turn, mirror], [mirror, turn]].tolist() == [1 + 5, 4 + 5]  # r s and r^4 s
    cube = OctahedralGroup()
    for a, b in [(3, 17), (8, 5)]:
        np.testing.assert_array_equal(cube.matrices[cube.table[a, b]], cube.matrices[a] @ cube.matrices[b])
    symmetric = SymmetricGroup(3)
    p, q, product = (symmetric.permutations.tolist().index(each) for each in ([1, 2, 0], [1, 0, 2], [2, 1, 0]))
    assert symmetric.table[p, q] == product  # x -> p[q[x]]
    _, sizes = np.unique(example("S_4").conjugacy_class, return_counts=True)
    assert sorted(sizes) == [1, 3, 6, 6, 8]  # cycle types
    _, i, j, k, minus_one, *_ = range(8)
    table = quaternion_table()
    assert (table[i, j], table[j, i], table[i, i], table[k, k]) == (k, k + 4, minus_one, minus_one)
    assert [CyclicGroup(6).multiplicities(2, s).argmax() for s in range(6)] == [2, 3, 4, 5, 0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SymmetricGroup(7), "5,040 elements"),
        (lambda: FiniteGroup.from_table(np.zeros((2, 3), dtype=int)), r"square matrix.*\(2, 3\)"),
        (lambda: FiniteGroup.from_table([[0, 0.5], [1, 0]]), "element numbers; got float64"),
        (lambda: FiniteGroup.from_table([[0, 1], [7, 0]]), r"closure fails: table\[1, 0\] = 7 .* 0 to 1"),
        (lambda: FiniteGroup.from_table([[1, 0], [1, 0]]), "no identity"),
        (lambda: FiniteGroup.from_table([[0, 0, 0], [0, 1, 2], [0, 2, 1]]), "element 0 has no inverse"),
        (lambda: CyclicGroup(3).translate(np.zeros(4), 1), "3 values"),
        (lambda: CyclicGroup(3).translate(np.zeros(3), 3), "from 0 to 2, got 3"),
        (lambda: DihedralGroup(4).clebsch_gordan(0, 5), "irrep .* from 0 to 4, got 5"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_associativity_names_a_triple_that_fails():
    with pytest.raises(InputError, match="associativity fails") as caught:
        FiniteGroup.from_table(LOOP)
    a, b, c = map(int, re.search(r"a, b, c = (\d+), (\d+), (\d+)", str(caught.value)).groups())
    assert LOOP[LOOP[a, b], c] != LOOP[a, LOOP[b, c]]


@given(st.sampled_from(["Z/8", "D_4", "Q_8", "A_4"]), st.integers(0, 11), st.integers(0, 11), st.integers(1, 11))
def test_a_group_table_with_one_wrong_entry_is_refused(name, a, b, change):
    table = example(name).table.copy()
    order = len(table)
    a, b = a % order, b % order
    table[a, b] = (table[a, b] + 1 + change % (order - 1)) % order
    with pytest.raises(InputError):
        FiniteGroup.from_table(table)
