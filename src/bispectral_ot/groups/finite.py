"""Finite groups: Cayley table, irreducible representations, Clebsch-Gordan matrices, and groups by name.

A random real symmetric matrix that commutes with the regular representation has the real irreducible subspaces as its
eigenspaces. A real irrep is of real, complex or quaternionic type (its character has squared norm 1, 2 or 4); in the
last two cases a random antisymmetric matrix that commutes with it splits it into two halves over the complex numbers.
"""

import math
from functools import cached_property
from itertools import permutations
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.engines import one_blas_thread
from bispectral_ot.errors import InputError

IntArray = NDArray[np.int64]
Irrep = NDArray[np.complex128]

_TOLERANCE = 1e-11  # largest homomorphism defect that is accepted
_LARGEST_SYMMETRIC = 6  # 6! = 720; 7! = 5040 would need minutes and gigabytes for its irreps


def _defect(irreps: list[Irrep], table: IntArray) -> float:
    """Largest error of unitarity and of ``rho(a) rho(b) = rho(a * b)`` for some b; infinite if irreps are missing."""
    order = len(table)
    if sum(irrep.shape[1] ** 2 for irrep in irreps) != order:
        return np.inf
    some, worst = np.random.default_rng(0).integers(order, size=8), 0.0
    for irrep in irreps:
        products, unit = irrep[:, None] @ irrep[some], irrep @ irrep.conj().transpose(0, 2, 1) - np.eye(irrep.shape[1])
        worst = max(worst, float(np.abs(products - irrep[table[:, some]]).max()), float(np.abs(unit).max()))
    return worst


def _decompose(group: "FiniteGroup", rng: np.random.Generator) -> list[Irrep] | None:
    """All irreps of a group in any order, or None if two eigenspaces could not be separated.

    Irreps of real type have imaginary parts of exactly 0; those of complex type are pairs of exact conjugates.
    """
    table, inverse, order = group.table, group.inverse, group.order
    weights = rng.standard_normal(order)
    commuting = (weights + weights[inverse])[table[inverse]]  # entry (x, y) depends on x^-1 y only
    values, vectors = scipy.linalg.eigh(commuting)
    steps = np.diff(values) > 1e-9 * np.abs(values).max()
    spaces = np.split(vectors, np.flatnonzero(steps) + 1, axis=1)

    _, class_of, sizes = np.unique(group.conjugacy_class, return_inverse=True, return_counts=True)
    irreps: list[Irrep] = []
    seen: list[NDArray[np.float64]] = []
    for space in spaces:
        # the projector on an invariant subspace is a function of x^-1 y; its class means are the character
        projector = space @ space[group.identity]
        character = order * (np.bincount(class_of, projector) / sizes)[class_of]
        kind = round(float(character @ character) / order)
        if kind not in (1, 2, 4) or abs(character @ character / order - kind) > 1e-6:
            return None
        if any(abs(character @ other) > 0.5 * order for other in seen):
            continue
        seen.append(character)
        real = np.einsum("xi,gxj->gij", space, space[table[inverse]], optimize=True)
        irreps += [real.astype(np.complex128)] if kind == 1 else _split(real, conjugates=kind == 2, rng=rng)
    return irreps


