"""Blocks of the bispectrum, the products ``(F_r (x) F_s) C_t F_t^H``, and their distinct entries."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.groups.finite import FiniteGroup
from bispectral_ot.groups.table import IntArray

Numbers = NDArray[Any]  # float64, or complex128 where irreps are complex
TOLERANCE = 1e-10  # of equal entries, relative to the largest entry of the probes


@dataclass(frozen=True)
class BlockFamily:
    """Blocks of one size: ``value[i, j, k] = sum_pqu tensor[p, q, u] F_r[i, p] F_s[j, q] conj(F_t[k, u])``.

    Attributes
    ----------
    labels : ndarray of shape (4, n_blocks)
        r, s, t and the number of the copy of t in ``r (x) s``.
    tensor : ndarray of shape (n_blocks, d_r, d_s, d_t)
        Columns of the Clebsch-Gordan matrix divided by ``sqrt(d_t)``, so that each has unit norm. Real where
        all irreps of the group are.
    counts : ndarray of shape (n_blocks,)
        How many ordered pairs of irreps the block stands for.
    places : three ndarrays of shape (n_blocks, d, d)
        Where the entries of F_r, F_s and F_t are in the flat row of Fourier coefficients.
    """

    labels: IntArray
    tensor: Numbers
    counts: IntArray
    places: tuple[IntArray, IntArray, IntArray]

    def select(self, chosen: NDArray[np.bool_]) -> BlockFamily:
        """Keep some of the blocks."""
        first, second, third = (place[chosen] for place in self.places)
        return BlockFamily(self.labels[:, chosen], self.tensor[chosen], self.counts[chosen], (first, second, third))

    def entries(self, coefficients: Numbers) -> Numbers:
        """Values of all blocks, (n, n_blocks * d_r * d_s * d_t), from Fourier coefficients (n, order)."""
        first, second, third = (coefficients[:, place] for place in self.places)
        n_blocks, d1, d2, d3 = self.tensor.shape
        shape = (len(coefficients), n_blocks, d1, d2, d3)
        values = _apply(self.tensor.reshape(n_blocks, d1 * d2, d3), third.conj().swapaxes(-1, -2), d3)
        values = _apply(second[:, :, None], values.reshape(shape), d2)
        values = _apply(first, values.reshape(*shape[:3], d2 * d3), d1)
        return values.reshape(len(coefficients), -1)


@dataclass(frozen=True)
class BlockSet:
    """All blocks of a bispectrum, as families of equal size; their entries are numbered through."""

    families: tuple[BlockFamily, ...]

    @cached_property
    def labels(self) -> IntArray:
        """For each entry r, s, t, copy, i, j, k: shape (7, n_entries)."""
        parts = []
        for family in self.families:
            inner = np.indices(family.tensor.shape[1:]).reshape(3, -1)
            repeated = np.repeat(family.labels, inner.shape[1], axis=1)
            parts.append(np.concatenate([repeated, np.tile(inner, family.labels.shape[1])]))
        return np.concatenate(parts, axis=1)

    @cached_property
    def counts(self) -> IntArray:
        """For each entry, how many ordered pairs of irreps have it."""
        return np.concatenate([np.repeat(f.counts, np.prod(f.tensor.shape[1:])) for f in self.families])

    def entries(self, coefficients: Numbers) -> Numbers:
        """Values (n, n_entries) from flat Fourier coefficients (n, order)."""
        if not self.is_complex:
            coefficients = np.ascontiguousarray(coefficients.real)
        return np.concatenate([family.entries(coefficients) for family in self.families], axis=1)

    @property
    def is_complex(self) -> bool:
        """Whether entries can have imaginary parts."""
        return any(np.iscomplexobj(family.tensor) for family in self.families)

    def keep_blocks_of(self, entries: IntArray) -> tuple[BlockSet, IntArray]:
        """Only the blocks that hold some of the given entries, and the entries' numbers among theirs."""
        families, positions, start = [], np.full(len(self.counts), -1), 0
        wanted = np.zeros(len(self.counts), dtype=bool)
        wanted[entries] = True
        n_kept = 0
        for family in self.families:
            size = int(np.prod(family.tensor.shape[1:]))
            stop = start + size * len(family.counts)
            chosen: NDArray[np.bool_] = np.any(wanted[start:stop].reshape(-1, size), axis=1)
            inside = np.flatnonzero(np.repeat(chosen, size)) + start
            positions[inside] = n_kept + np.arange(len(inside))
            n_kept += len(inside)
            start = stop
            if chosen.any():
                families.append(family.select(chosen))
        return BlockSet(tuple(families)), positions[entries]


