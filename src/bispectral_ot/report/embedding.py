"""A plane on which images that the match found near to each other are near to each other."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Metric
from bispectral_ot.datasets import Dataset
from bispectral_ot.matching import Match
from bispectral_ot.report.sampling import class_by_class
from bispectral_ot.report.scaling import distances_within, scale_classically, scale_to_plane

# Up to this many points all distances can be drawn; beyond, only who is near whom.
_MOST_FOR_SCALING = 300
_MOST_OF_A_SIDE = 400
_PERPLEXITY = 30


class Embedding(NamedTuple):
    """Positions (n + m, 2) between -1 and 1 of some source images, then some target images, and how they were found."""

    source_rows: NDArray[np.int64]
    target_rows: NDArray[np.int64]
    positions: NDArray[np.float64]
    method: str


def embed(match: Match, source: Dataset, target: Dataset, *, seed: int = 0) -> Embedding | None:
    """Lay out both sets (a sample where they are large) by the features and the metric of the match.

    None where the match does not know its features.
    """
    feature_map = match.feature_map
    if feature_map is None:
        return None
    rows = [class_by_class(side, seed=seed)[:_MOST_OF_A_SIDE] for side in (source, target)]
    sides = zip((source, target), rows, strict=True)
    features = np.concatenate([feature_map(side.images[chosen]) for side, chosen in sides])
    metric = cast(Metric, match.coupling.cost.metric)
    distances = distances_within(feature_map, features, metric)
    if metric == "sqeuclidean":
        distances = np.sqrt(distances.clip(0))  # the distances that these are the squares of
    positions, method = lay_out(distances, seed=seed)
    return Embedding(rows[0], rows[1], positions, method)


def lay_out(distances: NDArray[np.float64], *, seed: int = 0) -> tuple[NDArray[np.float64], str]:
    """Positions (n, 2), centred and within -1 ... 1, for distances (n, n), and the name of the method."""
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
    return positions / (np.abs(positions).max() or 1.0), method
