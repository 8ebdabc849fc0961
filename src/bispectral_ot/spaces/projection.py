"""Principal components of the features of several sets together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]

# Images that decide a fit: with more, components hardly change, while the covariance of many columns costs minutes.
SAMPLE = 4096


def sample_evenly(sizes: Sequence[int], count: int = SAMPLE) -> list[NDArray[np.int64]]:
    """Positions in each of several sets, ``count`` in all, evenly spread and in proportion to the sizes.

    Examples
    --------
    >>> [positions.tolist() for positions in sample_evenly([6, 3], 3)]
    [[0, 5], [0]]
    """
    total = sum(sizes)
    quotas = sizes if total <= count else [max(1, round(count * size / total)) for size in sizes]
    return [np.linspace(0, n - 1, k).astype(np.int64) for n, k in zip(sizes, quotas, strict=True)]


def principal_components(rows: Rows, n_components: int) -> Rows:
    """Leading principal components (columns, components) of rows (n, columns), whatever order the rows are in."""
    from sklearn.decomposition import PCA

    # a random projection starts the search for components: rows in one order make it the same for (A, B) and (B, A)
    rows = rows[np.lexsort(rows[:, : min(8, rows.shape[1])].T)]
    # fewer images than components have no more directions than there are images
    components = PCA(min(n_components, *rows.shape), random_state=0, copy=False).fit(rows).components_
    return np.ascontiguousarray(components.T, dtype=np.float32)
