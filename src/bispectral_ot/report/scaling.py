"""Multidimensional scaling and clustering of distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def tree_of_sets(lengths: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[int]]:
    """Linkage (N - 1, 4) of average clustering, and its leaves in an order that puts near ones beside each other."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    tree = linkage(squareform(lengths), "average", optimal_ordering=True)
    return tree, leaves_list(tree).tolist()


def scale_to_plane(distances: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Positions (n, 2) by multidimensional scaling (SMACOF from the classical solution), and its stress-1."""
    from sklearn.manifold import smacof

    if not distances.any():
        return np.zeros((len(distances), 2)), 0.0
    start = classical_scaling(distances, 2)
    positions, stress = smacof(distances, init=start, n_init=1, max_iter=200, eps=1e-5, normalized_stress=False)
    return positions, float(np.sqrt(stress / (0.5 * np.square(distances).sum())))


def classical_scaling(distances: NDArray[np.float64], dimensions: int) -> NDArray[np.float64]:
    """Positions (n, d) by classical multidimensional scaling: principal components of ``-1/2 J D^2 J``."""
    from scipy.linalg import eigh

    squares = -0.5 * np.square(distances)
    squares = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    count = len(distances)
    values, vectors = eigh(squares, subset_by_index=[max(0, count - dimensions), count - 1])
    found: NDArray[np.float64] = np.zeros((count, dimensions))
    found[:, : len(values)] = (vectors * np.sqrt(values.clip(0)))[:, ::-1]
    found *= np.where(found.sum(axis=0) < 0, -1.0, 1.0)  # signs of eigenvectors are arbitrary
    return found
