"""Cayley tables: the axioms of a group, its inverses, conjugacy classes and generators.

``table[a, b]`` is the index of ``a * b``; elements are numbered from 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.errors import InputError

IntArray = NDArray[np.int64]


def check_table(table: Any) -> IntArray:
    """Return a Cayley table as an integer array, or say which axiom of a group it breaks, and where.

    Associativity is tested with Light's method: ``(x * b) * y == x * (b * y)`` for all x, y and for b in a
    generating set only, since the elements b that pass are closed under the product. That is about
    ``order^2 log(order)`` steps instead of ``order^3``.
    """
    try:
        array = np.asarray(table)
    except ValueError:
        raise InputError(
            "a Cayley table is a square matrix of element numbers; got rows of different lengths."
        ) from None
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise InputError(f"a Cayley table is a square matrix of element numbers; got shape {array.shape}.")
    if array.dtype.kind not in "iu" and not (array.dtype.kind == "f" and np.array_equal(array, np.round(array))):
        raise InputError(f"a Cayley table holds element numbers, which are integers; got {array.dtype}.")
    order = len(array)
    outside = np.argwhere((array < 0) | (array >= order))
    if len(outside):
        a, b = outside[0]
        raise InputError(
            f"closure fails: table[{a}, {b}] = {array[a, b]} is no element; entries must be 0 to {order - 1}."
        )
    whole = np.ascontiguousarray(array, dtype=np.int64)
    inverses(whole, find_identity(whole))
    _check_associative(whole)
    return whole


def find_identity(table: IntArray) -> int:
    """Find the element e with ``e * a == a == a * e`` for every a."""
    everyone = np.arange(len(table))
    wrong = (table != everyone).sum(axis=1) + (everyone != table.T).sum(axis=1)
    nearest = int(np.argmin(wrong))
    if wrong[nearest]:
        a = int(np.argmax((table[nearest] != everyone) | (table[:, nearest] != everyone)))
        raise InputError(
            f"there is no identity: no element e has e * a = a = a * e for every a. "
            f"Element {nearest} comes nearest, but "
            f"{nearest} * {a} = {table[nearest, a]} and {a} * {nearest} = {table[a, nearest]}."
        )
    return nearest


def inverses(table: IntArray, identity: int) -> IntArray:
    """Find the inverse of each element, shape (order,)."""
    both = (table == identity) & (identity == table.T)
    without = np.flatnonzero(~both.any(axis=1))
    if len(without):
        a = without[0]
        raise InputError(f"element {a} has no inverse: no b has {a} * b = b * {a} = {identity}, the identity.")
    inverse: IntArray = np.argmax(both, axis=1)
    return inverse


def conjugacy_classes(table: IntArray, inverse: IntArray) -> list[IntArray]:
    """Split the elements into the classes ``{x * g * x^-1}``, in the order of their first element."""
    class_of = np.full(len(table), -1)
    classes: list[IntArray] = []
    for element in range(len(table)):
        if class_of[element] < 0:
            members = np.unique(table[table[:, element], inverse])
            class_of[members] = len(classes)
            classes.append(members)
    return classes


def generators(table: IntArray) -> list[int]:
    """Pick few elements whose products (of any length, any brackets) reach every element."""
    reached = np.zeros(len(table), dtype=bool)
    chosen: list[int] = []
    while not reached.all():
        chosen.append(int(np.argmin(reached)))
        reached[chosen[-1]] = True
        size = 0
        while size < reached.sum():
            known = np.flatnonzero(reached)
            size = len(known)
            reached[table[np.ix_(known, known)]] = True
    return chosen


def _check_associative(table: IntArray) -> None:
    for b in generators(table):
        left, right = table[table[:, b]], table[:, table[b]]
        if not np.array_equal(left, right):
            a, c = np.argwhere(left != right)[0]
            raise InputError(
                f"associativity fails at a, b, c = {a}, {b}, {c}: (a * b) * c = {left[a, c]}, "
                f"but a * (b * c) = {right[a, c]}."
            )
