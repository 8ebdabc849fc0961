"""A finite group: product table, irreps, Clebsch-Gordan matrices, Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.engines import one_blas_thread
from bispectral_ot.errors import InputError
from bispectral_ot.groups.array_store import content_key, load_arrays, save_arrays
from bispectral_ot.groups.clebsch_gordan import clebsch_gordan_matrix
from bispectral_ot.groups.irreps import TOLERANCE, Irrep, decompose, defect
from bispectral_ot.groups.table import IntArray, check_table, conjugacy_classes, find_identity, inverses

Signal = NDArray[Any]  # real or complex
SIDES = ("left", "right")  # from which a group moves signals on itself


class FiniteGroup:
    """Any finite group, given by its Cayley table; make one with :meth:`from_table` or take a named subclass.

    Irreps and Clebsch-Gordan matrices are computed when first asked for and kept on disk, in the user's cache
    folder or in ``$BISPECTRAL_OT_CACHE``.

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
    >>> from bispectral_ot.groups import FiniteGroup
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
        key = content_key("irreps-1", self.table)
        stored = load_arrays(key)
        if stored is not None:
            irreps = [array for _, array in sorted(stored.items())]
            if all(array.ndim == 3 and len(array) == self.order for array in irreps) and (
                defect(irreps, self.table) < TOLERANCE
            ):
                return irreps
        with one_blas_thread():  # many small products: more threads only wait
            irreps = decompose(self.table, self.inverse)
        save_arrays(key, {f"{number:06d}": irrep for number, irrep in enumerate(irreps)})
        return irreps

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
        return self._clebsch_gordan_row(r)[s], parts

    def _clebsch_gordan_row(self, r: int) -> list[NDArray[np.complex128]]:
        """The matrices of r with every irrep: one file a row in the cache."""
        rows: dict[int, list[NDArray[np.complex128]]] = self.__dict__.setdefault("_rows", {})
        if r not in rows:
            key = f"{self._irreps_key}-{r}"
            sizes = self.dimensions[r] * self.dimensions
            stored = load_arrays(key)
            if stored is not None and [stored[name].shape for name in sorted(stored)] == [(n, n) for n in sizes]:
                rows[r] = [stored[name] for name in sorted(stored)]
            else:
                with one_blas_thread():
                    rows[r] = [self._compute_clebsch_gordan(r, s) for s in range(len(self.irreps))]
                save_arrays(key, {f"{s:06d}": matrix for s, matrix in enumerate(rows[r])})
        return rows[r]

    def _compute_clebsch_gordan(self, r: int, s: int) -> NDArray[np.complex128]:
        counts = self.multiplicities(r, s)
        parts = [(self.irreps[t], int(counts[t])) for t in np.flatnonzero(counts)]
        return clebsch_gordan_matrix(self.irreps[r], self.irreps[s], parts)

    @cached_property
    def _irreps_key(self) -> str:
        """Clebsch-Gordan matrices depend on the basis of each irrep, so they are kept under its content."""
        return content_key("clebsch-gordan-1", *self.irreps)

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

    def translate(self, signal: Signal, element: int, *, side: str = "left") -> Signal:
        """Move signals (..., order) by an element t, from the left or from the right.

        - ``"left"``: ``f(g) -> f(t^-1 g)``, the value at ``g`` goes to ``t g``, and ``F_rho -> rho(t) F_rho``;
        - ``"right"``: ``f(g) -> f(g t^-1)``, the value at ``g`` goes to ``g t``, and ``F_rho -> F_rho rho(t)``.

        On a commutative group both are the same, on a cyclic one ``numpy.roll``.
        """
        back = self.inverse[self._check_element(element)]
        is_left = check_choice("side", side, SIDES) == "left"
        return self._check_signal(signal)[..., self.table[back] if is_left else self.table[:, back]]

    def action_on_cosets(self, subgroup: Sequence[int]) -> IntArray:
        """How the group moves the cosets ``x * H`` of a subgroup H: shape ``(order, order / |H|)``.

        ``action[g, i]`` is the index of ``g * coset_i``; coset 0 is H itself. Use it as the ``space`` of
        :class:`~bispectral_ot.invariants.group.GroupBispectrum`.
        """
        members = np.unique([self.identity, *(self._check_element(element) for element in subgroup)])
        if not np.isin(self.table[np.ix_(members, members)], members).all():
            raise InputError(f"elements {members.tolist()} are no subgroup: their products lead out of the set.")
        smallest = self.table[:, members].min(axis=1)  # names the coset of each element
        smallest[members] = -1  # H itself comes first
        _, coset_of = np.unique(smallest, return_inverse=True)
        representatives = np.unique(coset_of, return_index=True)[1]
        return coset_of[self.table[:, representatives]]

    def _check_element(self, element: int) -> int:
        return check_integer("an element of this group", element, minimum=0, maximum=self.order - 1)

    def _check_irreps(self, *numbers: int) -> None:
        for number in numbers:
            check_integer("an irrep of this group", number, minimum=0, maximum=len(self.irreps) - 1)

    def _check_signal(self, signal: Signal) -> Signal:
        values = np.asarray(signal)
        if values.shape[-1:] != (self.order,):
            raise InputError(f"a signal on this group has {self.order} values; got shape {values.shape}.")
        return values
