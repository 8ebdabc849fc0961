"""Blocks ``(F_r (x) F_s) C_t F_t^H`` of the bispectrum of a finite group, and their distinct entries."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.groups.finite import FiniteGroup
from bispectral_ot.groups.irreps import IntArray

Numbers = NDArray[Any]  # float64, or complex128 where irreps are complex
_TOLERANCE = 1e-10  # of equal entries, relative to the largest entry of the probes


class Blocks(NamedTuple):
    """Blocks of one size: ``value[i, j, k] = sum_pqu tensor[p, q, u] F_r[i, p] F_s[j, q] conj(F_t[k, u])``.

    ``labels`` (n_blocks, 4) are r, s, t and the number of the copy of t in ``r (x) s``; ``tensor`` (n_blocks, d_r, d_s,
    d_t) the columns of the Clebsch-Gordan matrix divided by ``sqrt(d_t)``; ``counts`` the number of ordered pairs that
    each represents; ``first``, ``second``, ``third`` the positions of F_r, F_s, F_t in the flat Fourier coefficients.
    """

    labels: IntArray
    tensor: Numbers
    counts: IntArray
    first: IntArray
    second: IntArray
    third: IntArray

    def entries(self, coefficients: Numbers) -> Numbers:
        """Values (n, n_blocks * d_r * d_s * d_t) from Fourier coefficients (n, order)."""
        if not np.iscomplexobj(self.tensor):
            coefficients = np.ascontiguousarray(coefficients.real)
        n_blocks, d1, d2, d3 = self.tensor.shape
        shape = (len(coefficients), n_blocks, d1, d2, d3)
        adjoint = coefficients[:, self.third].conj().swapaxes(-1, -2)
        values = _apply(self.tensor.reshape(n_blocks, d1 * d2, d3), adjoint, d3)
        values = _apply(coefficients[:, self.second][:, :, None], values.reshape(shape), d2)
        values = _apply(coefficients[:, self.first], values.reshape(*shape[:3], d2 * d3), d1)
        return values.reshape(len(coefficients), -1)


def _apply(left: Numbers, right: Numbers, dimension: int) -> Numbers:
    """``left @ right`` over ``dimension``; products with 1 x 1 matrices are faster without matmul."""
    return left * right if dimension == 1 else left @ right


class BlockSet(NamedTuple):
    """All blocks of a bispectrum, grouped by size; entries are numbered consecutively."""

    groups: list[Blocks]

    @property
    def block_of(self) -> IntArray:
        """Number of the block of each entry."""
        sizes = [np.full(len(blocks.counts), blocks.tensor[0].size) for blocks in self.groups]
        return np.repeat(np.arange(sum(map(len, sizes))), np.concatenate(sizes))

    @property
    def labels(self) -> IntArray:
        """For each entry r, s, t, copy, i, j, k: shape (7, n_entries)."""
        outer = np.concatenate([blocks.labels for blocks in self.groups])[self.block_of].T
        inner = [
            np.tile(np.indices(blocks.tensor.shape[1:]).reshape(3, -1), len(blocks.counts)) for blocks in self.groups
        ]
        return np.concatenate([outer, np.concatenate(inner, axis=1)])

    @property
    def counts(self) -> IntArray:
        """Number of ordered pairs of irreps that have each entry."""
        return np.concatenate([blocks.counts for blocks in self.groups])[self.block_of]

    def entries(self, coefficients: Numbers) -> Numbers:
        """Values (n, n_entries) from Fourier coefficients (n, order)."""
        return np.concatenate([blocks.entries(coefficients) for blocks in self.groups], axis=1)

    def keep_blocks_of(self, entries: IntArray) -> tuple[BlockSet, IntArray]:
        """Blocks that hold some of the given entries, and the positions of these entries among theirs."""
        block_of = self.block_of
        kept = np.zeros(block_of[-1] + 1, dtype=bool)
        kept[block_of[entries]] = True
        ends = np.cumsum([len(blocks.counts) for blocks in self.groups])[:-1]
        groups = [
            Blocks(*(field[chosen] for field in blocks))
            for blocks, chosen in zip(self.groups, np.split(kept, ends), strict=True)
            if chosen.any()
        ]
        return BlockSet(groups), (np.cumsum(kept[block_of]) - 1)[entries]


def full_pairs(group: FiniteGroup) -> IntArray:
    """One pair of irreps per orbit under swapping and conjugation: rows (r, s, size of the orbit)."""
    n, bar = len(group.irreps), group.conjugate_irrep
    r, s = np.indices((n, n)).reshape(2, -1)
    codes = np.stack([r * n + s, s * n + r, bar[r] * n + bar[s], bar[s] * n + bar[r]])
    kept, counts = np.unique(codes.min(axis=0), return_counts=True)
    return np.stack([kept // n, kept % n, counts], axis=1)


def selective_pairs(group: FiniteGroup) -> IntArray:
    """Pairs (0, s) and (r, s) for all s and for r in :func:`separating_irreps`: rows (r, s, 1)."""
    chosen = [0, *separating_irreps(group)]
    pairs = {(r, s) for r in chosen for s in range(len(group.irreps)) if s >= r or s not in chosen}
    return np.array([(r, s, 1) for r, s in sorted(pairs, key=lambda pair: (chosen.index(pair[0]), pair[1]))])


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
    multiplicities = {r: group.multiplicities(r, slice(None)) for r in np.unique(pairs[:, 0]).tolist()}
    sizes: dict[tuple[int, ...], list[tuple[tuple[int, ...], Numbers, int]]] = defaultdict(list)
    for r, s, count in pairs.tolist():
        column, is_scalar = 0, dimensions[r] * dimensions[s] == 1
        matrix = np.ones((1, 1)) if is_scalar else group.clebsch_gordan(r, s)[0]
        for t in np.flatnonzero(multiplicities[r][s]).tolist():
            shape = tuple(dimensions[[r, s, t]].tolist())
            for copy in range(multiplicities[r][s, t]):
                tensor = matrix[:, column : column + shape[2]].reshape(shape) / np.sqrt(shape[2])
                sizes[shape].append(((r, s, t, copy), tensor, count))
                column += shape[2]
    is_real = not any(irrep.imag.any() for irrep in group.irreps)
    groups = []
    for shape, listed in sorted(sizes.items()):
        labels, tensors, counts = (np.array(field) for field in zip(*listed, strict=True))
        first, second, third = (
            starts[irrep][:, None, None] + np.arange(d * d).reshape(d, d)
            for irrep, d in zip(labels.T[:3], shape, strict=True)
        )
        tensors = np.ascontiguousarray(tensors.real) if is_real else tensors.astype(np.complex128)
        groups.append(Blocks(labels, tensors, counts, first, second, third))
    return BlockSet(groups)


class Columns(NamedTuple):
    """Distinct real columns of a set of complex entries.

    Column c is the real (``part`` 0) or imaginary (1) part of entry ``entry[c]`` times ``scale[c]``, and represents
    ``counts[c]`` unfolded numbers.
    """

    entry: IntArray
    part: IntArray
    counts: IntArray
    scale: NDArray[np.float64]


def find_columns(probes: Numbers, counts: IntArray, factors: NDArray[np.float64]) -> Columns:
    """Distinct columns, from the values ``probes`` (n_probes, n_entries) of the entries for a few random signals.

    Entries are polynomials of the signal: two that agree on random signals agree on all of them. ``counts`` has the
    number of unfolded entries that each represents, ``factors`` their squared factor in the unfolded array.
    """
    n_entries = len(counts)
    parts = np.concatenate([probes.real, probes.imag], axis=1)
    tolerance = _TOLERANCE * np.abs(parts).max(initial=0)
    sign = np.sign(parts[0]) * (np.abs(parts).max(axis=0) > tolerance)
    nonzero = np.flatnonzero(sign)
    positive = parts[:, nonzero] * sign[nonzero]
    order = np.argsort(positive[0], kind="stable")
    is_new = np.abs(np.diff(positive[:, order], axis=1, prepend=-np.inf)).max(axis=0) > tolerance
    label = np.empty(len(nonzero), dtype=np.int64)
    label[order] = np.cumsum(is_new) - 1

    # number the columns in the order of their first entry
    _, first, label = np.unique(label, return_index=True, return_inverse=True)
    column = np.argsort(np.argsort(first))[label]
    shown = nonzero[np.sort(first)]
    total = np.bincount(column, np.tile(counts, 2)[nonzero])
    squares = np.bincount(column, np.tile(counts * factors, 2)[nonzero])
    part, entry = np.divmod(shown, n_entries)
    return Columns(entry, part, np.rint(total).astype(np.int64), np.sqrt(squares / total))
