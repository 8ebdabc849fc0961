"""Calibration of poses: probability of being right, and uncertainty in degrees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.poses.motions import TOLERANCE, Floats

LEAST_PROBABILITY = 0.75  # poses with a smaller probability of being right are ambiguous
_LEVEL = 0.9  # of the stated interval
_LEAST_VOTES = 30  # for a calibration
_LEAST_MARGIN = np.log(1.1)  # of unambiguous poses without a calibration


class Votes(NamedTuple):
    """Result of a vote for each of n sources with k targets."""

    motions: Floats  # (n, q) that fit the targets best together
    runner_up: Floats  # (n, q) best ones that differ from them by more than the tolerance
    fits: Floats  # (n,) mean correlation with the targets, at most 1
    widths: Floats  # (n,) of the peak, in degrees; NaN for discrete motions
    margins: Floats  # (n,) logarithm of the misfit of the runner-up relative to that of the winner
    agreement: Floats  # (n,) fraction of the targets whose own best motion is the same, within the tolerance
    support: Floats  # (n,) their fraction of the weights
    by_target: Floats  # (n, k, q) best motion of each target
    weights: Floats  # (n, k) of each target; rows sum to 1, or to 0 where there is no target


@dataclass(frozen=True)
class Calibration:
    """Probability and precision of a pose, from votes whose right result is known.

    ``classifier`` is a logistic regression of being right on margin, agreement and support (a number if all poses are
    right or none is; None without a calibration); ``plane`` the intercept and slopes, in the width of the peak and the
    probability of being wrong, of the half-width of the interval in degrees.
    """

    classifier: Any
    plane: tuple[float, float, float] = (np.nan, 0.0, 0.0)

    @classmethod
    def fit(cls, votes: Votes, errors: Floats) -> Self:
        """Learn from votes and their errors (n,) in degrees; NaN is no vote."""
        known = np.isfinite(errors)
        if known.sum() < _LEAST_VOTES:
            return cls(None)
        votes, errors = Votes(*(field[known] for field in votes)), errors[known]
        right = errors <= TOLERANCE
        classifier: Any = (right.sum() + 1) / (len(right) + 2)
        if right.any() and not right.all():
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import StandardScaler

            classifier = make_pipeline(StandardScaler(), LogisticRegression()).fit(_evidence(votes), right)
        probabilities = cls(classifier).scores(votes)
        certain = probabilities >= LEAST_PROBABILITY
        if certain.sum() < _LEAST_VOTES:
            certain[:] = True
        return cls(classifier, _upper_quantile(_predictors(votes, probabilities)[certain], errors[certain]))

    def scores(self, votes: Votes) -> Floats:
        """Probability (n,) that a pose is right within the tolerance; NaN where it is not known."""
        scores = np.full(len(votes.fits), np.nan)
        known = np.isfinite(votes.fits)
        if isinstance(self.classifier, float):
            scores[known] = self.classifier
        elif self.classifier is not None and known.any():
            scores[known] = self.classifier.predict_proba(_evidence(votes)[known])[:, 1]
        return scores

    def uncertainty(self, votes: Votes) -> Floats:
        """Half-width (n,) in degrees of the interval that holds the right pose, if the pose is not ambiguous."""
        degrees: Floats = self.plane[0] + _predictors(votes, self.scores(votes)) @ np.array(self.plane[1:])
        return np.clip(degrees, 0.0, 180.0)

    def ambiguous(self, votes: Votes) -> NDArray[np.bool_]:
        """Whether another pose is nearly as likely (n,)."""
        is_clear: NDArray[np.bool_] = self.scores(votes) >= LEAST_PROBABILITY
        return ~(votes.margins >= _LEAST_MARGIN) if self.classifier is None else ~is_clear


def _evidence(votes: Votes) -> Floats:
    return np.stack([votes.margins, votes.agreement, votes.support], axis=1)


def _predictors(votes: Votes, probabilities: Floats) -> Floats:
    return np.stack([np.nan_to_num(votes.widths), 1.0 - probabilities], axis=1)  # discrete motions have no width


def _upper_quantile(predictors: Floats, errors: Floats) -> tuple[float, float, float]:
    """Intercept and slopes of a plane above which one error in ten lies, and which rises with its predictors."""
    from sklearn.linear_model import QuantileRegressor

    for used in ([True, True], [False, True], [True, False]):  # predictors with negative slopes are left out
        plane = QuantileRegressor(quantile=_LEVEL, alpha=0.0, solver="highs").fit(predictors * used, errors)
        if (plane.coef_ >= 0).all():
            return float(plane.intercept_), float(plane.coef_[0]), float(plane.coef_[1])
    return float(np.quantile(errors, _LEVEL)), 0.0, 0.0
