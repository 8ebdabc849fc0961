"""Class proportions of a set without labels, estimated from the likelihoods that a class model gives its images.

The proportions that make all sources most likely follow by expectation maximisation (Saerens, Latinne and Decaestecker,
2002; with calibrated likelihoods: Alexandari, Kundaje and Shrikumar, 2020).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.matching.class_model import ClassModel
from bispectral_ot.sampling import random_rows

Vector = NDArray[np.float64]

# Sources that an estimate is made from.
_SOURCES = 8192
# Pseudo-images of each class (Jeffreys' prior).
_PRIOR_IMAGES = 0.5
# Standard deviations of the evidence from its expectation up to which the sets count as having the same proportions,
# and from which as having others.
_SAME, _DIFFERENT = 2.0, 4.0
# How firmly totals are held where proportions count as the same: that is not known, only not refuted.
_FIRMNESS_OF_SAME = 0.9
_EM_STEPS, _EM_TOL, _DRAW_STEPS = 500, 1e-6, 100
_TINY = 1e-30
# Images that evidence is counted from: likelihoods are calibrated among the targets, from which sources differ a little
# by how they were made, and with enough images that alone would be evidence.
_MOST_EVIDENCE = 2000
# Bootstrap: draws, the fewest of them where classes are many, and entries of all likelihoods that are drawn.
_DRAWS, _FEWEST_DRAWS, _ENTRIES = 100, 30, 1e8
# Total variation between labels that the estimate predicts and labels that were found, beyond chance, that refutes it.
_REFUTED = 0.1


@dataclass(frozen=True, eq=False)
class ProportionEstimate:
    """Proportions of the target's classes in the source.

    Attributes
    ----------
    counts : (classes,) targets of each class
    proportions : (classes,) of the source, summing to one; where the sets cannot be told apart, those of the target
    firmness : (classes,) how far a plan should hold to each proportion, from 0 to 1: less for classes of few images
    evidence : twice the gain in log-likelihood over the target's proportions, for each free one: 1 by chance
    trust : 0 where proportions count as the target's, 1 where as estimated
    draws : (draws, classes) likeliest proportions of bootstrap samples
    misfit : total variation, beyond chance, between the labels that these proportions predict and those of the sources
    nearest : (classes,) fraction of the sources that are most like each class, before proportions are estimated
    """

    counts: Vector
    proportions: Vector
    firmness: Vector
    evidence: float
    trust: float
    draws: Vector = field(repr=False)
    misfit: float = 0.0
    nearest: Vector | None = field(default=None, repr=False)

    @property
    def collapsed(self) -> bool:
        """Whether the estimate is refuted: it moves mass to classes that the sources are not near."""
        return self.trust > 0 and self.misfit > _REFUTED

    def intervals(self, level: float = 0.9) -> tuple[Vector, Vector]:
        """Bootstrap intervals (classes,): sources and calibration drawn anew each time.

        They are those of the likeliest proportions, also where the sets cannot be told apart and the estimate is the
        target's. A lower end of less than a thousandth of an even proportion is 0.
        """
        low, high = np.quantile(self.draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
        low = np.where(low < 1e-3 / len(self.counts), 0.0, low)
        return np.minimum(low, self.proportions), np.maximum(high, self.proportions)


def estimate_proportions(model: ClassModel, likelihoods: Vector, *, seed: int = 0) -> ProportionEstimate:
    """Estimate class proportions from log-likelihoods (n, classes) of the sources."""
    some = likelihoods[random_rows(len(likelihoods), _SOURCES, seed=seed)]
    proportions, firmness, evidence, trust = _final(some, model.counts, len(model.labels))
    own = model.counts / model.counts.sum()
    misfit, nearest = _misfit(model, some, proportions, own)
    draws = _bootstrap(model, some, seed=seed)
    return ProportionEstimate(model.counts, proportions, firmness, evidence, trust, draws, misfit, nearest)


def likeliest(
    likelihoods: NDArray[Any], start: Vector, weights: NDArray[Any] | None = None, prior: float = 0.0
) -> Vector:
    """Proportions (classes, b) that make rows of likelihoods most likely, for b weightings (n, b) of the rows."""
    found = start
    for step in range(_EM_STEPS if found.shape[1] == 1 else _DRAW_STEPS):
        inverse = 1 / np.maximum(likelihoods @ found.astype(likelihoods.dtype), _TINY)
        new = found * (likelihoods.T @ (inverse if weights is None else weights * inverse)) + prior * (start > 0)
        new /= new.sum(axis=0)
        moved, found = float(np.abs(new - found).sum(axis=0).max()), new
        if found.shape[1] > 1:
            runtime.progress("intervals", step + 1, _DRAW_STEPS)
        if moved < _EM_TOL:
            break
    return found


def likeliest_proportions(log_likelihoods: Vector, *, prior: float = 0.0) -> Vector:
    """Proportions (classes,) of a mixture that make the elements most likely, by expectation maximisation."""
    known = np.isfinite(log_likelihoods).any(axis=0)
    return likeliest(_exponentials(log_likelihoods), (known / known.sum())[:, None], prior=prior)[:, 0]


def class_offsets(log_likelihoods: Vector, proportions: Vector, *, held: float = 0.0) -> Vector:
    """Logarithms of the priors (classes,) that make log-likelihoods log-probabilities, but for a constant.

    They are those of the proportions; ``held`` from 0 to 1 is how far mean probabilities are held to these, too.
    """
    from scipy.special import softmax

    prior = np.log(np.maximum(proportions, _TINY))
    if held == 0 or len(proportions) < 2:
        return prior
    some = log_likelihoods[random_rows(len(log_likelihoods), _SOURCES)]
    shifts = np.zeros(len(prior))
    for _ in range(200):
        mean = softmax(some + prior + shifts, axis=1).mean(axis=0)
        step = np.where(proportions > 0, prior - np.log(np.maximum(mean, _TINY)), 0.0)
        shifts += step
        if np.abs(step).max() < 1e-3:
            break
    offsets: Vector = prior + held * shifts
    return offsets


def _final(log_likelihoods: Vector, counts: Vector, k: int) -> tuple[Vector, Vector, float, float]:
    """Proportions, how firmly to hold to them, the evidence that they are not the target's, and trust in it."""
    known, own = counts > 0, counts / counts.sum()
    n_free = int(known.sum()) - 1
    certainty = 1 - 0.5 / np.maximum(counts, 1)  # a class of one image is as good as half known
    if n_free == 0:
        return own, certainty * _FIRMNESS_OF_SAME, 0.0, 0.0
    best = likeliest_proportions(log_likelihoods)
    gain = _log_likelihood(log_likelihoods, best) - _log_likelihood(log_likelihoods, own)
    n = len(log_likelihoods)
    counted = min(n, _MOST_EVIDENCE)
    # likelihoods are estimated from k targets, which inflates the variance of a gain over n sources
    evidence = 2 * gain / n_free * counted / n / (1 + counted / k)
    # of equal proportions the evidence is a chi-square variable over its degrees of freedom
    deviations = (evidence - 1) / np.sqrt(2 / n_free)
    trust = float(np.clip((deviations - _SAME) / (_DIFFERENT - _SAME), 0, 1))
    smoothed = likeliest_proportions(log_likelihoods, prior=_PRIOR_IMAGES)
    blended = _blend(_blend(smoothed, known / known.sum(), certainty), own, trust)
    return blended, certainty * (_FIRMNESS_OF_SAME + (1 - _FIRMNESS_OF_SAME) * trust), evidence, trust


