"""What local bispectra are made of: the grids of a pyramid, and the ladders of responses on each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
# The edge fields m^(1/2) e^{iqp}: a turn multiplies them by e^{iq angle}. Their planes: one real, two complex.
SPINS = (0, 2, 4)
_PLANES = {0: (0, -1), 2: (1, 2), 4: (3, 4)}
_LOWEST_ORDER = -2
_SMALLEST_GRID = 4  # pixels a side: less has no neighbourhoods


@dataclass(frozen=True)
class Level:
    """One grid of the pyramid.

    Attributes
    ----------
    shape : (height, width)
    step : pixels of this grid between the taps of its filters
    halved : whether the grid is half as fine as the one before
    start, stop : (height,) the pixels of each row that lie in the disk
    """

    shape: tuple[int, int]
    step: int
    halved: bool
    start: Index
    stop: Index

    @property
    def margin(self) -> int:
        """Zeros around a plane: as far as the filters reach."""
        return 2 * self.step


def make_levels(height: int, width: int, n_levels: int, oversampling: int) -> tuple[Level, ...]:
    """Levels 0 to ``n_levels``, as far as they have pixels."""
    levels: list[Level] = []
    step, halved, shape = 1, False, (height, width)
    for level in range(n_levels + 1):
        if level:
            halved = 2 * step > oversampling
            shape = ((shape[0] + 1) // 2, (shape[1] + 1) // 2) if halved else shape
            step = step if halved else 2 * step
        if min(shape) < _SMALLEST_GRID * step and level:
            break
        levels.append(Level(shape, step, halved, *disk_rows(*shape)))
    return tuple(levels)


def disk_rows(height: int, width: int) -> tuple[Index, Index]:
    """First and last (exclusive) pixel of each row in the largest disk."""
    inside = distances(height, width) <= min(height, width) / 2
    start = np.where(inside.any(axis=1), inside.argmax(axis=1), 0)
    return start, start + inside.sum(axis=1)


def distances(height: int, width: int) -> NDArray[np.float64]:
    """Of the pixels (height, width) from the centre of the image."""
    y, x = np.ogrid[:height, :width]
    return np.hypot(y - (height - 1) / 2, x - (width - 1) / 2)


@dataclass(frozen=True)
class Ladder:
    """Responses of the fields of one level, each derived from another, and their products.

    Attributes
    ----------
    steps : (n_slots, 4) of slot, source, other, sign, in the order of computation
        With sign 0 a slot is the field with real plane ``source`` and imaginary plane ``other`` (-1: none); else it is
        ``d/dx + i sign d/dy`` of the slot ``source``.
    n_responses : slots before this one are pooled
    orders : (n_responses,) and fields : (n_responses,), counted from the first field of the ladder
    pairs, triples : (n, 2) and (n, 3) slots that are multiplied
    """

    steps: Index
    n_responses: int
    fields: Index
    orders: Index
    pairs: Index
    triples: Index


def channel_ladder(max_order: int) -> Ladder:
    """Orders 0 (the Laplacian) to ``max_order`` of a real field, with its triples."""
    field = max_order + 1  # the slot of the field itself, which is not pooled
    steps = [(field, 0, -1, 0), (1, field, -1, 1)]
    steps += [(order, order - 1, -1, 1) for order in range(2, max_order + 1)]
    steps.append((0, 1, -1, -1))
    triples = [(i, j, i + j) for i in range(1, max_order) for j in range(i, max_order + 1 - i)]
    orders = np.arange(max_order + 1)
    return Ladder(_table(steps, 4), max_order + 1, np.zeros_like(orders), orders, _table([], 2), _table(triples, 3))


def edge_ladder(max_order: int) -> Ladder:
    """Orders -2 (0 for spin 0) to ``max_order`` of the edge fields, with the pairs of different fields."""
    slots: dict[tuple[int, int], int] = {}
    steps = []
    for field, spin in enumerate(SPINS):
        for order in range(_LOWEST_ORDER if spin else 0, max_order + 1):
            slots[field, order] = len(slots)
    extra = len(slots)
    for field, spin in enumerate(SPINS):
        if spin > max_order:  # the field itself is not pooled, only what it is derived to
            slots[field, spin] = extra
            extra += 1
        steps.append((slots[field, spin], *_PLANES[spin], 0))
        for order in range(spin + 1, max_order + 1):
            steps.append((slots[field, order], slots[field, order - 1], -1, 1))
        for order in range(spin - 1, (_LOWEST_ORDER if spin else 0) - 1, -1):
            if (field, order) not in slots:
                slots[field, order] = extra
                extra += 1
            steps.append((slots[field, order], slots[field, order + 1], -1, -1))
    responses = [key for key in slots if key[1] <= max_order]
    pairs = [
        (slots[first], slots[second])
        for at, first in enumerate(responses)
        for second in responses[at + 1 :]
        if first[1] == second[1]
    ]
    fields, orders = np.array(responses, dtype=np.int64).T
    return Ladder(_table(steps, 4), len(responses), fields, orders, _table(pairs, 2), _table([], 3))


def shrinking(given: int, wanted: int) -> NDArray[np.float32]:
    """The matrix (wanted, given) that averages a line of pixels over as many equal stretches."""
    edges = np.linspace(0, given, wanted + 1)
    left, right = edges[:-1, None], edges[1:, None]
    pixels = np.arange(given)
    overlap = np.clip(np.minimum(right, pixels + 1) - np.maximum(left, pixels), 0, None)
    matrix: NDArray[np.float32] = (overlap * (wanted / given)).astype(np.float32)
    return matrix


def _table(rows: list[Any], width: int) -> Index:
    return np.array(rows, dtype=np.int64).reshape(-1, width)
