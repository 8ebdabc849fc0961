"""Third-order SO(3) invariants of one or several signals on the sphere (shells, channels), from real harmonics.

For real harmonic coefficients ``a[s, l, :]`` of signals s = 0, 1, ... the invariants are
``b = sum_ijk W[i, j, k] a[s1, l1, i] a[s2, l2, j] a[s3, l3, k]``, one for each triple of pairs (l, s) whose degrees
fulfil the triangle inequality. Permuting the three pairs multiplies b by ``(-1)^(l1 + l2 + l3)`` or leaves it: one
order is kept, and for an odd sum of degrees only triples of different pairs, the others being zero.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bispectral_ot.compiled import njit
from bispectral_ot.groups.so3 import invariant_tensor, triangle

Floats = NDArray[np.float64]
Index = NDArray[np.int64]


class Triples(NamedTuple):
    """Degrees and signals of the invariants, sorted: ``l1 <= l2 <= l3``; each row is one, shape (n, 3)."""

    degrees: Index
    signals: Index

    def multiplicities(self) -> Index:
        """How many orders of the three pairs (l, s) there are: 1, 3 or 6."""
        pairs = np.stack([self.degrees, self.signals], axis=2)
        equal = (pairs[:, 1:] == pairs[:, :-1]).all(axis=2).sum(axis=1)
        orders: Index = np.array([6, 3, 1])[equal]
        return orders

    def select(self, chosen: Index) -> Triples:
        """Keep some of them."""
        return Triples(self.degrees[chosen], self.signals[chosen])


def sphere_triples(lmax: int, n_signals: int, *, reach: int = 0) -> Triples:
    """All triples up to degree lmax whose signals are at most ``reach`` apart."""
    pairs = [(degree, s) for degree in range(lmax + 1) for s in range(n_signals)]
    kept = []
    for triple in combinations_with_replacement(pairs, 3):
        (l1, s1), (l2, s2), (l3, s3) = triple
        is_odd = (l1 + l2 + l3) % 2 == 1
        if (
            triangle(l1, l2, l3)
            and max(s1, s2, s3) - min(s1, s2, s3) <= reach
            and not (is_odd and len(set(triple)) < 3)
        ):
            kept.append(triple)
    table = np.array(kept, dtype=np.int64)
    return Triples(table[:, :, 0], table[:, :, 1])


class TripleInvariants:
    """Evaluates a set of triples for a batch of coefficients.

    Each invariant is scaled by the root mean square of ``sqrt(2 l + 1)`` over its three degrees, so that with
    multiplicities as weights the squares sum up to the squared norm of the bispectrum
    ``(a_l1 (x) a_l2) C [(+) a_l3^H] C^H`` of all pairs of degrees.
    """

    def __init__(self, triples: Triples, lmax: int) -> None:
        self.n_triples = len(triples.degrees)
        # most entries of W are zero: it is kept as a list of the others, one list per triple of degrees
        kinds, self._kind = np.unique(triples.degrees, axis=0, return_inverse=True)
        tensors = [invariant_tensor(*map(int, kind)) for kind in kinds]
        places = [np.argwhere(np.abs(tensor) > 1e-14) for tensor in tensors]
        self._ends = np.cumsum([0, *map(len, places)])
        self._places = np.concatenate(places)
        scale = np.sqrt((2 * kinds + 1).mean(axis=1))
        self._values = np.concatenate(
            [factor * tensor[tuple(place.T)] for tensor, place, factor in zip(tensors, places, scale, strict=True)]
        )
        self._starts = triples.signals * (lmax + 1) ** 2 + triples.degrees**2

    def evaluate(self, coefficients: Floats) -> Floats:
        """Invariants (n, n_triples) of real harmonic coefficients (n, n_signals, (lmax + 1) ** 2)."""
        columns = np.ascontiguousarray(coefficients.reshape(len(coefficients), -1).T)
        out = np.empty((self.n_triples, len(coefficients)))
        sum_triple_products(columns, self._starts, self._kind, self._ends, self._places, self._values, out)
        return out.T


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def sum_triple_products(
    columns: Floats, starts: Index, kind: Index, ends: Index, places: Index, values: Floats, out: Floats
) -> None:
    """``out[t] = sum_e values[e] x[e] y[e] z[e]`` with rows of ``columns``; the batch runs along the last axis."""
    for t in range(len(starts)):
        row = out[t]
        row[:] = 0
        for e in range(ends[kind[t]], ends[kind[t] + 1]):
            value = values[e]
            first = columns[starts[t, 0] + places[e, 0]]
            second = columns[starts[t, 1] + places[e, 1]]
            third = columns[starts[t, 2] + places[e, 2]]
            for n in range(len(row)):
                row[n] += value * first[n] * second[n] * third[n]


def independent_triples(triples: Triples, lmax: int, n_signals: int, *, seed: int = 0) -> Index:
    """As few of the triples as determine all others near a random signal: a basis of their derivatives.

    The derivatives of all invariants at a random signal span a space of dimension at most ``n (lmax + 1)^2 - 3``; a
    pivoted QR decomposition picks the invariants that span it best.
    """
    rng = np.random.default_rng(seed)
    signal = rng.standard_normal((n_signals, (lmax + 1) ** 2))
    products = TripleInvariants(triples, lmax)
    step = 1e-3 * np.eye(signal.size).reshape(-1, *signal.shape)
    slopes = products.evaluate(signal + step) - products.evaluate(signal - step)
    _, triangular, order = scipy.linalg.qr(slopes, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(triangular))
    return np.sort(order[: int((diagonal > 1e-6 * diagonal[0]).sum())])
