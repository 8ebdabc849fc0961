"""Outliers: elements that are farther from the other set than its own elements are from each other.

An unbalanced plan between samples of both sets gives each sampled element a potential. The potentials define a soft
distance of any element to the other set's sample. The outlier score is the rank of this distance among the
leave-one-out distances within that sample. Images that were moved once more count as well, since interpolation alone
makes distances larger: the score is the larger of the two ranks.
"""

from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame

from bispectral_ot import runtime
from bispectral_ot.costs import Cost, Distance, Metric
from bispectral_ot.costs.cost import storage_bytes
from bispectral_ot.drawing import frame_html
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import warn
from bispectral_ot.features import FeatureMap
from bispectral_ot.matching.class_model import Index, Rows, Vector
from bispectral_ot.sampling import random_rows
from bispectral_ot.transport import Sinkhorn

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
    """Rows ``sample`` of a set, their potential, and their sorted soft distances to each other."""

    sample: Index
    potential: Vector
    own: Vector
    epsilon: float

    def scores(self, distance: Distance) -> tuple[Vector, Vector]:
        """Outlier scores and soft distances of the rows of a distance to the sample."""
        far = soft_distances(distance, self.potential, self.epsilon)
        # fraction of the sample that is at least as far
        return (1 + len(self.own) - np.searchsorted(self.own, far)) / (1 + len(self.own)), far


class OutlierScores(NamedTuple):
    """Scores and soft distances of both sets (NaN if not computed), and the reference sample of the targets."""

    source: Vector
    target: Vector
    source_distances: Vector
    target_distances: Vector
    reference: OutlierReference

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
    feature_map: FeatureMap, metric: Metric, features: tuple[Rows, Rows], distinct: Any = None, moved: Any = None
) -> OutlierScores:
    """Outlier scores of all elements of two sets, from one relaxed plan between samples of them.

    ``distinct`` are positions of elements without copies of them; ``moved`` has for each set positions (k,) of some
    elements, and their features (k, columns) after a random motion.
    """
    samples = [each[random_rows(len(each), 2048)] for each in distinct or [np.arange(len(rows)) for rows in features]]
    sampled = [np.asarray(rows[sample]) for rows, sample in zip(features, samples, strict=True)]
    between = feature_map.distance(sampled[0], sampled[1], metric)
    needed = storage_bytes(between.shape, feature_bytes=between.feature_bytes, block_rows=between.rows_at_once)
    # a memory budget that suffices for the match suffices for these samples
    with runtime.running(memory=max(runtime.current().budget, needed["float32"])):
        solver = Sinkhorn(reg=0.01, tol=1e-3, unbalanced=0.2)  # results hardly change for penalties of 0.1 to 0.4
        plan = solver.solve(Cost.from_distance(between, storage="float32"))
    potentials = plan.source_potential, plan.target_potential

    def judged(side: int) -> tuple[OutlierReference, Vector, Vector]:
        """Reference sample of the other set, and scores and soft distances of all elements of ``side`` to it."""
        others, sample, potential = sampled[1 - side], samples[1 - side], potentials[1 - side]

        def far(rows: Rows, own: Index) -> Vector:
            return soft_distances(feature_map.distance(rows, others, metric), potential, plan.epsilon, own)

        own = np.sort(far(others, np.arange(len(sample))))
        if moved is not None and len(sample) > 1:  # else there is no other to be near
            (mine, my_rows), (at, rows) = moved[side], moved[1 - side]
            places = np.where(np.isin(at, sample), np.searchsorted(sample, at), -1)
            if side == 0:
                _warn_of_near_copies(feature_map.distance(rows[:256], others, metric), places[:256])
            own = np.maximum(own, np.quantile(far(rows, places), np.linspace(0, 1, len(own))))
            # upright images may be nearer to interpolated ones after a motion
            none = np.full(len(mine), -1)
            own += max(0.0, float(np.median(far(features[side][mine], none) - far(my_rows, none))))
        reference = OutlierReference(sample, potential, own, plan.epsilon)
        return reference, *reference.scores(feature_map.distance(features[side], others, metric))

    reference, source, source_distances = judged(0)
    _, target, target_distances = judged(1)
    return OutlierScores(source, target, source_distances, target_distances, reference)


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


def soft_distances(distance: Distance, potential: Vector, epsilon: float, own: Index | None = None) -> Vector:
    """``-epsilon log sum_j exp((g_j - c_ij) / epsilon)`` of each row i, without ``j = own[i]`` unless that is -1."""
    n, m = distance.shape
    if own is not None and m == 1:
        return np.full(n, np.inf)

    def soft_rows(block: Block) -> Vector:
        exponents = (potential.astype(np.float32) - distance.rows(block.start, block.stop)) / np.float32(epsilon)
        if own is not None:
            left = own[block.start : block.stop]
            exponents[np.flatnonzero(left >= 0), left[left >= 0]] = -np.inf
        highest = exponents.max(axis=1)
        exponents -= highest[:, None]
        return -epsilon * (highest + np.log(np.exp(exponents, out=exponents).sum(axis=1, dtype=np.float64)))

    stage = "outliers" if own is None else ""
    found = np.concatenate(list(Threads().map(soft_rows, row_blocks(n, block_rows=256), stage=stage)))
    # corrected for the missing term, 1 / m of the mass
    return found if own is None else found + epsilon * np.log1p(-1 / m) * (own >= 0)
