"""Class proportions by kernel scores of the targets alone, without a learned metric: a baseline of the study shares.

Balanced transport is right only where both sets have the same classes in the same shares. Here the shares of the source
are estimated first: how well the targets are recognized among themselves, each left out, calibrates what a source says
about its class; the shares that make all sources most likely follow by expectation maximisation (Saerens, Latinne and
Decaestecker, 2002; with calibrated posteriors: Alexandari, Kundaje and Shrikumar, 2020).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost, Distance
from bispectral_ot.engines import one_blas_thread
from bispectral_ot.transport import Sinkhorn

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# Kernel of the class scores, relative to the scale of the cost: wider than a match's, since shares average over images.
SCORE_REG = 0.02
# Targets that an estimate looks at, and sources at a time.
SAMPLE, _BLOCK = 2048, 512
# Pseudo-images of each class (Jeffreys' prior), and the variance of a class's bias (both in images, before seeing any).
_PRIOR_IMAGES, _BIAS_VARIANCE = 0.5, 1.0
# Likelihood ratio, per class, below which the sets count as having the same shares, and above which as having others.
# Its expectation is 1 if shares are the same; 2 is where Akaike's criterion would begin to prefer new ones.
_SAME, _DIFFERENT = 2.0, 4.0
# How firmly totals are held where shares count as the same: that is not known, only not refuted.
_FIRMNESS_OF_SAME = 0.9
_EM_STEPS, _EM_TOL = 1000, 1e-7
_POTENTIAL_TOL = 1e-4
# Exponent at which an entry of the kernel is nothing.
_NO_EXPONENT = 100.0
_TINY = 1e-30
# Images that evidence is counted from: likelihoods are calibrated among the targets, from which sources differ a little
# by how they were made, and with enough images that alone would be evidence.
_MOST_EVIDENCE = 2000


class Calibration(NamedTuple):
    """``log p(class | scores) = temperature * score + count_slope * log n + bias + log prior``, but for a constant."""

    temperature: float
    count_slope: float
    biases: Vector

    def log_likelihoods(self, scores: Vector, counts: Vector) -> Vector:
        """What each element says for each class, (n, classes); -inf for a class without targets."""
        found = self.temperature * scores + self.count_slope * _log_counts(counts) + self.biases
        return np.where(counts > 0, found, -np.inf)


@dataclass(frozen=True, eq=False)
class ProportionEstimate:
    """Shares of the target's classes in the source.

    Attributes
    ----------
    counts : (classes,) targets of each class
    proportions : (classes,) of the source, summing to one; where the sets cannot be told apart, those of the target
    firmness : (classes,) how far a plan should hold to each share, from 0 to 1: less for classes of few images
    evidence : twice the gain in log-likelihood over the target's shares, relative to what it would be by chance
    scores, labels : (m, classes) and (m,) of the targets that were looked at, left out of their own scores
    source_scores : (n, classes) of the sources that were looked at
    """

    counts: Vector
    proportions: Vector
    firmness: Vector
    evidence: float
    scores: Vector = field(repr=False)
    labels: Index = field(repr=False)
    source_scores: Vector = field(repr=False)

    def intervals(self, *, level: float = 0.9, draws: int = 100, seed: int = 0) -> tuple[Vector, Vector]:
        """Bootstrap intervals (classes,) of the shares: sources and calibration targets drawn anew each time.

        They are those of the likeliest shares, also where the sets cannot be told apart and the estimate is the
        target's share: that is a choice, not knowledge. A lower end of less than half an image is 0.
        """
        generator = np.random.default_rng(seed)
        n, m = len(self.source_scores), len(self.labels)
        counts = _count(self.labels, len(self.counts))
        start = fit_calibration(self.scores, self.labels, counts)
        found = np.empty((draws, len(self.counts)))
        with one_blas_thread():  # many small products
            for draw in found:
                drawn = generator.multinomial(m, np.full(m, 1 / m)).astype(np.float64)
                calibration = fit_calibration(self.scores, self.labels, counts, weights=drawn, start=start)
                rows = generator.integers(n, size=n)
                likelihoods = calibration.log_likelihoods(self.source_scores[rows], counts)
                draw[:] = likeliest_shares(likelihoods)
        low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return np.minimum(np.where(low < 0.5 / n, 0.0, low), self.proportions), np.maximum(high, self.proportions)


def estimate_shares(
    between: Distance,
    within: NDArray[np.float32],
    labels: Index,
    counts: Vector,
    *,
    scale: float,
    seed: int = 0,
) -> ProportionEstimate:
    """Estimate the shares of classes in the source.

    Parameters
    ----------
    between
        Distances (n, m) of some sources to some targets.
    within
        Distances (m, m) among these targets.
    labels
        Classes (m,) of these targets, 0, 1, 2, ...
    counts
        Targets of each class in all.
    scale
        Of the cost; the kernel is relative to it.
    seed
        Of the exemplars that are dropped: a target is compared with all others of its class, so that one of every other
        class is left out, too; else counts would give classes away.
    """
    epsilon = SCORE_REG * scale
    sampled = _count(labels, len(counts))
    indicator = np.eye(len(counts), dtype=np.float32)[labels]
    # some targets are near everything: their potential in a plan of the targets with each other makes up for that
    potential = _self_potential(within, epsilon)
    sums = _leave_one_out(_kernel(within, potential, epsilon, leave_out=True), labels, len(counts), seed)
    scores = _scores(sums, sampled - 1)
    n = between.shape[0]
    parts = [between.rows(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]
    source_scores = np.concatenate([_scores(_kernel(part, potential, epsilon) @ indicator, sampled) for part in parts])
    likelihoods = fit_calibration(scores, labels, sampled).log_likelihoods(source_scores, sampled)
    return ProportionEstimate(counts, *_final_shares(likelihoods, counts), scores, labels, source_scores)


def fit_calibration(
    scores: Vector,
    labels: Index,
    counts: Vector,
    *,
    weights: Vector | None = None,
    start: Calibration | None = None,
) -> Calibration:
    """Multinomial logistic regression with one temperature, one slope of the counts and a bias for each class.

    Classes of one target cannot be left out of their own scores: they keep a bias of 0.
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    n_classes = len(counts)
    known = counts[labels] > 1
    scores, labels = scores[known], labels[known]
    weights = np.ones(len(labels)) if weights is None else weights[known]
    prior = np.bincount(labels, weights=weights, minlength=n_classes)
    offset = np.where(prior > 0, np.log(np.maximum(prior, _TINY)), -1e30)
    log_counts, rows = _log_counts(counts - 1), np.arange(len(labels))

    def loss(x: Vector) -> tuple[float, Vector]:
        log_p = log_softmax(x[0] * scores + x[1] * log_counts + x[2:] + offset, axis=1)
        value = -(weights @ log_p[rows, labels]) + (x[2:] @ x[2:]) / (2 * _BIAS_VARIANCE) + 0.005 * x[1] ** 2
        slope = np.exp(log_p)
        slope[rows, labels] -= 1
        slope *= weights[:, None]
        columns = slope.sum(axis=0)
        gradient = [(slope * scores).sum(), columns @ log_counts + 0.01 * x[1], *(columns + x[2:] / _BIAS_VARIANCE)]
        return float(value), np.array(gradient)

    before = start or Calibration(1.0, 0.0, np.zeros(n_classes))
    first = np.array([before.temperature, before.count_slope, *before.biases])
    bounds = [(1e-3, None)] + [(None, None)] * (n_classes + 1)
    x = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x
    return Calibration(float(x[0]), float(x[1]), x[2:])


