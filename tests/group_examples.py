"""Groups that the tests run over, and slow literal versions of what is computed on them."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.groups import CyclicGroup, DihedralGroup, FiniteGroup, OctahedralGroup, ProductGroup, SymmetricGroup


def quaternion_table() -> NDArray[np.int64]:
    """Q_8 as 1, i, j, k, -1, -i, -j, -k."""
    # products of 1, i, j, k: which one, and whether with a minus sign
    which = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
    minus = np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1]])
    unit, sign = np.arange(8) % 4, np.arange(8) // 4
    return which[np.ix_(unit, unit)] + 4 * ((sign[:, None] + sign + minus[np.ix_(unit, unit)]) % 2)


def alternating_table() -> NDArray[np.int64]:
    """A_4: the even ones among the permutations of four things."""
    symmetric = SymmetricGroup(4)
    even, number = np.flatnonzero(np.linalg.det(np.eye(4)[symmetric.permutations]) > 0), np.full(24, -1)
    number[even] = np.arange(12)
    return number[symmetric.table[np.ix_(even, even)]]


EXAMPLES = {
    "Z/8": lambda: CyclicGroup(8),
    "Z/2 x Z/4": lambda: ProductGroup(2, 4),
    "D_3": lambda: DihedralGroup(3),
    "S_3": lambda: SymmetricGroup(3),
    "D_4": lambda: DihedralGroup(4),
    "D_6": lambda: DihedralGroup(6),
    "Q_8": lambda: FiniteGroup.from_table(quaternion_table()),
    "A_4": lambda: FiniteGroup.from_table(alternating_table()),
    "O": OctahedralGroup,
    "S_4": lambda: SymmetricGroup(4),
}


@cache
def example(name: str) -> FiniteGroup:
    """One of EXAMPLES, made once."""
    return EXAMPLES[name]()


def random_signals(group: FiniteGroup, n: int, *, seed: int = 0) -> NDArray[np.float64]:
    """Uniform random signals of shape (n, order)."""
    return np.random.default_rng(seed).random((n, group.order))


def slow_bispectrum(group: FiniteGroup, signal: NDArray[np.float64], r: int, s: int) -> NDArray[np.complex128]:
    """``B[r, s]`` of appendix C, sum by sum and block by block."""

    def transform(t: int) -> NDArray[np.complex128]:
        return sum(value * matrix for value, matrix in zip(signal, group.irreps[t], strict=True))

    clebsch_gordan, parts = group.clebsch_gordan(r, s)
    middle, start = np.zeros_like(clebsch_gordan), 0
    for t in parts:
        stop = start + group.irreps[t].shape[1]
        middle[start:stop, start:stop] = transform(t).conj().T
        start = stop
    return np.kron(transform(r), transform(s)) @ clebsch_gordan @ middle @ clebsch_gordan.conj().T


def triple_correlation_bispectrum(group: FiniteGroup, signal: NDArray[np.float64], r: int, s: int) -> NDArray:
    """``B[r, s]`` without Clebsch-Gordan matrices, as the transform of ``sum_g f(g) f(g1 g) f(g2 g)``."""
    moved = signal[group.table]
    correlation, size = (moved * signal) @ moved.T, group.irreps[r].shape[1] * group.irreps[s].shape[1]
    total = np.zeros((size, size), dtype=np.complex128)
    for a in range(group.order):
        for b in range(group.order):
            total += correlation[a, b] * np.kron(group.irreps[r][a], group.irreps[s][b])
    return total
