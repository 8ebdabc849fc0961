"""A finite group: product table, irreps, Clebsch-Gordan matrices, Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.engines import one_blas_thread
from bispectral_ot.errors import InputError
from bispectral_ot.groups.irreps import Irrep, clebsch_gordan_matrix, decompose
from bispectral_ot.groups.table import IntArray, check_table, conjugacy_classes, find_identity, inverses

Signal = NDArray[Any]  # real or complex


class FiniteGroup:
    """Finite group, given by its Cayley table; make one with :meth:`from_table` or take a named subclass.

    Irreps and Clebsch-Gordan matrices are computed when first asked for.

    Attributes
    ----------
    table : ndarray of shape (order, order)
        ``table[a, b]`` is the index of ``a * b``.
    order : int
        Number of elements.
    identity : int
        Index of the identity.
    inverse : ndarray of shape (order,)
        Index of the inverse of each element.
    elements : tuple of str
        A name for each element.

    Examples
    --------
    >>> from bispectral_ot.groups.finite import FiniteGroup
    >>> group = FiniteGroup.from_table([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    >>> group.is_commutative, group.inverse.tolist(), group.dimensions.tolist()
    (True, [0, 2, 1], [1, 1, 1])
    >>> group.translate([5, 6, 7], 1)
    array([7, 5, 6])
    """

    def __init__(self, table: IntArray, *, elements: Sequence[str] | None = None) -> None:
        self.table = table
        self.order = len(table)
        self.identity = find_identity(table)
        self.inverse = inverses(table, self.identity)
        self.elements = tuple(map(str, range(self.order))) if elements is None else tuple(elements)
        if len(self.elements) != self.order:
            raise InputError(f"{len(self.elements)} element names for a group of order {self.order}; give one each.")

    @classmethod
    def from_table(cls, table: Any, *, elements: Sequence[str] | None = None) -> FiniteGroup:
        """Make a group from a Cayley table; :class:`~bispectral_ot.errors.InputError` where it is none.

        Parameters
        ----------
        table : array_like of shape (order, order)
            ``table[a, b]`` is the index of ``a * b``.
        elements : sequence of str, optional
            Names of the elements.
        """
        return FiniteGroup(check_table(table), elements=elements)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(order={self.order})"

    def __len__(self) -> int:
        return self.order

    def __deepcopy__(self, memo: Any) -> Self:
        """Groups never change, so estimators that are cloned may share them."""
        return self

    @property
    def is_commutative(self) -> bool:
        """Whether ``a * b == b * a`` for all elements."""
        return bool(np.array_equal(self.table, self.table.T))

    @cached_property
    def conjugacy_classes(self) -> list[IntArray]:
        """The classes ``{x * g * x^-1}`` as arrays of elements."""
        return conjugacy_classes(self.table, self.inverse)

    @cached_property
    def irreps(self) -> list[Irrep]:
        """Unitary irreps, one per conjugacy class, each (order, d, d) complex; the trivial one first."""
        return self._find_irreps()

    def _find_irreps(self) -> list[Irrep]:
        with one_blas_thread():  # many small products: more threads only wait
            return decompose(self.table, self.inverse)

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
        overlap = (self.characters @ self.characters.T).real
        partner: IntArray = np.argmax(overlap, axis=1)
        return partner

    def multiplicities(self, r: int, s: int | slice) -> IntArray:
        """How often each irrep occurs in ``r (x) s``: shape (n_irreps,), or one row per s for a slice."""
        self._check_irreps(r, *(() if isinstance(s, slice) else (s,)))
        product = self.characters[r] * self.characters[s]
        counts: IntArray = np.rint((product @ self.characters.conj().T).real / self.order).astype(np.int64)
        return counts

    def clebsch_gordan(self, r: int, s: int) -> tuple[NDArray[np.complex128], list[int]]:
        """Return the unitary C and irreps t with ``r(g) (x) s(g) = C [(+)_t t(g)] C^H`` for every g.

        Returns
        -------
        matrix : ndarray of shape (d_r * d_s, d_r * d_s), complex
        parts : list of int
            The irreps of the blocks of columns in order; an irrep of multiplicity m is there m times.
        """
        counts = self.multiplicities(r, s)
        parts = [int(t) for t in np.repeat(np.arange(len(counts)), counts)]
        if self.dimensions[r] * self.dimensions[s] == 1:
            return np.ones((1, 1), dtype=np.complex128), parts
        found: dict[tuple[int, int], NDArray[np.complex128]] = self.__dict__.setdefault("_clebsch_gordan", {})
        if (r, s) not in found:
            irreps = [(self.irreps[t], int(counts[t])) for t in np.flatnonzero(counts)]
            found[r, s] = clebsch_gordan_matrix(self.irreps[r], self.irreps[s], irreps)
        return found[r, s], parts

    @cached_property
    def fourier_matrix(self) -> NDArray[np.complex128]:
        """All ``rho(g)``, flattened side by side: ``signal @ fourier_matrix`` is a signal's transform."""
        return np.concatenate([irrep.reshape(self.order, -1) for irrep in self.irreps], axis=1)

    def split_coefficients(self, flat: NDArray[np.complex128]) -> list[NDArray[np.complex128]]:
        """Cut ``(..., order)`` Fourier coefficients into one ``(..., d, d)`` array per irrep."""
        ends = np.cumsum(self.dimensions**2)[:-1]
        parts = np.split(flat, ends, axis=-1)
        return [part.reshape(*part.shape[:-1], d, d) for part, d in zip(parts, self.dimensions, strict=True)]

    def fourier(self, signal: Signal) -> list[NDArray[np.complex128]]:
        """Transform signals (..., order): ``F_rho = sum_g f(g) rho(g)``, one (..., d, d) array per irrep."""
        return self.split_coefficients(self._check_signal(signal) @ self.fourier_matrix)

    def inverse_fourier(self, coefficients: Sequence[NDArray[np.complex128]]) -> NDArray[np.complex128]:
        """Transform back: ``f(g) = 1/|G| sum_rho d_rho trace(F_rho rho(g)^H)``, (..., order) complex."""
        expected, sizes = [(d, d) for d in self.dimensions.tolist()], [np.shape(part)[-2:] for part in coefficients]
        if sizes != expected:
            raise InputError(f"coefficients must be one array per irrep whose shapes end with {expected}; got {sizes}.")
        weighted = [
            d / self.order * np.asarray(part).reshape(*np.shape(part)[:-2], -1)
            for part, d in zip(coefficients, self.dimensions, strict=True)
        ]
        return np.concatenate(weighted, axis=-1) @ self.fourier_matrix.conj().T

    def translate(self, signal: Signal, element: int) -> Signal:
        """Move signals (..., order) by an element t: ``f(g) -> f(t^-1 g)``, and ``F_rho -> rho(t) F_rho``.

        The value at ``g`` goes to ``t g``; on a cyclic group that is ``numpy.roll``.
        """
        element = check_integer("an element of this group", element, minimum=0, maximum=self.order - 1)
        return self._check_signal(signal)[..., self.table[self.inverse[element]]]

    def _check_irreps(self, *numbers: int) -> None:
        for number in numbers:
            check_integer("an irrep of this group", number, minimum=0, maximum=len(self.irreps) - 1)

    def _check_signal(self, signal: Signal) -> Signal:
        values = np.asarray(signal)
        if values.shape[-1:] != (self.order,):
            raise InputError(f"a signal on this group has {self.order} values; got shape {values.shape}.")
        return values
