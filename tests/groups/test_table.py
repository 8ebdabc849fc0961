from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bispectral_ot.errors import InputError
from bispectral_ot.groups import CyclicGroup, FiniteGroup
from bispectral_ot.groups.table import conjugacy_classes, generators
from group_examples import EXAMPLES, example, quaternion_table

# a Latin square with identity 0 and inverses, but (1 * 1) * 2 = 2 and 1 * (1 * 2) = 4
LOOP = np.array([[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]])


def test_a_table_that_is_not_square_is_refused():
    with pytest.raises(InputError, match=r"square matrix.*\(2, 3\)"):
        FiniteGroup.from_table(np.zeros((2, 3), dtype=int))


def test_fractions_are_refused():
    with pytest.raises(InputError, match="which are integers"):
        FiniteGroup.from_table([[0, 0.5], [1, 0]])


def test_closure_names_the_entry():
    table = CyclicGroup(4).table.copy()
    table[2, 3] = 7
    with pytest.raises(InputError, match=r"closure fails: table\[2, 3\] = 7"):
        FiniteGroup.from_table(table)


def test_a_missing_identity_is_named():
    with pytest.raises(InputError, match="no identity"):
        FiniteGroup.from_table([[1, 0], [1, 0]])


def test_a_missing_inverse_names_the_element():
    # multiplication of 0, 1, 2 modulo 3: 1 is the identity, 0 has no inverse
    with pytest.raises(InputError, match="element 0 has no inverse"):
        FiniteGroup.from_table([[0, 0, 0], [0, 1, 2], [0, 2, 1]])


def test_associativity_names_a_triple_that_fails():
    with pytest.raises(ValueError, match="associativity fails") as caught:
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


@pytest.mark.parametrize("name", EXAMPLES)
def test_relabelled_tables_are_groups(name):
    table = example(name).table
    labels = np.random.default_rng(0).permutation(len(table))
    back = np.argsort(labels)
    group = FiniteGroup.from_table(labels[table[np.ix_(back, back)]])
    assert group.identity == labels[example(name).identity]
    assert (group.table[np.arange(group.order), group.inverse] == group.identity).all()


def test_quaternions_multiply_as_they_should():
    _, i, j, k, minus_one, *_ = range(8)
    table = quaternion_table()
    assert table[i, j] == k
    assert table[j, i] == k + 4
    assert table[i, i] == table[j, j] == table[k, k] == minus_one


def test_conjugacy_classes_of_the_permutations_are_the_cycle_types():
    group = example("S_4")
    classes = conjugacy_classes(group.table, group.inverse)
    assert sorted(map(len, classes)) == [1, 3, 6, 6, 8]
    assert np.array_equal(np.sort(np.concatenate(classes)), np.arange(24))


def test_generators_reach_everything():
    group = example("O")
    reached = set(generators(group.table))
    assert len(reached) <= 5  # each one more at least doubles a subgroup
    while len(reached) < 24:
        bigger = reached | {int(group.table[a, b]) for a in reached for b in reached}
        assert bigger > reached
        reached = bigger
