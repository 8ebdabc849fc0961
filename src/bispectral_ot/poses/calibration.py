"""How far a vote can be trusted, learnt from the targets themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bispectral_ot.poses.motions import TOLERANCE, Floats
from bispectral_ot.poses.votes import Votes

# Of the stated interval.
LEVEL = 0.9
# Poses that are right with a smaller probability are ambiguous.
LEAST_PROBABILITY = 0.75
# Fewer votes than this teach nothing.
_LEAST_VOTES = 30
# Without a calibration, a pose is ambiguous where the misfit of the runner-up is larger by less than this share.
_LEAST_MARGIN = np.log(1.1)


@dataclass(frozen=True)
class Calibration:
    """Probability and precision of a pose, from votes whose right result is known.

    The best target of a source, turned at random, stands in for the source, and the others vote on it: if the targets
    are upright, the right pose is known, and no label is needed. If they are not, this shows, too.

    Attributes
    ----------
    classifier : logistic regression of being right on margin, agreement and support; the share that is right where
        all are or none is; None where nothing was learnt
    intercept, slopes : half-width of the interval in degrees as a linear function of the width of the peak and of the
        probability of being wrong
    """

    classifier: Any
    intercept: float = np.nan
    slopes: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def fit(cls, votes: Votes, errors: Floats) -> Self:
        """Learn from votes and their errors (n,) in degrees; NaN is no vote."""
        known = np.isfinite(errors)
        if known.sum() < _LEAST_VOTES:
            return cls(None)
        evidence, errors = _evidence(votes)[known], errors[known]
        right = errors <= TOLERANCE
        if right.all() or not right.any():
            learnt = cls((right.sum() + 1) / (len(right) + 2))
        else:
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import StandardScaler

            learnt = cls(make_pipeline(StandardScaler(), LogisticRegression()).fit(evidence, right))
        probabilities = learnt._probabilities(evidence)
        certain = probabilities >= LEAST_PROBABILITY
        if certain.sum() < _LEAST_VOTES:
            certain = np.ones(len(errors), dtype=np.bool_)
        predictors = _predictors(votes.widths[known], probabilities)
        return cls(learnt.classifier, *_upper_quantile(predictors[certain], errors[certain]))

    def scores(self, votes: Votes) -> Floats:
        """The probability (n,) that a pose is right but for the tolerance; NaN where it is not known."""
        scores = np.full(len(votes.fits), np.nan)
        known = np.isfinite(votes.fits)
        if self.classifier is not None and known.any():
            scores[known] = self._probabilities(_evidence(votes)[known])
        return scores

    def uncertainty(self, votes: Votes) -> Floats:
        """Half the width (n,) of the interval in degrees that holds the right pose, if the pose is not ambiguous."""
        degrees: Floats = self.intercept + _predictors(votes.widths, self.scores(votes)) @ np.array(self.slopes)
        return np.clip(degrees, 0.0, 180.0)

    def ambiguous(self, votes: Votes) -> Any:
        """Whether another pose may as well be right (n,)."""
        if self.classifier is None:
            return ~(votes.margins >= _LEAST_MARGIN)
        return ~(self.scores(votes) >= LEAST_PROBABILITY)

    def _probabilities(self, evidence: Floats) -> Floats:
        if isinstance(self.classifier, float):
            return np.full(len(evidence), self.classifier)
        probabilities: Floats = self.classifier.predict_proba(evidence)[:, 1]
        return probabilities


def _evidence(votes: Votes) -> Floats:
    return np.stack([votes.margins, votes.agreement, votes.support], axis=1)


def _predictors(widths: Floats, probabilities: Floats) -> Floats:
    # discrete motions have no width
    return np.stack([np.where(np.isfinite(widths), widths, 0.0), 1.0 - probabilities], axis=1)


def _upper_quantile(predictors: Floats, errors: Floats) -> tuple[float, tuple[float, float]]:
    """Intercept and slopes of a plane above which one error in ten lies, and which rises with its predictors."""
    from sklearn.linear_model import QuantileRegressor

    for used in ([True, True], [False, True], [True, False]):  # those whose slopes would be negative are left out
        plane = QuantileRegressor(quantile=LEVEL, alpha=0.0, solver="highs").fit(predictors * used, errors)
        if (plane.coef_ >= 0).all():
            width, wrong = (float(slope) for slope in plane.coef_)
            return float(plane.intercept_), (width, wrong)
    return float(np.quantile(errors, LEVEL)), (0.0, 0.0)
