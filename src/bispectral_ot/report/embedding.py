"""A plane on which images that the match found near to each other are near to each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.report.sampled_distances import SampledDistances
from bispectral_ot.report.scaling import scale_classically, scale_to_plane

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