def full_pairs(group: FiniteGroup) -> IntArray:
    """One pair of irreps per orbit under swapping and conjugation: rows r, s, size of the orbit."""
    n, bar = len(group.irreps), group.conjugate_irrep
    r, s = np.indices((n, n)).reshape(2, -1)
    codes = np.stack([r * n + s, s * n + r, bar[r] * n + bar[s], bar[s] * n + bar[r]])
    kept, counts = np.unique(codes.min(axis=0), return_counts=True)
    return np.stack([kept // n, kept % n, counts])


def selective_pairs(group: FiniteGroup) -> IntArray:
    """Pairs (0, s) and (r, s) for all s and for r in :func:`separating_irreps`: rows r, s, 1."""
    pairs: list[tuple[int, int]] = []
    for r in (0, *separating_irreps(group)):
        pairs += [(r, s) for s in range(len(group.irreps)) if (s, r) not in pairs or s == r]
    unique = dict.fromkeys(pairs)
    return np.array([(r, s, 1) for r, s in unique]).T


def separating_irreps(group: FiniteGroup) -> list[int]:
    """Few irreps that together distinguish all elements: one, where there is a faithful irrep."""
    kernels = np.abs(group.characters - group.dimensions[:, None]) < 1e-6
    common = np.ones(group.order, dtype=bool)
    chosen: list[int] = []
    while common.sum() > 1:
        left = (kernels & common).sum(axis=1)
        chosen.append(int(np.lexsort((group.dimensions, left))[0]))
        common &= kernels[chosen[-1]]
    return chosen


def make_blocks(group: FiniteGroup, pairs: IntArray) -> BlockSet:
    """Blocks of the given pairs of irreps (rows r, s, count)."""
    dimensions = group.dimensions
    starts = np.concatenate([[0], np.cumsum(dimensions**2)])
    sizes: dict[tuple[int, int, int], list[tuple[IntArray, Numbers, int]]] = defaultdict(list)
    counts = {int(r): group.multiplicities(int(r), slice(None)) for r in np.unique(pairs[0])}
    for r, s, count in pairs.T:
        column, is_scalar = 0, dimensions[r] * dimensions[s] == 1
        matrix = np.ones((1, 1)) if is_scalar else group.clebsch_gordan(int(r), int(s))[0]
        for t in np.flatnonzero(counts[int(r)][s]):
            for copy in range(counts[int(r)][s, t]):
                shape = (int(dimensions[r]), int(dimensions[s]), int(dimensions[t]))
                tensor = matrix[:, column : column + shape[2]].reshape(shape) / np.sqrt(shape[2])
                sizes[shape].append((np.array([r, s, t, copy]), tensor, int(count)))
                column += shape[2]

    is_real = not any(irrep.imag.any() for irrep in group.irreps)
    families = []
    for _, blocks in sorted(sizes.items()):
        labels = np.stack([label for label, _, _ in blocks], axis=1)
        tensor = np.stack([tensor for _, tensor, _ in blocks]).astype(np.complex128)
        first, second, third = (
            starts[irrep][:, None, None] + np.arange(d * d).reshape(d, d)
            for irrep, d in zip(labels[:3], tensor.shape[1:], strict=True)
        )
        families.append(
            BlockFamily(
                labels,
                np.ascontiguousarray(tensor.real) if is_real else tensor,
                np.array([count for _, _, count in blocks]),
                (first, second, third),
            )
        )
    return BlockSet(tuple(families))


def _apply(left: Numbers, right: Numbers, dimension: int) -> Numbers:
    """``left @ right`` over ``dimension``; products with 1 x 1 matrices are faster without matmul."""
    return left * right if dimension == 1 else left @ right


@dataclass(frozen=True)
class Columns:
    """Distinct real columns of a set of complex entries.

    Attributes
    ----------
    entry, part : ndarray of shape (n_columns,)
        The entry that a column shows, and whether its real (0) or imaginary (1) part.
    counts : ndarray of shape (n_columns,)
        How many unfolded numbers the column stands for.
    scale : ndarray of shape (n_columns,)
        Factor of the column: root mean square of the factors of the entries that it stands for.
    source, sign : ndarray of shape (2, n_entries)
        Where the real and imaginary part of each entry is found, and its sign there; 0 for a part that is
        always 0.
    """

    entry: NDArray[np.int64]
    part: NDArray[np.int64]
    counts: NDArray[np.int64]
    scale: NDArray[np.float64]
    source: NDArray[np.int64]
    sign: NDArray[np.float64]

    def unfold(self, features: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Features (n, n_columns) back to all entries (n, n_entries)."""
        values = features / self.scale
        entries = np.empty((len(values), self.source.shape[1]), dtype=np.complex128)
        entries.real = values[:, self.source[0]] * self.sign[0]
        entries.imag = values[:, self.source[1]] * self.sign[1]
        return entries


def find_columns(
    probes: NDArray[np.complex128] | NDArray[np.float64],
    counts: NDArray[np.int64],
    factors: NDArray[np.float64],
) -> Columns:
    """Find the distinct columns from the entries' values for a few random signals.

    Entries are polynomials of the signal: two that agree on random signals agree on all of them.

    Parameters
    ----------
    probes : ndarray of shape (n_probes, n_entries)
        Values of all entries.
    counts : ndarray of shape (n_entries,)
        How many unfolded entries each stands for already.
    factors : ndarray of shape (n_entries,)
        Squared factor of each entry in the unfolded array.
    """
    n_entries = len(counts)
    parts = np.concatenate([probes.real, probes.imag], axis=1)
    tolerance = TOLERANCE * np.abs(parts).max(initial=0)
    sign = np.sign(parts[0]) * (np.abs(parts).max(axis=0) > tolerance)
    nonzero = np.flatnonzero(sign)
    upright = parts[:, nonzero] * sign[nonzero]
    order = np.argsort(upright[0], kind="stable")
    is_new = np.abs(np.diff(upright[:, order], axis=1, prepend=-np.inf)).max(axis=0) > tolerance
    label = np.empty(len(nonzero), dtype=np.int64)
    label[order] = np.cumsum(is_new) - 1

    # number the columns in the order of their first entry
    _, first, label = np.unique(label, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    column = rank[label]
    shown = nonzero[np.sort(first)]
    total = np.bincount(column, np.tile(counts, 2)[nonzero])
    squares = np.bincount(column, np.tile(counts * factors, 2)[nonzero])

    source = np.zeros(2 * n_entries, dtype=np.int64)
    source[nonzero] = column
    sign[nonzero] *= sign[shown][column]
    return Columns(
        entry=shown % n_entries,
        part=shown // n_entries,
        counts=np.rint(total).astype(np.int64),
        scale=np.sqrt(squares / total),
        source=source.reshape(2, -1),
        sign=sign.reshape(2, -1),
    )
