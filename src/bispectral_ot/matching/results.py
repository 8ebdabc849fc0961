"""Records that a match returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from bispectral_ot.poses import Poses

Vector = NDArray[np.float64]


class TopMatches(NamedTuple):
    """Best targets of each source.

    Attributes
    ----------
    indices : (n, k) positions in the target set, best first; -1 where no mass goes to any further one
    weights : (n, k) fraction of the source's mass that goes there; 0 where the index is -1
    """

    indices: NDArray[np.int64]
    weights: Vector

    def __repr__(self) -> str:
        n, k = self.indices.shape
        return f"TopMatches(indices and weights of the {k} best targets of each of {n:,} sources)"

    def to_frame(self) -> DataFrame:
        """Table with a row for each pair: source, rank, target, weight."""
        sources, ranks = np.nonzero(self.indices >= 0)
        targets, weights = self.indices[sources, ranks], self.weights[sources, ranks]
        return DataFrame({"source": sources, "rank": ranks + 1, "target": targets, "weight": weights})


class ClassProportions(NamedTuple):
    """Proportions of the target's classes in both sets.

    Attributes
    ----------
    classes : (c,) labels
    source, low, high : (c,) estimated proportions in the source, and a bootstrap interval
    target : (c,) proportions in the target
    received : (c,) fractions of the mass that the targets of each class got from the plan
    """

    classes: NDArray[Any]
    source: Vector
    low: Vector
    high: Vector
    target: Vector
    received: Vector

    def to_frame(self) -> DataFrame:
        """Table with a row for each class, which is its index."""
        return DataFrame(self._asdict()).set_index("classes")


class Outliers(NamedTuple):
    """Outliers of one set with respect to the other.

    Attributes
    ----------
    indices : (k,) elements whose score is below the given level, the most distant first
    scores : (n,) fraction of the other set's elements that are at least as far from each other as this one is from
        them; of elements that are no outliers, about a fraction s has a score below s
    """

    indices: NDArray[np.int64]
    scores: Vector

    def __repr__(self) -> str:
        mean = self.scores.mean()
        return f"Outliers({len(self.indices):,} of {len(self.scores):,} elements, scores {mean:.3f} on average)"

    def to_frame(self) -> DataFrame:
        """Table of all elements: outlier score, and whether it is below the level."""
        return DataFrame({"score": self.scores, "outlier": np.isin(np.arange(len(self.scores)), self.indices)})


class ExpectedAccuracy(NamedTuple):
    """Expected accuracy of the labels of the sources, with a 90 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} (90 % interval {self.low:.1%} to {self.high:.1%})"


class Shift(NamedTuple):
    """Test whether the sources look like moved targets.

    Attributes
    ----------
    separability : accuracy of nearest neighbours at telling sources from left-out, moved targets; 0.5 by chance
    distance : one-sided Kolmogorov-Smirnov distance between the soft distances of both to the targets
    p_value : of the more extreme of the two
    differs : whether the sets differ by more than the symmetry, visibly and not by chance
    """

    separability: float
    distance: float
    p_value: float
    differs: bool

    def __str__(self) -> str:
        found = (
            f"(a classifier tells them apart in {self.separability:.0%} of cases, distances to targets are larger by "
            f"{self.distance:.2f}, p = {self.p_value:.2g})"
        )
        if self.differs:
            return (
                f"sources differ from targets by more than the symmetry {found}; the expected accuracy is not reliable"
            )
        return f"sources look like moved targets {found}"


class Prediction(NamedTuple):
    """Labels, best targets and poses of new images.

    Attributes
    ----------
    labels, probabilities : (n,) label of each image and its probability; None without labels of the target
    matches : best targets of each image
    poses : motions that bring each image into the pose of its targets, if they were asked for
    """

    labels: NDArray[Any] | None
    probabilities: Vector | None
    matches: TopMatches
    poses: Poses | None = None

    def __repr__(self) -> str:
        labels = "" if self.labels is None else "labels and probabilities, "
        poses = "" if self.poses is None else ", poses"
        return f"Prediction({labels}best targets{poses} of {len(self.matches.indices):,} images)"

    def to_frame(self) -> DataFrame:
        """Table with a row for each image: label, probability, best target and its weight."""
        labels = {} if self.labels is None else {"label": self.labels, "probability": self.probabilities}
        return DataFrame({**labels, "target": self.matches.indices[:, 0], "weight": self.matches.weights[:, 0]})
