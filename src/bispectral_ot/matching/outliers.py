"""Outliers: elements that are farther from the other set than its own elements are from each other.

The local distance of an element is its mean distance to the nearest elements of a sample of the other set, less the
mean distance of these to their own nearest ones: a local outlier factor (Breunig et al., 2000; without reachability),
which does not depend on class proportions. The outlier score is the rank of this distance among the leave-one-out
distances within that sample. Images that were moved once more count as well, since interpolation alone makes distances
larger: the score is the larger of the two ranks.
"""

from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame

from bispectral_ot.costs import Distance, Metric
from bispectral_ot.drawing import frame_html
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import warn
from bispectral_ot.features import FeatureMap
from bispectral_ot.matching.class_model import Index, Rows, Vector
from bispectral_ot.sampling import random_rows

_NEAREST = 5  # neighbours whose distances count
_MOST_COPIES = 0.2  # of the targets; without copies 0.012 at most, and 0.11 for digits of 8 x 8 pixels


class Outliers(NamedTuple):
    """Outliers of one set with respect to the other; scores are p-values.

    The score is the fraction of the other set's elements that are at least as far from the rest of their set.
    """

    indices: Index  # (k,) elements whose score is below the given level, the most distant first
    scores: Vector  # (n,)

    def __repr__(self) -> str:
        return f"Outliers({len(self.indices):,} of {len(self.scores):,} elements)"

    def to_frame(self) -> DataFrame:
        """Table of all elements: outlier score, and whether it is below the level."""
        return DataFrame({"outlier_score": self.scores, "outlier": np.isin(np.arange(len(self.scores)), self.indices)})

    def _repr_html_(self) -> str:
        return frame_html(self)


class OutlierReference(NamedTuple):
    """Rows ``sample`` of a set, their mean distances to the nearest others, and their sorted local distances."""

    sample: Index
    apart: Vector
    own: Vector

    def scores(self, distance: Distance) -> tuple[Vector, Vector]:
        """Outlier scores and local distances of the rows of a distance to the sample."""
        far = local_distances(distance, self.apart)
        # fraction of the sample that is at least as far
        return (1 + len(self.own) - np.searchsorted(self.own, far)) / (1 + len(self.own)), far


class OutlierScores(NamedTuple):
    """Scores and local distances of both sets (NaN if not computed), and the reference sample of the targets.

    ``left_out`` (m, 2) are local distances of targets, after a motion, to the others and to those of other classes; NaN
    if not computed.
    """

    source: Vector
    target: Vector
    source_distances: Vector
    target_distances: Vector
    reference: OutlierReference
    left_out: Vector | None = None

    @property
    def fraction(self) -> float:
        """Estimated fraction of outliers among the sources: the excess of low scores over a uniform distribution."""
        if min(len(self.source), len(self.target)) < 20:
            return 0.0
        level = 0.1
        return max(0.0, (float((self.source < level).mean()) - level) / (1 - level))

    def below(self, level: float, side: str) -> Outliers:
        """Outliers of a side: elements whose score is below ``level``."""
        scores = getattr(self, side)
        distances = getattr(self, f"{side}_distances")
        found = np.flatnonzero(scores < level)
        return Outliers(found[np.argsort(-distances[found], kind="stable")], scores)


def outlier_scores(
    feature_map: FeatureMap, metric: Metric, features: Any, distinct: Any = None, moved: Any = None, labels: Any = None
) -> OutlierScores:
    """Outlier scores of all elements of two sets, from samples of them.

    ``distinct`` are positions of elements without copies of them; ``moved`` has for each set positions (k,) of some
    elements, and their features (k, columns) after a random motion; ``labels`` are classes of the targets.
    """
    samples = [each[random_rows(len(each), 2048)] for each in distinct or [np.arange(len(rows)) for rows in features]]

    def judged(side: int) -> tuple[OutlierReference, Vector, Vector]:
        """Reference sample of the other set, and scores and local distances of all elements of ``side`` to it."""
        sample = samples[1 - side]
        others = np.asarray(features[1 - side][sample])
        alone = np.arange(len(sample))
        apart = local_distances(feature_map.distance(others, others, metric), np.zeros(len(sample)), alone)
        apart[np.isinf(apart)] = 0.0  # of a single element

        def far(rows: Rows, own: Index) -> Vector:
            return local_distances(feature_map.distance(rows, others, metric), apart, own)

        own = np.sort(far(others, alone))
        if moved is not None and len(sample) > 1:  # else there is no other to be near
            (mine, my_rows), (at, rows) = moved[side], moved[1 - side]
            places = np.where(np.isin(at, sample), np.searchsorted(sample, at), -1)
            if side == 0:
                _warn_of_near_copies(feature_map.distance(rows[:256], others, metric), places[:256])
            own = np.maximum(own, np.quantile(far(rows, places), np.linspace(0, 1, len(own))))
            # upright images may be nearer to interpolated ones after a motion
            none = np.full(len(mine), -1)
            own += max(0.0, float(np.median(far(features[side][mine], none) - far(my_rows, none))))
        reference = OutlierReference(sample, apart, own)
        return reference, *reference.scores(feature_map.distance(features[side], others, metric))

    reference, source, source_distances = judged(0)
    _, target, target_distances = judged(1)
    left_out = None
    if moved is not None and labels is not None:
        (at, rows), sample = moved[1], reference.sample
        distance = feature_map.distance(rows, np.asarray(features[1][sample]), metric)
        left_out = np.full((len(labels), 2), np.nan)
        for column, groups in enumerate((np.arange(len(labels)), labels)):
            left_out[at, column] = local_distances(distance, reference.apart, groups[at], groups[sample])
    return OutlierScores(source, target, source_distances, target_distances, reference, left_out)


def _warn_of_near_copies(moved: Distance, own: Index) -> None:
    """Warn if moved targets are often nearer to another target than to themselves before the motion."""
    distances = moved.rows(0, len(own))
    known = np.flatnonzero(own >= 0)
    themselves = distances[known, own[known]]
    distances[known, own[known]] = np.inf
    share = float(np.mean(distances[known].min(axis=1) < themselves)) if len(known) else 0.0
    if share > _MOST_COPIES:
        problem = f"after a transformation, {share:.0%} of the targets are nearer to another target than to themselves"
        cause = "the target has moved or edited copies of its images, or very small ones"
        warn(f"{problem}: {cause}. Copies make the expected accuracy and outliers wrong: keep one of each.")


def local_distances(distance: Distance, apart: Vector, own: Index | None = None, groups: Index | None = None) -> Vector:
    """Means of ``c_ij - apart[j]`` over the nearest columns j of each row i, without those of the group ``own[i]``.

    Each column is a group of its own, unless ``groups`` are given. A row without columns is infinitely far.
    """
    n, m = distance.shape
    k = min(_NEAREST, m)
    groups = np.arange(m) if groups is None else groups

    def local(block: Block) -> Vector:
        costs = distance.rows(block.start, block.stop)
        if own is not None:
            costs[own[block.start : block.stop, None] == groups] = np.inf
        nearest = np.argpartition(costs, k - 1, axis=1)[:, :k]
        found = np.take_along_axis(costs, nearest, axis=1)
        counted = np.isfinite(found)
        sums = np.where(counted, found - apart[nearest], 0.0).sum(axis=1)
        return np.where(counted.any(axis=1), sums / np.maximum(counted.sum(axis=1), 1), np.inf)

    stage = "outliers" if own is None else ""
    return np.concatenate(list(Threads().map(local, row_blocks(n, block_rows=256), stage=stage)))