def likeliest_shares(log_likelihoods: Vector, *, prior: float = 0.0) -> Vector:
    """Shares (classes,) of a mixture that make the elements most likely, by expectation maximisation."""
    highest = log_likelihoods.max(axis=1, keepdims=True)
    likelihoods = np.exp(log_likelihoods - highest)
    known = np.isfinite(log_likelihoods).any(axis=0)
    shares: Vector = known / known.sum()
    for _ in range(_EM_STEPS):
        mixed = likelihoods @ shares
        new = shares * (likelihoods.T @ (1 / mixed)) + prior * known
        new /= new.sum()
        moved, shares = float(np.abs(new - shares).sum()), new
        if moved < _EM_TOL:
            break
    return shares


def _final_shares(log_likelihoods: Vector, counts: Vector) -> tuple[Vector, Vector, float]:
    """Shares, how firmly to hold to them, and the evidence that they are not the target's."""
    known, own = counts > 0, counts / counts.sum()
    n_free = int(known.sum()) - 1
    certainty = 1 - 0.5 / np.maximum(counts, 1)  # a class of one image is as good as half known
    if n_free == 0:
        return own, certainty * _FIRMNESS_OF_SAME, 0.0
    best = likeliest_shares(log_likelihoods)
    gain = _log_likelihood(log_likelihoods, best) - _log_likelihood(log_likelihoods, own)
    evidence = 2 * gain / n_free * min(1, _MOST_EVIDENCE / len(log_likelihoods))
    trust = float(np.clip((evidence - _SAME) / (_DIFFERENT - _SAME), 0, 1))
    shares = likeliest_shares(log_likelihoods, prior=_PRIOR_IMAGES)
    shares = _blend(_blend(shares, known / known.sum(), certainty), own, trust)
    return shares, certainty * (_FIRMNESS_OF_SAME + (1 - _FIRMNESS_OF_SAME) * trust), evidence


