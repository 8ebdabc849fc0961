"""How far the classes of the source are from the classes of the target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost
from bispectral_ot.report.sampling import Indices

_MOST_ROWS = 400


class ClassDistances(NamedTuple):
    """Mean distance (r, c) between source class and target class (NaN where a class was not drawn)."""

    means: NDArray[np.float64]
    rows_read: int


def class_distances(
    cost: Cost, source_codes: NDArray[np.int64], target_codes: NDArray[np.int64], order: Indices
) -> ClassDistances:
    """Mean distances, from the rows of the cost that come first in ``order`` (all its columns)."""
    shape = int(source_codes.max()) + 1, int(target_codes.max()) + 1
    sums, counts = np.zeros(shape), np.zeros(shape[0])
    rows = np.sort(order[: max(_MOST_ROWS, shape[0])])
    for i in rows:
        row = cost.block(int(i), int(i) + 1)[0].astype(np.float64)
        sums[source_codes[i]] += np.bincount(target_codes, weights=row, minlength=shape[1])
        counts[source_codes[i]] += 1
    pairs = counts[:, None] * np.bincount(target_codes, minlength=shape[1])
    means = np.divide(sums, pairs, out=np.full(shape, np.nan), where=pairs > 0)
    return ClassDistances(means, len(rows))
