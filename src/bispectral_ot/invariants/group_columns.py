"""Which entries of a bispectrum are worth a column: those that are neither zero nor copies of another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-10  # relative to the largest entry of the probes


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
