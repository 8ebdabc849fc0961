"""Records that a match returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class LabelDetails(NamedTuple):
    """Label of each source, and what is known for and against it.

    Attributes
    ----------
    labels, probabilities : (n,) the most probable label, and its probability
    runner_up, runner_up_probabilities : (n,) the second most probable label; the same where there is no other
    nearest, nearest_costs : (n,) the label of the target of lowest cost, and that cost
    outlier_scores : (n,) see :class:`Outliers`; NaN where they were not computed
    calibrated : whether probabilities are calibrated on left-out targets; else they are weights of the plan
    """

    labels: NDArray[Any]
    probabilities: Vector
    runner_up: NDArray[Any]
    runner_up_probabilities: Vector
    nearest: NDArray[Any]
    nearest_costs: Vector
    outlier_scores: Vector
    calibrated: bool

    def __repr__(self) -> str:
        mean = float(self.probabilities.mean())
        return f"LabelDetails({len(self.labels):,} labels, with a probability of {mean:.3f} on average)"


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
    separability : accuracy of nearest neighbours at telling sources from as many left-out, moved targets of each
        label: 0.5 if these look alike, 1 if they have nothing in common
    distance : one-sided Kolmogorov-Smirnov distance: how far soft distances of sources to the targets are larger
    p_value : of the more extreme of the two, if sources are moved targets
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


@dataclass(frozen=True)
class Headline:
    """Answer to "how many of these labels are right, and which do I check?".

    Attributes
    ----------
    expected_accuracy : with its interval
    shift : whether that can be relied on
    to_check : number of the least probable labels to check so that 95 % of all are right
    """

    expected_accuracy: ExpectedAccuracy
    shift: Shift
    to_check: int

    def facts(self) -> dict[str, Any]:
        """For ``results.json``."""
        accuracy, shift = self.expected_accuracy, self.shift
        return {
            "expected_accuracy": accuracy.value,
            "expected_accuracy_low": accuracy.low,
            "expected_accuracy_high": accuracy.high,
            "shift": {**shift._asdict(), "words": str(shift)},
            "to_check": self.to_check,
        }


class Prediction(NamedTuple):
    """Labels, best targets and poses of new images.

    Attributes
    ----------
    labels, probabilities : (n,) label of each image and its probability; None without labels of the target
    matches : best targets of each image
    poses : how each image has to be moved to stand like its targets, if that was asked for
    """

    labels: NDArray[Any] | None
    probabilities: Vector | None
    matches: TopMatches
    poses: Poses | None = None

    def __repr__(self) -> str:
        labels = "" if self.labels is None else "labels and probabilities, "
        poses = "" if self.poses is None else ", poses"
        return f"Prediction({labels}best targets{poses} of {len(self.matches.indices):,} images)"
