"""Samples of rows: evenly spaced, at random, and class by class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def evenly_spaced(n: int, size: int) -> Rows:
    """At most ``size`` of n rows, evenly spaced, from the first to the last: ``evenly_spaced(9, 3)`` is 0, 4, 8."""
    count = min(n, size)
    return np.arange(count) * (n - 1) // max(1, count - 1)


def random_rows(n: int, size: int, *, seed: int | Sequence[int] = 0) -> Rows:
    """At most ``size`` of n rows at random without replacement, increasing."""
    return np.arange(n) if n <= size else np.sort(np.random.default_rng(seed).choice(n, size, replace=False))


def balanced_rows(labels: NDArray[Any], size: int, *, seed: int = 0) -> Rows:
    """About ``size`` rows, increasing: small classes complete, large ones cut to one number (at least 1) at random."""
    if len(labels) <= size:
        return np.arange(len(labels))
    counts = np.sort(np.unique(labels, return_counts=True)[1])
    # with classes by size, those before class i are complete if the cut is at counts[i]
    cuts = (size - (np.cumsum(counts) - counts)) // np.arange(len(counts), 0, -1)
    most, order = max(1, int(cuts[np.argmax(cuts < counts)])), np.random.default_rng(seed).permutation(len(labels))
    return np.sort(order[_rank_in_group(labels[order]) < most])


def class_by_class(labels: NDArray[Any] | None, n: int, *, seed: int = 0) -> Rows:
    """All n rows in a random order that begins with one of every class, then a second of every class, and so on."""
    order = np.random.default_rng(seed).permutation(n)
    return order if labels is None else order[turn_by_turn(labels[order])]


def turn_by_turn(groups: NDArray[Any], priority: NDArray[Any] | None = None) -> Rows:
    """Order of rows: the first of every group, then the second of every group; within a round by ``priority``."""
    rank = _rank_in_group(groups)
    return np.lexsort((np.zeros(len(groups)) if priority is None else priority, rank))


def _rank_in_group(groups: NDArray[Any]) -> Rows:
    """Number of each row among the rows of its group, in the order given."""
    from pandas import Series

    return np.asarray(Series(groups).groupby(groups).cumcount())