def _blend(shares: Vector, others: Vector, trust: float | Vector) -> Vector:
    """``shares^trust * others^(1 - trust)``, summing to one."""
    logs = trust * np.log(np.maximum(shares, _TINY)) + (1 - trust) * np.log(np.maximum(others, _TINY))
    blended: Vector = np.where(others > 0, np.exp(logs), 0.0)
    blended /= blended.sum()
    return blended


def _log_likelihood(log_likelihoods: Vector, shares: Vector) -> float:
    from scipy.special import logsumexp

    return float(logsumexp(log_likelihoods, axis=1, b=np.maximum(shares, _TINY)).sum())


def _count(labels: Index, n_classes: int) -> Vector:
    return np.bincount(labels, minlength=n_classes).astype(np.float64)


def _log_counts(counts: Vector) -> Vector:
    return np.log(np.maximum(counts, 1))


def _kernel(
    costs: NDArray[np.float32], potential: Vector, epsilon: float, *, leave_out: bool = False
) -> NDArray[np.float32]:
    """``exp((h_j - c_ij) / epsilon)``, each row divided by its largest entry; without the diagonal if asked for."""
    exponents = (potential.astype(np.float32) - costs) / np.float32(epsilon)
    if leave_out:
        np.fill_diagonal(exponents, -1e30)
    exponents -= exponents.max(axis=1, keepdims=True)
    np.exp(exponents, out=exponents)
    if leave_out:
        np.fill_diagonal(exponents, 0.0)
    return exponents


def _self_potential(costs: NDArray[np.float32], epsilon: float) -> Vector:
    """Potential (m,) of a plan of the targets with each other, none with itself, relaxed by ``epsilon``.

    It solves ``h_i = -1/2 epsilon log sum_j exp((h_j - c_ij) / epsilon)``.
    """
    if len(costs) == 1:
        return np.zeros(1)
    apart = costs.astype(np.float64)
    np.fill_diagonal(apart, 2 * costs.max() + _NO_EXPONENT * epsilon)
    solver = Sinkhorn(reg=epsilon, unbalanced=epsilon, tol=_POTENTIAL_TOL)
    return solver.self_term(Cost.from_matrix(apart, scale=1.0), np.ones(len(costs))).target_potential


def _leave_one_out(kernel: NDArray[np.float32], labels: Index, n_classes: int, seed: int) -> Vector:
    """Class sums (m, classes) of the kernel over all but one of each class: itself, or one at random."""
    generator, m = np.random.default_rng(seed), len(labels)
    sums = (kernel @ np.eye(n_classes, dtype=np.float32)[labels]).astype(np.float64)
    for c in range(n_classes):
        members = np.flatnonzero(labels == c)
        if len(members):
            dropped = kernel[np.arange(m), members[generator.integers(len(members), size=m)]].astype(np.float64)
            dropped[members] = 0.0  # itself is not in the kernel
            sums[:, c] -= dropped
    return sums


def _scores(sums: NDArray[np.floating[Any]], counts: Vector) -> Vector:
    """Logarithms of the class means (n, classes), the largest of each row 0."""
    scores: Vector = np.log(np.maximum(sums, _TINY)).astype(np.float64) - _log_counts(counts)
    scores -= scores.max(axis=1, keepdims=True)
    return scores