def _misfit(model: ClassModel, likelihoods: Vector, proportions: Vector, own: Vector) -> tuple[float, Vector]:
    """Difference between labels that proportions predict and labels that the sources get, beyond chance.

    What left-out targets of each class are taken for predicts what sources in these proportions are taken for.
    """
    n_classes, prior = len(own), np.log(np.maximum(own, _TINY))
    found = np.bincount((likelihoods + prior).argmax(axis=1), minlength=n_classes) / len(likelihoods)
    confusion = np.zeros((n_classes, n_classes))
    np.add.at(confusion, (model.labels, (model.likelihoods + prior).argmax(axis=1)), 1.0)
    confusion += np.eye(n_classes)  # a pseudo-image that is recognized: classes without left-out targets have no other
    expected = proportions @ (confusion / confusion.sum(axis=1, keepdims=True))
    noise = np.sqrt(expected * (1 - expected) * (1 / len(likelihoods) + 1 / len(model.labels)) * 2 / np.pi)
    return float(np.abs(expected - found).sum() / 2 - noise.sum() / 2), found


def _bootstrap(model: ClassModel, log_likelihoods: Vector, *, seed: int) -> Vector:
    """Likeliest proportions (draws, classes) with sources drawn anew, and biases of the calibration refitted.

    A bias multiplies the likelihoods of its class; one Newton step from the fit finds it for targets drawn anew.
    """
    from scipy.special import softmax

    (n, n_classes), generator = log_likelihoods.shape, np.random.default_rng(seed)
    draws = int(np.clip(_ENTRIES / (n * n_classes), _FEWEST_DRAWS, _DRAWS))
    k = len(model.labels)
    p = softmax(model.likelihoods, axis=1)
    drawn = generator.multinomial(k, np.full(k, 1 / k), size=draws) - 1.0
    curvature = np.diag(p.sum(axis=0)) - p.T @ p + np.eye(n_classes)
    biases = np.linalg.solve(curvature, (drawn @ (np.eye(n_classes)[model.labels] - p)).T)
    likelihoods = _exponentials(log_likelihoods).astype(np.float32)
    weights = generator.multinomial(n, np.full(n, 1 / n), size=draws).T.astype(np.float32)
    start = likeliest_proportions(log_likelihoods)
    factors = np.exp(biases)
    # with factors u, shares s of the likelihoods u L are those of L in proportion to u s
    scaled = np.maximum(start, 1e-6)[:, None] * np.where(start[:, None] >= 0, factors, 0)
    found = likeliest(likelihoods, scaled / scaled.sum(axis=0), weights) / factors
    return np.ascontiguousarray((found / found.sum(axis=0)).T)


def _exponentials(log_likelihoods: Vector) -> Vector:
    found: Vector = np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True))
    return found


def _blend(first: Vector, others: Vector, trust: float | Vector) -> Vector:
    """``first^trust * others^(1 - trust)``, summing to one."""
    logs = trust * np.log(np.maximum(first, _TINY)) + (1 - trust) * np.log(np.maximum(others, _TINY))
    blended: Vector = np.where(others > 0, np.exp(logs), 0.0)
    blended /= blended.sum()
    return blended


def _log_likelihood(log_likelihoods: Vector, proportions: Vector) -> float:
    from scipy.special import logsumexp

    return float(logsumexp(log_likelihoods, axis=1, b=np.maximum(proportions, _TINY)).sum())
