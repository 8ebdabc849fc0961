"""Named groups: cyclic, product, dihedral, octahedral, symmetric."""

import math
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.errors import InputError
from bispectral_ot.groups.finite import FiniteGroup, IntArray, Irrep

_LARGEST_SYMMETRIC = 6  # 6! = 720; 7! = 5040 would need minutes and gigabytes for its irreps


class CyclicGroup(FiniteGroup):
    """Z/n: the numbers 0 to n - 1 under addition. Irrep k is ``exp(2 pi i k g / n)``."""

    def __init__(self, n: int) -> None:
        self.n = check_integer("n", n, minimum=1)
        numbers = np.arange(self.n)
        super().__init__((numbers[:, None] + numbers) % self.n)

    def _find_irreps(self) -> list[Irrep]:
        numbers = np.arange(self.n)
        exponents = (numbers[:, None] * numbers) % self.n
        return list(np.exp(2j * np.pi * exponents / self.n)[:, :, None, None])

    def multiplicities(self, r: int, s: int | slice) -> IntArray:
        """Multiplicity of each irrep in ``r (x) s``: 1 for the irrep r + s."""
        return np.roll(np.eye(self.n, dtype=np.int64), -r, axis=0)[s]


class ProductGroup(FiniteGroup):
    """G1 x G2 x ...: tuples, multiplied elementwise; an integer n means Z/n.

    Elements are numbered like the entries of a C-ordered array of shape ``(|G1|, |G2|, ...)``: a signal on
    ``ProductGroup(4, 6)`` is a flattened 4 x 6 array on the torus. The irreps are products of irreps of the factors.
    """

    def __init__(self, *factors: FiniteGroup | int) -> None:
        if not factors:
            raise InputError("ProductGroup needs at least one group, for example ProductGroup(4, 6).")
        self.factors = [f if isinstance(f, FiniteGroup) else CyclicGroup(f) for f in factors]
        table: IntArray = np.zeros((1, 1), dtype=np.int64)
        for factor in self.factors:
            joined = table[:, None, :, None] * factor.order + factor.table[None, :, None, :]
            table = joined.reshape(len(table) * factor.order, -1)
        super().__init__(table)

    def _find_irreps(self) -> list[Irrep]:
        irreps: list[Irrep] = [np.ones((1, 1, 1), dtype=np.complex128)]
        for factor in self.factors:
            products = [np.einsum("gij,hkl->ghikjl", first, second) for first in irreps for second in factor.irreps]
            irreps = [each.reshape(len(each) * factor.order, math.prod(each.shape[2:4]), -1) for each in products]
        return irreps


class DihedralGroup(FiniteGroup):
    """D_n: the 2 n rotations and reflections of a regular n-gon. Element ``a + n b`` is ``r^a s^b``.

    Irreps: the trivial one, the determinant ``(-1)^b``, for even n also ``(-1)^a`` and ``(-1)^(a + b)``; then
    the two-dimensional ones k = 1, 2, ..., in which r rotates by ``2 pi k / n`` and s is ``diag(1, -1)``.
    """

    def __init__(self, n: int) -> None:
        self.n = check_integer("n", n, minimum=1)
        self._turn, self._mirror = np.tile(np.arange(self.n), 2), np.repeat([0, 1], self.n)
        turn = (self._turn[:, None] + (-1) ** self._mirror[:, None] * self._turn) % self.n
        mirror = (self._mirror[:, None] + self._mirror) % 2
        super().__init__(turn + self.n * mirror)

    def _find_irreps(self) -> list[Irrep]:
        signs: list[NDArray[Any]] = [np.ones(self.order), (-1.0) ** self._mirror]
        if self.n % 2 == 0:
            signs += [(-1.0) ** self._turn, (-1.0) ** (self._turn + self._mirror)]
        irreps = [sign.astype(np.complex128)[:, None, None] for sign in signs]
        for k in range(1, (self.n + 1) // 2):
            angle, flip = 2 * np.pi * (k * self._turn % self.n) / self.n, (-1.0) ** self._mirror
            cosine, sine = np.cos(angle), np.sin(angle)
            matrices = np.array([[cosine, -sine * flip], [sine, cosine * flip]])
            irreps.append(matrices.transpose(2, 0, 1).astype(np.complex128))
        return irreps


class OctahedralGroup(FiniteGroup):
    """O: the 24 rotations of the cube. ``matrices`` (24, 3, 3) are the rotations themselves."""

    def __init__(self) -> None:
        from scipy.spatial.transform import Rotation

        self.matrices: IntArray = np.rint(Rotation.create_group("O").as_matrix()).astype(np.int64)
        codes = {m.tobytes(): index for index, m in enumerate(self.matrices)}
        products = self.matrices[:, None] @ self.matrices
        super().__init__(np.array([[codes[m.tobytes()] for m in row] for row in products]))


class SymmetricGroup(FiniteGroup):
    """S_n: all ``permutations`` (n!, n), in lexicographic order; ``(p * q)(x) = p(q(x))``; n at most 6."""

    def __init__(self, n: int) -> None:
        self.n = check_integer("n", n, minimum=1)
        if self.n > _LARGEST_SYMMETRIC:
            size = f"{math.factorial(self.n):,} elements, too many to compute its irreps"
            raise InputError(f"SymmetricGroup({n}) has {size}; n may be at most {_LARGEST_SYMMETRIC}.")
        self.permutations: IntArray = np.array(list(permutations(range(self.n))), dtype=np.int64)
        composed = self.permutations[:, self.permutations]  # [p, q, x] -> p(q(x))
        radix = self.n ** np.arange(self.n)[::-1]  # lexicographic order is the order of these codes
        super().__init__(np.searchsorted(self.permutations @ radix, composed @ radix))
