"""Distances within one set, and a plane on which points are as far apart as they are (multidimensional scaling)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Metric
from bispectral_ot.matching.features import FeatureMap
from bispectral_ot.progress import Progress, silent


def distances_within(
    feature_map: FeatureMap, rows: NDArray[np.float32], metric: Metric, *, progress: Progress = silent
) -> NDArray[np.float64]:
    """Distances (n, n) between all features of a set, given as rows (n, columns); 0 on the diagonal."""
    cost = feature_map.cost(rows, rows, metric, storage="float32", progress=progress)
    distances = cost.block(0, len(rows)).astype(np.float64)
    distances = (distances + distances.T) / 2  # the two halves differ by float32 rounding
    np.fill_diagonal(distances, 0.0)
    return distances


def scale_to_plane(distances: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Positions (n, 2) by metric multidimensional scaling of distances (n, n), and its stress-1.

    Minimises ``sum (d_ij - |x_i - x_j|)^2`` (SMACOF). It starts from the classical solution: no random restarts,
    and the same picture every time.
    """
    from sklearn.manifold import smacof

    if not distances.any():
        return np.zeros((len(distances), 2)), 0.0
    start = scale_classically(distances)
    positions, stress = smacof(distances, init=start, n_init=1, max_iter=200, eps=1e-5, normalized_stress=False)
    return positions, float(np.sqrt(stress / (0.5 * np.square(distances).sum())))


def scale_classically(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positions (n, 2), n > 1: the two principal components of ``-1/2 J D^2 J``, J the centring matrix."""
    from sklearn.decomposition import KernelPCA

    model = KernelPCA(n_components=2, kernel="precomputed", random_state=0)
    positions: NDArray[np.float64] = model.fit_transform(-0.5 * distances**2)
    return positions
