"""Which images a report shows, where it cannot show them all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets import Dataset

Indices = NDArray[np.int64]


def class_by_class(dataset: Dataset, *, seed: int) -> Indices:
    """All positions in a random order that begins with one image of every class, then a second of every class, ..."""
    shuffled = np.random.default_rng(seed).permutation(len(dataset))
    if dataset.labels is None:
        return shuffled
    return shuffled[_turn_by_turn(dataset.labels[shuffled])]


def cell_by_cell(rows: NDArray[Any], columns: NDArray[Any], *, seed: int) -> Indices:
    """All positions in a random order that begins with one of every (row, column), the fullest cells first.

    However rare an error is, some image of it comes early.
    """
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    cells = np.stack([rows, columns], axis=1)[shuffled]
    _, cell, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    return shuffled[_turn_by_turn(cell.ravel(), -counts[cell.ravel()])]


def interleave(*orders: Indices) -> Indices:
    """One from each order in turn, each position once."""
    longest = max(len(order) for order in orders)
    table = np.full((longest, len(orders)), -1, dtype=np.int64)
    for column, order in enumerate(orders):
        table[: len(order), column] = order
    merged = table.ravel()
    merged = merged[merged >= 0]
    _, first = np.unique(merged, return_index=True)
    return merged[np.sort(first)]


def _turn_by_turn(groups: NDArray[Any], priority: NDArray[Any] | None = None) -> Indices:
    """Order of positions: the first of every group, then the second of every group, ..."""
    rank = np.zeros(len(groups), dtype=np.int64)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        rank[members] = np.arange(len(members))
    within = np.zeros(len(groups)) if priority is None else priority
    return np.lexsort((within, rank))
