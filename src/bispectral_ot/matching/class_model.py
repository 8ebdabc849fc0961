"""Class model: calibrated likelihoods of the target's classes for any image, learned from targets that are left out.

Three kinds of scores say how near an image is to a class: kernel means over its targets at several widths, and a linear
discriminant. Targets that are left out, after a random motion of the symmetry, calibrate them: their weights and a bias
for each class are those of a multinomial logistic regression (a log-linear pool).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.costs import Cost, Metric
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import is_chunked
from bispectral_ot.datasets.transforms import rotate_randomly
from bispectral_ot.features import FittedFeatures
from bispectral_ot.matching.learned_metric import SHRINKAGES, LeftOut, WithinClass, covariance_sample
from bispectral_ot.sampling import balanced_rows, random_rows
from bispectral_ot.transport import EntropicCoupling

Rows = NDArray[np.float32]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# Widths of the kernels, relative to the median distance of left-out targets.
_WIDTHS = (0.01, 0.03, 0.1)
# Targets that are left out, those that they are compared with while a metric is chosen, and for the calibration.
LEFT_OUT, _CHOOSING, _REFERENCES = 1024, 4096, 32768
# Smallest kernel mean relative to that of the nearest class, and prior variance of biases and slope.
_TINY, _BIAS_VARIANCE = 1e-30, 1.0
_STEPS = 200


class Calibration(NamedTuple):
    """``log p(image | class) = sum_s weights_s score_s + count_slope log(count) + bias``, but for a constant."""

    weights: Vector
    count_slope: float
    biases: Vector

    def log_likelihoods(self, scores: Vector, counts: Vector) -> Vector:
        """Log-likelihoods (n, classes) of scores (n, classes, s); -inf for classes without targets."""
        found = scores @ self.weights + self.count_slope * _log(counts) + self.biases
        return np.where(counts > 0, found, -np.inf)


@dataclass(frozen=True, eq=False)
class ClassModel:
    """Log-likelihoods of the target's classes.

    Attributes
    ----------
    classes, counts : (classes,) names, and number of targets
    widths : of the kernels, in the units of the cost
    coefficients, intercepts : (columns, classes) and (classes,) of the linear discriminant; None without one
    calibration : weights of the scores, and biases
    likelihoods, labels : (k, classes) and (k,) of the left-out targets
    moved, distances : (k, columns) features of the left-out targets, and (k,) their soft distances to the others
    shrinkage : of the learned metric; 1 where there is none
    """

    classes: NDArray[Any]
    counts: Vector
    widths: tuple[float, ...]
    coefficients: Rows | None = field(repr=False)
    intercepts: Vector | None = field(repr=False)
    calibration: Calibration
    likelihoods: Vector = field(repr=False)
    labels: Index = field(repr=False)
    moved: Rows = field(repr=False)
    distances: Vector = field(repr=False)
    shrinkage: float

    def log_likelihoods(self, cost: Cost, rows: Rows, codes: Index) -> tuple[Vector, Vector]:
        """Log-likelihoods (n, classes) and soft distances (n,) of images, from their cost to the targets.

        ``codes`` (m,) are the classes of the targets, ``rows`` (n, columns) the features of the images.
        """
        scores, distances = [], np.zeros(cost.shape[0])
        for number, width in enumerate(self.widths):
            plan = EntropicCoupling.of_potential(cost, np.zeros(cost.shape[1]), reg=width / cost.scale, tol=1.0)
            mass = plan.summary(k=0, target_labels=codes).source_class_mass
            scores.append(_scores(_widened(mass, len(self.counts)), self.counts))
            if number == len(self.widths) // 2:
                distances = plan.source_potential - width * np.log(plan.source_weights)
            runtime.progress("classes", number + 1, len(self.widths))
        if self.coefficients is not None:
            assert self.intercepts is not None
            scores.append(_relative(np.asarray(rows @ self.coefficients, dtype=np.float64) + self.intercepts))
        return self.calibration.log_likelihoods(np.stack(scores, axis=-1), self.counts), distances


class MovedTargets(NamedTuple):
    """Targets that are left out, and their images after a random motion of the symmetry.

    Attributes
    ----------
    positions : (k,) among the targets, increasing
    images : None where they are not moved
    """

    positions: Index
    images: Dataset | None

    @classmethod
    def of(cls, target: Dataset, symmetry: str | None, *, seed: int = 0) -> MovedTargets | None:
        """Targets whose classes have others; None where fewer than two classes have two images."""
        if target.labels is None:
            return None
        counts = np.bincount(target.labels)
        if (counts > 1).sum() < 2:
            return None
        able = np.flatnonzero(counts[target.labels] > 1)
        at = able[balanced_rows(target.labels[able], LEFT_OUT, seed=seed)]
        turned = target.kind == "images" and symmetry is not None and "rotation" in symmetry
        if not turned or is_chunked(target.images):
            return cls(at, None)
        chosen = target.select(at)
        if "reflection" in str(symmetry):
            images = chosen.images.copy()
            mirrored = np.random.default_rng(seed).random(len(at)) < 0.5
            images[mirrored] = images[mirrored][:, :, ::-1]
            chosen = Dataset(images, name=target.name)
        return cls(at, rotate_randomly(chosen, seed=seed))


def fit_class_model(
    fitted: FittedFeatures, moved: Index, labels: NDArray[Any], *, learn: bool = True, seed: int = 0
) -> ClassModel:
    """Learn a metric and calibrate class scores; the rows of ``fitted`` and its map are changed to the learned metric.

    Parameters
    ----------
    fitted
        Features of sources and targets, and of moved targets where they are moved.
    moved
        Positions of the moved targets among the targets.
    labels
        Classes of the targets.
    learn
        Whether to learn a metric and a discriminant; calibration alone if not.
    """
    names, inverse = np.unique(labels, return_inverse=True)
    codes = inverse.astype(np.int64)
    counts = np.bincount(codes).astype(np.float64)
    if len(fitted.features) == 2:
        fitted.features.append(np.array(fitted.features[1][moved]))
    see, metric = fitted.feature_map, fitted.spec.metric
    within = left_out = None
    shrinkage = discriminant = 1.0
    if learn and not see.transformer.aligns:
        sample = _with(moved, balanced_rows(codes, covariance_sample(fitted.features[1].shape[1]), seed=seed))
        rows = see.plain(np.asarray(fitted.features[1][sample]))
        within = WithinClass.fit(rows, codes[sample], len(names))
    if within is not None:
        own, turned = (see.plain(np.asarray(part)) for part in (fitted.features[1][moved], fitted.features[2]))
        left_out = LeftOut(within, turned, own - within.means[codes[moved]], codes[moved])
        chosen = _with(moved, balanced_rows(codes, _CHOOSING, seed=seed))
        references = see.plain(np.asarray(fitted.features[1][chosen]))
        place = np.searchsorted(chosen, moved)
        if metric in ("l2", "sqeuclidean"):
            shrinkage = _choose_metric(left_out, references, codes[chosen], place, metric, len(names))
        losses = {
            each: fit_calibration(_relative(left_out.discriminants(each))[..., None], codes[moved], counts)[1]
            for each in SHRINKAGES
        }
        discriminant = min(losses, key=lambda each: losses[each])
        if shrinkage < 1:
            fitted.learn(within.power(shrinkage, -0.5))
    return _calibrated(fitted, moved, names, codes, left_out, shrinkage, discriminant, seed)


def _calibrated(
    fitted: FittedFeatures,
    moved: Index,
    names: NDArray[Any],
    codes: Index,
    left_out: LeftOut | None,
    shrinkage: float,
    discriminant: float,
    seed: int,
) -> ClassModel:
    """Class model whose calibration compares the left-out targets with all others."""
    see, metric = fitted.feature_map, fitted.spec.metric
    counts = np.bincount(codes).astype(np.float64)
    at = _with(moved, random_rows(len(codes), _REFERENCES, seed=seed))
    references = np.asarray(fitted.features[1][at])
    if left_out is not None and metric in ("l2", "sqeuclidean"):
        plain = see.plain(references) if shrinkage == 1 else references
        distances = _in_metric(left_out.squared_distances(plain, shrinkage), metric)
    else:
        distances = see.distance(fitted.features[2], references, metric).rows(0, len(moved))
    place = np.searchsorted(at, moved)
    scores, widths, soft = _kernel_scores(distances, codes[at], place, len(names), seed)
    coefficients = intercepts = None
    if left_out is not None:
        scores.append(_relative(left_out.discriminants(discriminant)))
        coefficients, intercepts = left_out.within.discriminant(shrinkage, discriminant)
        if shrinkage == 1 and see.projection is None and see.weights is not None:
            coefficients = coefficients * np.sqrt(see.weights)[:, None]
    stacked = np.stack(scores, axis=-1)
    calibration, _ = fit_calibration(stacked, codes[moved], counts)
    likelihoods = calibration.log_likelihoods(stacked, np.maximum(counts - 1, 1))
    rows = np.asarray(fitted.features[2])
    return ClassModel(
        names, counts, widths, coefficients, intercepts, calibration, likelihoods, codes[moved], rows, soft, shrinkage
    )


def _choose_metric(
    left_out: LeftOut, references: Rows, codes: Index, place: Index, metric: Metric, n_classes: int
) -> float:
    """Shrinkage whose kernels give the left-out targets the largest likelihood."""
    counts = np.bincount(codes, minlength=n_classes).astype(np.float64)
    losses: dict[float, float] = {}
    for number, shrinkage in enumerate(SHRINKAGES):
        whitened = left_out.within.power(shrinkage, -0.5)(references)
        distances = _in_metric(left_out.squared_distances(whitened, shrinkage), metric)
        scores, _, _ = _kernel_scores(distances, codes, place, n_classes, 0)
        losses[shrinkage] = fit_calibration(np.stack(scores, axis=-1), left_out.labels, counts)[1]
        runtime.progress("metric", number + 1, len(SHRINKAGES))
    return min(losses, key=lambda each: losses[each])


def _kernel_scores(
    distances: Rows, codes: Index, place: Index, n_classes: int, seed: int
) -> tuple[list[Vector], tuple[float, ...], Vector]:
    """Scores of left-out targets at each width, the widths, and soft distances at the middle one.

    A target is compared with all others of its class: of every other class one target at random is left out, too, or
    counts would give classes away.
    """
    k, generator = len(place), np.random.default_rng(seed)
    left = np.zeros(distances.shape, dtype=np.bool_)
    left[np.arange(k), place] = True
    counts = np.bincount(codes, minlength=n_classes).astype(np.float64)
    for c in np.flatnonzero(counts > 1):
        members = np.flatnonzero(codes == c)
        others = np.flatnonzero(codes[place] != c)
        left[others, members[generator.integers(len(members), size=len(others))]] = True
    median = float(np.median(distances[:, :: max(1, distances.shape[1] // 256)])) or 1.0
    indicator, scores = np.eye(n_classes, dtype=np.float32)[codes], []
    soft = np.zeros(k)
    for number, width in enumerate(_WIDTHS):
        exponents = distances / np.float32(-width * median)
        exponents[left] = -np.inf
        highest = exponents.max(axis=1, keepdims=True)
        kernel = np.exp(exponents - highest)
        scores.append(_scores((kernel @ indicator).astype(np.float64), counts - 1))
        if number == len(_WIDTHS) // 2:
            soft = -width * median * (highest[:, 0] + np.log(kernel.sum(axis=1)))
    return scores, tuple(width * median for width in _WIDTHS), soft.astype(np.float64)


def fit_calibration(scores: Vector, labels: Index, counts: Vector) -> tuple[Calibration, float]:
    """Multinomial logistic regression on scores (k, classes, s) with shared weights; also its mean loss.

    Weights are not negative; biases have a prior. Classes count alike, whatever their number of targets: likelihoods
    are asked for, and not probabilities among the targets.
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    n_classes, n_scores = len(counts), scores.shape[2]
    importance = 1 / np.bincount(labels, minlength=n_classes)[labels]
    importance *= len(labels) / importance.sum()
    prior = np.bincount(labels, weights=importance, minlength=n_classes)
    offset = np.where(prior > 0, np.log(np.maximum(prior, _TINY)), -1e30)
    log_counts, rows = _log(counts - 1), np.arange(len(labels))

    def loss(x: Vector) -> tuple[float, Vector]:
        weights, slope, biases = x[:n_scores], x[n_scores], x[n_scores + 1 :]
        log_p = log_softmax(scores @ weights + slope * log_counts + biases + offset, axis=1)
        value = -(importance @ log_p[rows, labels]) + (biases @ biases + slope**2) / (2 * _BIAS_VARIANCE)
        wrong = np.exp(log_p)
        wrong[rows, labels] -= 1
        wrong *= importance[:, None]
        columns = wrong.sum(axis=0)
        of_weights = np.tensordot(wrong, scores, axes=([0, 1], [0, 1]))
        gradient = [*of_weights, columns @ log_counts + slope / _BIAS_VARIANCE, *(columns + biases / _BIAS_VARIANCE)]
        return float(value), np.array(gradient)

    first = np.concatenate([np.full(n_scores, 1 / n_scores), np.zeros(n_classes + 1)])
    bounds = [(0, None)] * n_scores + [(None, None)] * (n_classes + 1)
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS})
    x = found.x
    return Calibration(x[:n_scores], float(x[n_scores]), x[n_scores + 1 :]), float(found.fun) / len(labels)


def _in_metric(squares: Rows, metric: Metric) -> Rows:
    return np.sqrt(squares, out=squares) if metric == "l2" else squares


def _with(needed: Index, others: Index) -> Index:
    """Positions of both, increasing."""
    return np.union1d(needed, others)


def _widened(mass: Vector, n_classes: int) -> Vector:
    return np.pad(mass, ((0, 0), (0, n_classes - mass.shape[1])))


def _scores(sums: Vector, counts: Vector) -> Vector:
    """Logarithms of class means from class sums (n, classes), the largest of each row 0."""
    highest = sums.max(axis=1, keepdims=True)
    return _relative(np.log(np.maximum(sums / np.where(highest > 0, highest, 1), _TINY)) - _log(counts))


def _relative(scores: Vector) -> Vector:
    relative: Vector = scores - scores.max(axis=1, keepdims=True)
    return relative


def _log(counts: Vector) -> Vector:
    return np.log(np.maximum(counts, 1))
