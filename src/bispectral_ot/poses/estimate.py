"""Poses of sources relative to their best targets, with calibrated probability and uncertainty."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from bispectral_ot import runtime
from bispectral_ot.drawing import frame_html
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.poses.motions import TOLERANCE, Floats, Indices, MotionArray, Motions, Rows
from bispectral_ot.sampling import evenly_spaced

LEAST_PROBABILITY = 0.75  # poses with a smaller probability of being right are ambiguous
_LEVEL = 0.9  # of the stated interval
_LEAST_VOTES = 30  # for a calibration
_BLOCK_BYTES = 2**24  # of fits at all motions of the grid, for the sources of a block
_BATCH = 4096  # sources whose coefficients are computed at a time
_LEAST_MISFIT = 1e-3  # smaller misfits are equal, so that identical images do not outvote all others
Top = tuple[Indices, Floats]


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
    weights: Floats  # (n, k) of each target; rows sum to 1, or to 0 without a target


@dataclass(frozen=True)
class Calibration:
    """Probability and precision of a pose, from votes whose right result is known."""

    # logistic regression of being right on margin, agreement and support (a number if all are right or none is)
    classifier: Any
    # half-width of the interval in degrees: intercept, slopes in the width of the peak and the probability of error
    plane: tuple[float, float, float] = (np.nan, 0.0, 0.0)
    least: float = 0.0  # median error: no interval is smaller

    @classmethod
    def fit(cls, votes: Votes, errors: Floats) -> Self:
        """Fit to votes and their errors (n,) in degrees; NaN for no vote."""
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
        scores = cls(classifier)(votes)[0]
        certain = scores >= LEAST_PROBABILITY
        if certain.sum() < _LEAST_VOTES:
            certain[:] = True
        plane = _upper_quantile(_predictors(votes, scores)[certain], errors[certain])
        return cls(classifier, plane, float(np.median(errors[certain])))

    def __call__(self, votes: Votes) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Scores, uncertainties and ambiguity (n,) of poses, see :class:`Poses`; NaN if unknown."""
        scores, known = np.full(len(votes.fits), np.nan), np.isfinite(votes.fits)
        if isinstance(self.classifier, float):
            scores[known] = self.classifier
        elif self.classifier is not None and known.any():
            scores[known] = self.classifier.predict_proba(_evidence(votes)[known])[:, 1]
        degrees = self.plane[0] + _predictors(votes, scores) @ np.array(self.plane[1:])
        clear = votes.margins >= np.log(1.1) if self.classifier is None else scores >= LEAST_PROBABILITY
        return scores, np.clip(degrees, self.least, 180.0), ~clear


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Poses(MotionArray):
    """Motions that bring each of n sources into the pose of its targets; NaN without a target or content.

    Attributes
    ----------
    angles, mirrored : degrees, counter-clockwise as displayed, in (-180, 180]; whether the source is mirrored first
    shifts : (n, 2) pixels down and to the right, after the rotation
    quaternions, rotations : (n, 4) rotations in space, the scalar last, and the same for SciPy
    runner_up : (n,) best motions that differ from these by more than 30 degrees
    by_target : (n, k) best motion of each target by itself; NaN if there is none
    targets, weights : (n, k) positions of the targets (-1: none), and the weight of each
    fits : (n,) correlation with the targets after the motion, at most 1
    scores : (n,) probability that the pose is within 30 degrees of the true one; NaN if it cannot be estimated
    uncertainty : (n,) degrees, or pixels for shifts; 90 % of the errors of poses that are not ambiguous are smaller
    ambiguous : (n,) whether the score is below 0.75
    size : height and width of the images that were compared
    """

    runner_up: MotionArray
    by_target: MotionArray
    targets: Indices
    weights: Floats
    fits: Floats
    scores: Floats
    uncertainty: Floats
    ambiguous: NDArray[np.bool_]
    size: tuple[int, int]

    def __len__(self) -> int:
        return len(self.fits)

    def __repr__(self) -> str:
        known = self.uncertainty[np.isfinite(self.uncertainty)]
        unit = "pixels" if self.angles is None and self.shifts is not None else "degrees"
        precision = f"{np.median(known):.1f} {unit}" if len(known) else "not known"
        counts = f"{self.ambiguous[self.found].sum():,} ambiguous, {(~self.found).sum():,} without a pose"
        return f"Poses({len(self):,} sources, {counts}; uncertainty {precision})"

    def to_frame(self) -> DataFrame:
        """Table with a row for each source: motion, fit, score, uncertainty, whether it is ambiguous, runner-up."""
        figures = {"fit": self.fits, "score": self.scores, "uncertainty": self.uncertainty, "ambiguous": self.ambiguous}
        second = {f"runner_up_{name}": values for name, values in self.runner_up.columns.items()}
        return DataFrame(self.columns | figures | second)

    _repr_html_ = frame_html

    @property
    def found(self) -> NDArray[np.bool_]:
        """Whether there is a pose (n,), that is, a target and content on both sides."""
        return np.isfinite(self.fits)


