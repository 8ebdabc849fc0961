"""Distances between a sample of the images of a match."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Metric
from bispectral_ot.datasets import Dataset
from bispectral_ot.matching import Match
from bispectral_ot.report.sampling import Indices, class_by_class

_MOST_OF_A_SIDE = 400


class SampledDistances(NamedTuple):
    """Distances between some source images and some target images, all of them with all.

    Attributes
    ----------
    source_rows, target_rows : (s,), (t,) positions of the images in their sets
    matrix : (s + t, s + t) distances, sources first
    metric : what they are distances in
    """

    source_rows: Indices
    target_rows: Indices
    matrix: NDArray[np.float64]
    metric: Metric

    def class_means(self, source_codes: NDArray[np.int64], target_codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean distance (r, c) from each source class to each target class; NaN where a class was not drawn.

        The codes (n,) and (m,) number the classes of all images of both sets.
        """
        # (s, r) and (t, c): 1 where an image is of a class
        rows = np.eye(source_codes.max() + 1)[source_codes[self.source_rows]]
        columns = np.eye(target_codes.max() + 1)[target_codes[self.target_rows]]
        sums = rows.T @ self.matrix[: len(rows), len(rows) :] @ columns
        pairs = np.outer(rows.sum(axis=0), columns.sum(axis=0))
        means: NDArray[np.float64] = np.divide(sums, pairs, out=np.full(sums.shape, np.nan), where=pairs > 0)
        return means


def sample_distances(match: Match, source: Dataset, target: Dataset, *, seed: int = 0) -> SampledDistances | None:
    """Up to 400 images of each side, class by class, compared by the features and the metric of the match.

    None where the match does not know its features.
    """
    feature_map = match.feature_map
    if feature_map is None:
        return None
    rows = [class_by_class(side, seed=seed)[:_MOST_OF_A_SIDE] for side in (source, target)]
    sides = zip((source, target), rows, strict=True)
    features = np.concatenate([feature_map(side.images[chosen]) for side, chosen in sides])
    metric = cast(Metric, match.coupling.cost.metric)
    return SampledDistances(rows[0], rows[1], feature_map.distances_within(features, metric), metric)
