"""Symmetry orbits of the index pairs of a bispectrum, for real signals on a commutative group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


@dataclass(frozen=True)
class TripleOrbits:
    """Index pairs (i, j) of ``B[i, j] = F_i F_j conj(F_{i+j})``, one per symmetry orbit.

    For a real signal ``B[i, j] = F_i F_j F_k`` with ``k = -(i + j)`` is invariant to permutations of the triple, and
    negating the triple conjugates it. An orbit equal to its own negation is real and has no imaginary column.
    Columns are the real parts of all orbits (the always-real ones first), then imaginary parts of the others.

    Attributes
    ----------
    i, j, k : (n_orbits,) triple that represents the orbit, as positions in the list of frequencies
    n_real : number of orbits, the first ones, that are always real
    multiplicity : (n_orbits,) number of index pairs of the orbit
    source, sign : (2, n_frequencies, n_frequencies) column of the real (0) and imaginary (1) part of each unfolded
        pair, and its sign there (0 where the part is always zero, or the pair was left out)
    """

    i: Index
    j: Index
    k: Index
    n_real: int
    multiplicity: Index
    source: Index
    sign: NDArray[np.float32]

    @property
    def n_columns(self) -> int:
        """Number of columns of a folded bispectrum."""
        return 2 * len(self.i) - self.n_real

    def to_columns(self, per_orbit: Index) -> Index:
        """Values per column."""
        return np.concatenate([per_orbit, per_orbit[self.n_real :]])

    @property
    def part(self) -> Index:
        """0 for real columns, 1 for imaginary ones."""
        return np.repeat([0, 1], [len(self.i), len(self.i) - self.n_real])

    def unfold(self, folded: NDArray[np.float32]) -> NDArray[np.float32]:
        """Folded bispectra (..., n_columns) to all pairs (..., 2 * n_frequencies**2), real parts first."""
        full: NDArray[np.float32] = np.take(folded, self.source.ravel(), axis=-1)
        full *= self.sign.ravel()
        return full


def triple_orbits(third: Index, negation: Index) -> TripleOrbits:
    """Orbits, given the number (n, n) of the frequency ``-(f + g)`` (-1: left out) and the number (n,) of ``-f``."""
    n = len(negation)
    first, second = np.nonzero(third >= 0)
    triples = np.sort([first, second, third[first, second]], axis=0)
    place = np.array([n * n, n, 1])
    key = place @ triples
    mirrored = place @ np.sort(negation[triples], axis=0)
    kept, first_seen, orbit, multiplicity = np.unique(
        np.minimum(key, mirrored), return_index=True, return_inverse=True, return_counts=True
    )
    is_real = (key == mirrored)[first_seen]
    order = np.argsort(~is_real, kind="stable")
    rank = np.argsort(order)[orbit]
    n_real = int(is_real.sum())

    source = np.zeros((2, n, n), dtype=np.int64)
    sign = np.zeros((2, n, n), dtype=np.float32)
    source[0, first, second] = rank
    sign[0, first, second] = 1
    has_imaginary = rank >= n_real
    source[1, first, second] = np.where(has_imaginary, len(kept) + rank - n_real, 0)
    sign[1, first, second] = np.where(has_imaginary, np.where(key < mirrored, 1, -1), 0)
    i, j, k = np.unravel_index(kept[order], (n, n, n))
    return TripleOrbits(i, j, k, n_real, multiplicity[order], source, sign)


def cyclic_orbits(n: int) -> TripleOrbits:
    """Orbits for the group Z/n: frequency f has number f."""
    frequency = np.arange(n)
    return triple_orbits(-(frequency[:, None] + frequency) % n, -frequency % n)