def estimate_poses(
    motions: Motions, images: Any, top: Top, *, practice: Top | None = None, k: int | None = None, seed: int = 0
) -> Poses:
    """Pose of each source relative to its best targets.

    Scores and uncertainties are learned from targets: the best target of a source, moved at random, takes the place of
    the source, and the other targets vote on it. If the targets are upright the right pose is known, without labels.

    ``images`` are sources and targets, ``top`` the best targets (n, at least k) of each source, best first, and their
    fraction of its mass; -1 is no target, and with fewer than two there is no calibration. ``practice`` are those of
    other sources, from which the calibration is learned instead. ``k`` targets vote (all by default).
    """
    source, target = images
    indices, shares = top
    known = practice or top
    voters = np.unique(np.concatenate([indices.ravel(), known[0].ravel()]))
    voters = voters[voters >= 0] if (voters >= 0).any() else np.zeros(1, dtype=np.int64)
    local, practised = (np.where(at >= 0, np.searchsorted(voters, at), -1) for at in (indices, known[0]))
    rows = motions.coefficients(target[voters])
    calibration, scale = Calibration(None), motions.scales[0]
    chosen = practice_rows(known[0])
    if len(chosen):
        moved, truth = motions.practice(target[known[0][chosen, 0]], seed=seed)
        coefficients = motions.coefficients(moved)
        at = practised[chosen, 1:], known[1][chosen, 1:]  # the best target takes the place of the source
        trials = []
        for each in motions.scales:
            voted = _vote_in_blocks(motions, coefficients * each, rows * each, *at)
            trials.append((voted, motions.separation(voted.motions, truth)))
        best = int(np.argmax([np.mean(errors <= TOLERANCE) for _, errors in trials]))
        calibration, scale = Calibration.fit(*trials[best]), motions.scales[best]
    rows = rows * scale
    parts = []
    for start in range(0, len(source), _BATCH):
        batch = slice(start, start + _BATCH)
        coefficients = motions.coefficients(source[batch]) * scale
        parts.append(_vote_in_blocks(motions, coefficients, rows, local[batch, :k], shares[batch, :k]))
        runtime.progress("poses", min(start + _BATCH, len(source)), len(source))
    votes = Votes(*map(np.concatenate, zip(*parts, strict=True)))
    scores, uncertainty, ambiguous = calibration(votes)
    return Poses(
        **vars(motions.by_name(votes.motions)),
        runner_up=motions.by_name(votes.runner_up),
        by_target=motions.by_name(votes.by_target),
        targets=indices[:, :k],
        weights=votes.weights,
        fits=votes.fits,
        scores=scores,
        uncertainty=uncertainty * motions.unit,
        ambiguous=ambiguous,
        size=(source.shape[1], source.shape[2]),
    )


def practice_rows(indices: Indices) -> Indices:
    """Sources of the calibration: at most 2,000, evenly spaced, with two targets each."""
    able = np.flatnonzero((indices[:, :2] >= 0).all(axis=1)) if indices.shape[1] > 1 else np.zeros(0, dtype=np.int64)
    return able[evenly_spaced(len(able), 2000)]


def _vote_in_blocks(motions: Motions, source: Rows, target: Rows, indices: Indices, shares: Floats) -> Votes:
    per_source = 8 * len(motions.grid) * (indices.shape[1] + 2)
    blocks = row_blocks(len(source), block_rows=max(1, _BLOCK_BYTES // per_source))
    parts = Threads().map(vote, blocks, rows=[source, indices, shares], shared=[target, motions])
    return Votes(*map(np.concatenate, zip(*parts, strict=True)))


def vote(_block: Block | None, source: Rows, indices: Indices, shares: Floats, target: Rows, motions: Motions) -> Votes:
    """Vote of the targets of each source on its pose.

    Every target j proposes the motion g that maximizes its fit ``c_j(g)``. The winner maximizes ``sum w_j c_j(g)`` with
    ``w_j = share_j^(1/2) (1 - max c_j)^-3`` (docs/poses.md): transport selects similar targets, fits say how similar.
    """
    products = motions.products(source, target, indices)
    by_target = motions.locate(products, motions.fits(products).argmax(axis=-1))
    counts = (indices >= 0) & (shares > 0) & products.any(axis=-1)
    misfits = np.maximum(1.0 - by_target.fits, _LEAST_MISFIT)
    weights = np.where(counts, np.sqrt(shares) * misfits**-3, 0.0)
    totals = weights.sum(axis=1, keepdims=True)
    weights /= np.where(totals > 0, totals, 1.0)

    pooled = np.einsum("nk,nkp->np", weights, products).astype(np.float32)
    values = motions.fits(pooled)
    best = motions.locate(pooled, values.argmax(axis=-1))
    apart = motions.separation(best.motions[:, None], motions.grid) > TOLERANCE
    second = motions.locate(pooled, np.where(apart, values, -np.inf).argmax(axis=-1))
    agrees = motions.separation(best.motions[:, None], by_target.motions) <= TOLERANCE
    margins = np.log(np.maximum(1.0 - second.fits, _LEAST_MISFIT) / np.maximum(1.0 - best.fits, _LEAST_MISFIT))
    known = totals > 0
    fits, widths, margins = (np.where(known[:, 0], each, np.nan) for each in (best.fits, best.widths, margins))
    return Votes(
        motions=np.where(known, best.motions, np.nan),
        runner_up=np.where(known, second.motions, np.nan),
        fits=fits,
        widths=widths,
        margins=margins,
        support=(agrees * weights).sum(axis=1),
        agreement=(agrees & counts).sum(axis=1) / np.maximum(counts.sum(axis=1), 1),
        by_target=np.where(counts[..., None], by_target.motions, np.nan),
        weights=weights,
    )
