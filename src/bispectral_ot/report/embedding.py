"""A plane on which images that the match found near to each other are near to each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.report.sampled_distances import SampledDistances

# Up to this many points all distances can be drawn; beyond, only who is near whom.
_MOST_FOR_SCALING = 300
_PERPLEXITY = 30


class Embedding(NamedTuple):
    """Positions (n, 2) between -1 and 1 of the sampled images, sources first, and how they were found."""

    positions: NDArray[np.float64]
    method: str


def embed(sample: SampledDistances, *, seed: int = 0) -> Embedding:
    """Lay out a sample of both sets by its distances."""
    distances = sample.matrix
    if sample.metric == "sqeuclidean":
        distances = np.sqrt(distances.clip(0))  # the distances that these are the squares of
    return lay_out(distances, seed=seed)


def lay_out(distances: NDArray[np.float64], *, seed: int = 0) -> Embedding:
    """Positions (n, 2), centred, for distances (n, n)."""
    count = len(distances)
    if count <= _MOST_FOR_SCALING or not distances.any():
        positions, _ = scale_to_plane(distances)
        method = "multidimensional scaling (SMACOF): distances on the map follow distances of the match"
    else:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits

        start = scale_classically(distances)
        model = TSNE(
            metric="precomputed",
            init=1e-4 * start / start.std(),
            perplexity=_PERPLEXITY,
            max_iter=500,
            random_state=seed,
        )
        with threadpool_limits(1):  # its threads wait for each other busily: on a shared machine that is far slower
            positions = model.fit_transform(distances).astype(np.float64)
        method = f"t-SNE (perplexity {_PERPLEXITY}): near on the map is near in the match, far says little"
    positions = positions - (positions.max(axis=0) + positions.min(axis=0)) / 2
    return Embedding(positions / (np.abs(positions).max() or 1.0), method)


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
