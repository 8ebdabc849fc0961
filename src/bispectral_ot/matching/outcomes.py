"""What a match gives, by name."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.poses import Poses

Vector = NDArray[np.float64]


class TopMatches(NamedTuple):
    """The best targets of each source.

    Attributes
    ----------
    indices : (n, k) positions in the target set, best first; -1 where no mass goes to any further one
    shares : (n, k) share of the source's mass that goes there; 0 where the index is -1
    """

    indices: NDArray[np.int64]
    shares: Vector

    def __repr__(self) -> str:
        n, k = self.indices.shape
        return f"TopMatches(indices and shares of the {k} best targets of each of {n:,} sources)"


class LabelTransfer(NamedTuple):
    """Labels carried from one side to the other.

    Attributes
    ----------
    labels : (n,) the label with the largest mass, one of the given labels
    shares : (n,) share of the element's mass that agrees with it, between 0 and 1: how far to trust it
    """

    labels: NDArray[Any]
    shares: Vector

    def __repr__(self) -> str:
        return f"LabelTransfer({len(self.labels):,} labels with shares, {self.shares.mean():.3f} on average)"


class LabelDetails(NamedTuple):
    """What speaks for and against the label of each source.

    Attributes
    ----------
    labels, shares : (n,) the label with the largest mass, and its share
    runner_up, runner_up_shares : (n,) the label with the second largest mass; the same label where there is no other
    nearest, nearest_costs : (n,) the label of the target of lowest cost, and that cost
    """

    labels: NDArray[Any]
    shares: Vector
    runner_up: NDArray[Any]
    runner_up_shares: Vector
    nearest: NDArray[Any]
    nearest_costs: Vector

    def __repr__(self) -> str:
        agree = float((self.labels == self.nearest).mean())
        return f"LabelDetails({len(self.labels):,} labels, {agree:.1%} of them those of the nearest target)"


class ClassShares(NamedTuple):
    """Shares of the target's classes in both sets.

    Attributes
    ----------
    classes : (c,) labels
    source, low, high : (c,) estimated shares in the source, and a bootstrap interval
    target : (c,) shares in the target
    received : (c,) shares of the mass that the targets of each class got from the plan
    """

    classes: NDArray[Any]
    source: Vector
    low: Vector
    high: Vector
    target: Vector
    received: Vector


class Prediction(NamedTuple):
    """What a solved match says about new images.

    Attributes
    ----------
    labels, shares : (n,) label of each image and the share of its mass that agrees; None without labels of the target
    matches : best targets of each image
    poses : how each image has to be moved to stand like its targets, if that was asked for
    """

    labels: NDArray[Any] | None
    shares: Vector | None
    matches: TopMatches
    poses: Poses | None = None

    def __repr__(self) -> str:
        labels = "" if self.labels is None else "labels and shares, "
        poses = "" if self.poses is None else ", poses"
        return f"Prediction({labels}best targets{poses} of {len(self.matches.indices):,} images)"