def _split(real: NDArray[np.float64], *, conjugates: bool, rng: np.random.Generator) -> list[Irrep]:
    """Complex halves of a real irrep: two conjugate ones, or one that occurs twice."""
    dimension = real.shape[1]
    noise = rng.standard_normal((dimension, dimension))
    antisymmetric = np.mean(real @ (noise - noise.T) @ real.transpose(0, 2, 1), axis=0)
    _, vectors = np.linalg.eigh(1j * antisymmetric)
    half = vectors[:, dimension // 2 :]
    irrep = half.conj().T @ real @ half
    return [irrep, irrep.conj()] if conjugates else [irrep]


class FiniteGroup:
    """Finite group, given by its Cayley table; use :meth:`from_table` or a named subclass.

    Irreducible representations (irreps) are computed on first use.

    Attributes
    ----------
    table : (order, order) index ``table[a, b]`` of ``a * b``
    order : number of elements
    identity : index of the identity
    inverse : (order,) index of the inverse of each element

    Examples
    --------
    >>> from bispectral_ot.groups.finite import FiniteGroup
    >>> group = FiniteGroup.from_table([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    >>> group.inverse.tolist(), group.dimensions.tolist()
    ([0, 2, 1], [1, 1, 1])
    >>> group.translate([5, 6, 7], 1)
    array([7, 5, 6])
    """

    def __init__(self, table: IntArray) -> None:
        self.table = table
        self.order = len(table)
        # element e with e * a == a == a * e for every a, and the inverse of each element
        elements = np.arange(self.order)
        is_identity = (table == elements).all(axis=1) & (elements == table.T).all(axis=1)
        if not is_identity.any():
            raise InputError("there is no identity: no element e has e * a = a = a * e for every a.")
        self.identity = e = int(np.argmax(is_identity))
        is_inverse = (table == e) & (e == table.T)
        without = np.flatnonzero(~is_inverse.any(axis=1))
        if len(without):
            a = without[0]
            raise InputError(f"element {a} has no inverse: no b has {a} * b = b * {a} = {e}, the identity.")
        self.inverse: IntArray = np.argmax(is_inverse, axis=1)

    @classmethod
    def from_table(cls, table: ArrayLike) -> "FiniteGroup":
        """Group with the Cayley table ``table[a, b]`` (index of ``a * b``); an InputError names a violated axiom."""
        try:
            array = np.asarray(table)
        except ValueError:  # rows of different lengths
            array = np.zeros(0)
        if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0 or array.dtype.kind not in "iu":
            found = f"{array.dtype} of shape {array.shape}"
            raise InputError(f"a Cayley table is a square matrix of element numbers; got {found}.")
        for a, b in np.argwhere((array < 0) | (array >= len(array))):
            wrong = f"table[{a}, {b}] = {array[a, b]} is not an element"
            raise InputError(f"closure fails: {wrong}; entries must be 0 to {len(array) - 1}.")
        table = np.ascontiguousarray(array, dtype=np.int64)
        group = FiniteGroup(table)
        for b in range(len(table)):
            left, right = table[table[:, b]], table[:, table[b]]
            if not np.array_equal(left, right):
                a, c = np.argwhere(left != right)[0]
                sides = f"(a * b) * c = {left[a, c]}, but a * (b * c) = {right[a, c]}"
                raise InputError(f"associativity fails at a, b, c = {a}, {b}, {c}: {sides}.")
        return group

    def __repr__(self) -> str:
        return f"{type(self).__name__}(order={self.order})"

    def __deepcopy__(self, memo: Any) -> Self:
        """Groups are immutable, so cloned estimators share them."""
        return self

    @cached_property
    def conjugacy_class(self) -> IntArray:
        """First element of the conjugacy class ``{x * g * x^-1}`` of each element g."""
        return self.table[self.table, self.inverse[:, None]].min(axis=0)

    @cached_property
    def irreps(self) -> list[Irrep]:
        """Unitary irreps, one per conjugacy class, each (order, d, d) complex; the trivial one first."""
        return self._find_irreps()

    def _find_irreps(self) -> list[Irrep]:
        def rank(irrep: Irrep) -> tuple[object, ...]:
            character = np.round(np.trace(irrep, axis1=1, axis2=2), 6)
            return irrep.shape[1], tuple(-character.real), tuple(-character.imag)

        with one_blas_thread():  # many small products
            for attempt in range(40):  # eigenvalues of different eigenspaces may fall close together
                irreps = _decompose(self, np.random.default_rng(attempt))
                if irreps is not None and _defect(irreps, self.table) < _TOLERANCE:
                    return sorted(irreps, key=rank)
        raise ArithmeticError(f"no decomposition of this group of order {self.order} reaches {_TOLERANCE}.")

    @cached_property
    def dimensions(self) -> IntArray:
        """Dimension of each irrep; their squares sum to the order."""
        return np.array([irrep.shape[1] for irrep in self.irreps], dtype=np.int64)

    @cached_property
    def characters(self) -> NDArray[np.complex128]:
        """Traces of the irreps, shape (n_irreps, order)."""
        return np.array([np.trace(irrep, axis1=1, axis2=2) for irrep in self.irreps])

    @cached_property
    def conjugate_irrep(self) -> IntArray:
        """Index of the irrep with the conjugate character, for each irrep."""
        return np.argmax((self.characters @ self.characters.T).real, axis=1)

    def multiplicities(self, r: int, s: int | slice) -> IntArray:
        """Multiplicity of each irrep in ``r (x) s``: shape (n_irreps,), or one row per s for a slice."""
        for number in (r,) if isinstance(s, slice) else (r, s):
            check_integer("an irrep of this group", number, minimum=0, maximum=len(self.irreps) - 1)
        product = self.characters[r] * self.characters[s]
        return np.rint((product @ self.characters.conj().T).real / self.order).astype(np.int64)

    def clebsch_gordan(self, r: int, s: int) -> tuple[NDArray[np.complex128], list[int]]:
        """Unitary C and irreps t with ``r(g) (x) s(g) = C [(+)_t t(g)] C^H`` for every g, in the order of columns.

        C is real if all irreps are, and the phase of each block of columns makes its largest entry positive.
        """
        counts, first, second = self.multiplicities(r, s), self.irreps[r], self.irreps[s]
        order, d1, d2, blocks = self.order, first.shape[1], second.shape[1], []
        for t in np.flatnonzero(counts):
            part, dimension = self.irreps[t], self.irreps[t].shape[1]
            # projector onto the vectors that transform like the first basis vector of `part`
            weighted = (part[:, 0, 0].conj() * dimension / order)[:, None] * first.reshape(order, -1)
            projector = (weighted.T @ second.reshape(order, -1)).reshape(d1, d1, d2, d2)
            projector = projector.transpose(0, 2, 1, 3).reshape(d1 * d2, d1 * d2)
            basis = scipy.linalg.qr(projector, mode="economic", pivoting=True)[0][:, : counts[t]]
            for start in basis.T.reshape(-1, d1, d2):
                # carry the first basis vector to the others with the group itself
                moved = first @ start @ second.transpose(0, 2, 1)
                block = (part[:, :, 0].conj().T * (dimension / order)) @ moved.reshape(order, -1)
                largest = block.flat[np.argmax(np.abs(block) > 0.999 * np.abs(block).max())]
                blocks.append(block.T * (np.abs(largest) / largest))
        matrix = np.ascontiguousarray(np.concatenate(blocks, axis=1))
        return matrix, np.repeat(np.arange(len(counts)), counts).tolist()

    @cached_property
    def fourier_matrix(self) -> NDArray[np.complex128]:
        """All ``rho(g)``, flattened side by side, so that ``signal @ fourier_matrix`` is the transform of a signal."""
        return np.concatenate([irrep.reshape(self.order, -1) for irrep in self.irreps], axis=1)

    def translate(self, signal: ArrayLike, element: int) -> NDArray[Any]:
        """Translate signals (..., order) by t: ``f(g) -> f(t^-1 g)``; on a cyclic group this is ``numpy.roll``."""
        element = check_integer("an element of this group", element, minimum=0, maximum=self.order - 1)
        values = np.asarray(signal)
        if values.shape[-1:] != (self.order,):
            raise InputError(f"a signal on this group has {self.order} values; got shape {values.shape}.")
        return values[..., self.table[self.inverse[element]]]


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
