"""Class model: calibrated likelihoods of the target's classes for any image.

Two kinds of scores are combined: kernel density estimates of each class at three widths, and kernel ridge regression on
the class indicators. A multinomial logistic regression on left-out targets, after a random motion of the symmetry,
calibrates them: it has one weight per score and one bias per class.

Kernel density estimates use Mahalanobis distances with the within-class covariance ``S`` of the targets, shrunk towards
a multiple of the identity: ``(1 - s) S + s (tr S / d) I``. With ``s = 1`` distances are unchanged. Leaving one target
out is a rank-one update of ``S`` and of the kernel matrix, so exact leave-one-out scores need one decomposition.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.costs import Cost, Metric
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import is_chunked
from bispectral_ot.datasets.transforms import rotate_randomly
from bispectral_ot.engines import Block, Threads, fill_rows, joined, row_blocks
from bispectral_ot.engines.engine import gram, product
from bispectral_ot.features import FeatureMap, FittedFeatures
from bispectral_ot.features.fitted import LinearMap
from bispectral_ot.sampling import balanced_rows, evenly_spaced
from bispectral_ot.transformer import symmetric_eigh

Rows = NDArray[np.float32]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# Candidate shrinkages; 1 means no learning.
SHRINKAGES = (0.1, 0.3, 0.6, 0.9, 1.0)
_LEFT_OUT = 1024  # maximum number of left-out targets
CHOOSING = 4096  # maximum number of targets they are compared with to choose the metric
REFERENCES = 32768  # the same for calibration
_RIDGES = (0.01, 0.1, 1.0)  # candidate ridge parameters
CENTRES = 8192  # maximum number of targets in the regression
TINY = 1e-30  # smallest kernel density relative to that of the nearest class
BIAS_VARIANCE = 0.5  # prior variance of biases and slope
LEAST_RATIO = 9.55  # of likelihoods with and without wrong labels: half of a chi-square variable exceeds it by 0.001


@dataclass(frozen=True, eq=False)
class WithinClass:
    """Within-class covariance of rows (n, columns), and k left-out rows after a random motion.

    All shrinkages share one basis, so rows are projected once.
    """

    counts: Vector
    basis: Rows = field(repr=False)  # eigenvectors (columns, r) of nonzero eigenvalues (r,)
    variances: Vector = field(repr=False)
    mean_variance: float  # of all eigenvalues
    degrees: int  # n less the number of classes
    moved: Rows = field(repr=False)  # (k, columns) of the moved images
    along: Rows = field(repr=False)  # (k, r) in the basis, and differences of unmoved rows from the class means
    residuals: Rows = field(repr=False)
    labels: Index

    @classmethod
    def fit(cls, rows: Rows, labels: Index, n_classes: int, left_out: Index, moved: Rows) -> Self | None:
        """Estimate from the smaller of covariance and Gram matrix; None if no class varies."""
        from scipy.sparse import csr_array

        n, columns = rows.shape
        counts = np.bincount(labels, minlength=n_classes).astype(np.float64)
        members = csr_array((np.ones(n), (labels, np.arange(n))), (n_classes, n))
        means = (members @ rows) / np.maximum(counts, 1)[:, None]
        residuals = rows - means[labels].astype(np.float32)
        degrees = n - int((counts > 0).sum())
        if degrees < 1:
            return None
        small = gram(residuals.T if n >= columns else residuals)
        # float32 is enough: shrinkage adds at least a tenth of the mean variance to each eigenvalue
        variances, vectors = symmetric_eigh(small / np.float32(degrees))
        variances = variances.astype(np.float64)
        if not variances[-1] > 0:
            return None
        kept = variances > 1e-6 * variances[-1]
        variances, vectors = variances[kept], vectors[:, kept]
        if n < columns:  # eigenvectors of the covariance from those of the Gram matrix
            vectors = product(residuals.T, (vectors / np.sqrt(variances * degrees)).astype(np.float32))
        mean_variance, basis = float(variances.sum() / columns), vectors.astype(np.float32)
        along, rest = product(moved, basis), product(residuals[left_out], basis)
        return cls(counts, basis, variances, mean_variance, degrees, moved, along, rest, labels[left_out])

    def power(self, shrinkage: float, exponent: float) -> LinearMap:
        """Power of the shrunk covariance, in units of its mean variance."""
        spectrum = (1 - shrinkage) * self.variances / self.mean_variance + shrinkage
        return LinearMap(self.basis, spectrum**exponent, shrinkage**exponent)

    def distances(self, references: Rows, shrinkages: Iterable[float], metric: Metric) -> Iterator[Rows]:
        """Leave-one-out distances (k, m) to references for each shrinkage; squared except for "l2".

        Of whitened rows x, y and the residual r of x: ``|x - y|^2 + gain (r . (x - y))^2`` (Sherman-Morrison formula).
        """
        basis = self.basis
        centre = references.mean(axis=0)
        moved = self.along - centre @ basis
        others = product(references - centre, basis)
        outside = np.zeros((len(moved), 1), dtype=np.float32)  # squared distances orthogonal to the basis
        if basis.shape[1] < basis.shape[0]:
            outside = _squares(self.moved - centre, references - centre) - _squares(moved, others)
        counts = self.counts[self.labels]
        for shrinkage in shrinkages:
            whiten = self.power(shrinkage, -0.5)
            scales = whiten.gains.astype(np.float32)
            residuals = self.residuals * scales
            # factors of the rank-one updates; an element must not remove all variance in its direction
            own = np.einsum("kr,kr->k", residuals, residuals, dtype=np.float64)
            taken = (1 - shrinkage) * counts / np.maximum(counts - 1, 1) / self.degrees / self.mean_variance
            gains = taken / np.maximum(1 - taken * own, 1e-3)
            rows = moved * scales, residuals, gains.astype(np.float32), outside
            shared = others * scales, np.float32(whiten.rest**2), metric == "l2"
            found = np.empty((len(moved), len(references)), dtype=np.float32)
            yield fill_rows(_distances_without, found, block_rows=128, rows=rows, shared=shared)


def _distances_without(
    _: Block, rows: Rows, residuals: Rows, gains: Rows, outside: Rows, others: Rows, rest: np.float32, root: bool
) -> Rows:
    """Leave-one-out distances of whitened rows to others."""
    squares = _squares(rows, others)
    squares += rest * outside
    along = np.einsum("kr,kr->k", residuals, rows)[:, None] - residuals @ others.T
    squares += gains[:, None] * np.square(along, out=along)
    squares = np.maximum(squares, 0, out=squares)
    return np.sqrt(squares, out=squares) if root else squares


def _squares(rows: Rows, others: Rows) -> Rows:
    """Squared Euclidean distances, not clipped at 0."""
    squares: Rows = gram(rows) if rows is others else product(rows, others.T)
    squares *= -2
    squares += np.einsum("kd,kd->k", rows, rows)[:, None]
    squares += np.einsum("md,md->m", others, others)
    return squares


class RidgeRegression(NamedTuple):
    """Kernel ridge regression on the indicators of the classes.

    Solves ``(K + ridge / W) a = Y - 1 / classes`` with a Gaussian kernel K, whose width is the median squared distance,
    and weights W that balance the classes. The ridge parameter minimizes the leave-one-out squared error.
    """

    centres: Index  # positions of m targets
    coefficients: Rows  # (m, classes)
    width: float

    @classmethod
    def fit(cls, rows: Rows, codes: Index, at: Index, left_out: Index, moved: Rows) -> tuple[Self, Vector, Vector]:
        """Fit to rows (m, columns) of the targets ``at``; also returns scores of k moved targets that were left out.

        The first scores are without the target, the second ones without its class, from a regression on k targets.
        """
        from scipy.linalg import solve_triangular

        k, n_classes = len(left_out), int(codes.max()) + 1
        place = np.searchsorted(at, left_out)
        order = np.append(np.delete(np.arange(len(at)), place), place)  # left-out targets come last
        at, rows = at[order], rows[order]
        labels = codes[at]
        centre = rows.mean(axis=0)
        rows, moved = rows - centre, moved - centre
        width = float(np.median(_squares(rows[:: max(1, len(at) // 256)], rows))) or 1.0
        inverse_weights = np.bincount(labels)[labels] * (n_classes / len(at))
        wanted = (np.equal.outer(np.arange(n_classes), labels) - 1 / n_classes).astype(np.float32)
        # the kernel; below it, that of the moved targets and what is wanted
        tall = np.empty((len(at) + k + n_classes, len(at)), dtype=np.float32)
        both = np.concatenate([rows, moved])
        fill_rows(_gaussian, tall[: len(at) + k], block_rows=128, rows=(both,), shared=(rows, width))
        tall[len(at) + k :] = wanted

        def solved(tall: Rows, ridge: float) -> tuple[Rows, Vector, Vector]:
            """Coefficients; scores of moved targets without themselves, and without the last k of their class."""
            m = tall.shape[1]
            # rounding errors of the kernel grow with the number of rows
            tall[np.diag_indices(m)] += (ridge * inverse_weights[-m:] + 1e-6 * m).astype(np.float32)
            factor, of_moved, of_wanted = np.split(decompose(tall), [m, m + k])
            coefficients = solve_triangular(factor, of_wanted.T, lower=True, trans="T", check_finite=False)
            inverse = solve_triangular(factor[m - k :, m - k :], np.eye(k, dtype=np.float32), lower=True)
            scores, last = of_moved @ of_wanted.T, coefficients[m - k :]
            influence, precision = of_moved[:, m - k :] @ inverse, inverse.T @ inverse
            alone = scores - (influence.diagonal() / precision.diagonal())[:, None] * last
            for members in (np.flatnonzero(labels[-k:] == label) for label in range(n_classes)):
                block = np.ix_(members, members)
                scores[members] -= influence[block] @ np.linalg.solve(precision[block], last[members])
            return np.ascontiguousarray(coefficients), alone.astype(np.float64), scores.astype(np.float64)

        small = np.concatenate([tall[len(at) - k : len(at) + k, -k:], wanted[:, -k:]])
        trials = {ridge: solved(small.copy(), ridge) for ridge in _RIDGES}
        squares = {ridge: np.square(alone - wanted[:, -k:].T).sum(axis=1) for ridge, (_, alone, _) in trials.items()}
        best = min(_RIDGES, key=lambda ridge: float((squares[ridge] / inverse_weights[-k:]).mean()))
        coefficients, scores, _ = solved(tall, best)
        return cls(at, coefficients, width), scores, trials[best][2]

    def scores(self, see: FeatureMap, rows: tuple[Rows, Rows]) -> Vector:
        """Scores (n, classes) of images; ``rows`` are the features of these and of the targets."""
        centres = see.unlearned(np.asarray(rows[1][self.centres]))
        middle = centres.mean(axis=0)
        centres = centres - middle
        found = np.empty((len(rows[0]), self.coefficients.shape[1]))

        def score(block: Block, some: Rows) -> Rows:
            return _gaussian(block, see.unlearned(np.asarray(some)) - middle, centres, self.width) @ self.coefficients

        return fill_rows(score, found, block_rows=128, rows=(rows[0],))


def _gaussian(_: Block, rows: Rows, centres: Rows, width: float) -> Rows:
    """``exp(-|x - y|^2 / width)`` of rows x and centres y."""
    exponents = _squares(rows, centres)
    exponents /= np.float32(-width)
    return np.exp(np.minimum(exponents, 0, out=exponents), out=exponents)


def decompose(tall: Rows) -> Rows:
    """Cholesky factor L of the first m rows (m, m), and ``X / L^T`` of the rows X below, in place and on all cores.

    LAPACK has one thread here, and results of more depend on their number. Entries above the diagonal are undefined.
    """
    m = tall.shape[1]
    for start in range(0, m, 512):
        stop = min(start + 512, m)
        head, done, below = tall[start:stop, start:stop], tall[start:stop, :start], tall[stop:]
        corner = np.linalg.cholesky((head - product(done, done.T)).astype(np.float64))
        head[:] = corner
        inverse = np.linalg.inv(corner).T.astype(np.float32)

        def solve(_: Block, rows: Rows, at: slice, done: Rows, inverse: Rows) -> Rows:
            return (rows[:, at] - rows[:, : at.start] @ done.T) @ inverse

        shared = slice(start, stop), done, inverse
        fill_rows(solve, below[:, start:stop], block_rows=256, rows=(below,), shared=shared)
    return tall


@dataclass(frozen=True, eq=False)
class ClassModel:
    """Log-likelihoods of the target's classes."""

    classes: NDArray[Any]  # names
    codes: Index = field(repr=False)  # class of each target
    counts: Vector  # number of targets
    width: float  # of the widest kernel, in the units of the cost
    calibration: Vector  # weights of the scores, slope of the logarithm of the count, and biases
    left_out: Index = field(repr=False)  # positions of k left-out targets
    likelihoods: Vector = field(repr=False)  # of these, as are the next four
    without_class: Vector = field(repr=False)  # log-likelihoods of the other classes, from a model without their own
    labels: Index = field(repr=False)
    moved: Rows = field(repr=False)  # features after a random motion
    distances: Vector = field(repr=False)  # soft distances to the other targets
    shrinkage: float  # of the learned metric; 1 where there is none
    ridge: RidgeRegression | None
    wrong: float  # estimated fraction of the targets whose label is wrong
    doubtful: Index = field(repr=False)  # left-out targets whose label is rather wrong than right, the clearest first

    def sharpened(self, factor: float) -> Self:
        """The same model with log-likelihoods multiplied by a factor."""
        names = ("calibration", "likelihoods", "without_class")
        return replace(self, **{name: factor * getattr(self, name) for name in names})

    def log_likelihoods(self, see: FeatureMap, cost: Cost, rows: tuple[Rows, Rows]) -> tuple[Vector, Vector]:
        """Log-likelihoods (n, classes) and soft distances (n,) of images, by their cost to the targets.

        ``rows`` are the features of both. Of more than 32,768 targets, a sample stands for all.
        """
        codes = self.codes
        if len(codes) > REFERENCES:
            at = balanced_rows(codes, REFERENCES)
            distance = see.distance(rows[0], np.asarray(rows[1][at]), cast(Metric, cost.metric))
            cost = Cost.from_distance(distance, storage="recompute", engine=cost.engine)
            codes = codes[at]
        counts = np.bincount(codes, minlength=len(self.counts)).astype(np.float64)
        sums, nearest = cost.class_kernels(codes, len(counts), width=self.width)
        scores = _scores(sums, counts)
        distances = nearest - self.width / 3 * np.log(sums[..., 1].sum(axis=1))
        if self.ridge is not None:
            found = self.ridge.scores(see, rows)
            scores = np.concatenate([scores, _relative(found)[..., None]], axis=2)
        return calibrated(self.calibration, scores, self.counts), distances


def left_out_targets(target: Dataset, distinct: Index) -> Index | None:
    """Sorted positions of distinct targets to leave out; None if fewer than two classes have two of them."""
    if target.labels is None:
        return None
    counts = np.bincount(target.labels[distinct])
    able = distinct[counts[target.labels[distinct]] > 1]
    return able[balanced_rows(target.labels[able], _LEFT_OUT)] if (counts > 1).sum() > 1 else None


def moved_images(dataset: Dataset, at: Index, symmetry: str | None, *, seed: int = 0) -> Dataset | None:
    """Images after random rotations (and reflections) of the symmetry; None if it has none."""
    turns = str(symmetry).startswith(("rotation", "similarity"))
    if dataset.kind != "images" or not turns or is_chunked(dataset.images):
        return None
    chosen = dataset.select(at)
    if "reflection" in str(symmetry):
        images = chosen.images.copy()
        mirrored = np.random.default_rng(seed).random(len(at)) < 0.5
        images[mirrored] = images[mirrored][:, :, ::-1]
        chosen = Dataset(images, name=dataset.name)
    return rotate_randomly(chosen, seed=seed)


def fit_class_model(
    fitted: FittedFeatures, moved: Index, labels: NDArray[Any], distinct: Index, *, learn: bool
) -> ClassModel:
    """Fit of the metric and the calibrated class scores; maps the features in ``fitted`` to the learned metric.

    ``fitted`` has the features of sources, targets and, if the symmetry has rotations, moved targets; ``moved`` are the
    positions of the latter among the targets. A copy of a left-out target would show its class: only ``distinct``
    targets count. ``learn=False`` leaves out both metric and regression.
    """
    names, inverse = np.unique(labels, return_inverse=True)
    codes = inverse.astype(np.int64)
    counts = np.bincount(codes).astype(np.float64)
    own = codes[moved]
    if len(fitted.features) == 2:
        fitted.features.append(np.array(fitted.features[1][moved]))
    see, metric, rows = fitted.feature_map, fitted.spec.metric, fitted.features[1]
    learn = learn and not see.transformer.aligns

    def some(most: int) -> Index:
        """Positions of all left-out targets and of others."""
        return np.union1d(moved, distinct[balanced_rows(codes[distinct], most)])

    within = ridge = None
    if learn:
        turned = np.array(see.plain(np.asarray(fitted.features[2])))  # a copy: rows are mapped in place below
        if metric in ("l2", "sqeuclidean"):
            at = some(2048 if rows.shape[1] > 2048 else 8192)  # limits the time of the decomposition
            at_moved, plain = np.searchsorted(at, moved), see.plain(np.asarray(rows[at]))
            within = WithinClass.fit(plain, codes[at], len(names), at_moved, turned)
        at = some(CENTRES)
        ridge, *regressed = RidgeRegression.fit(see.plain(np.asarray(rows[at])), codes, at, moved, turned)
    shrinkage = 1.0
    if within is not None:  # the shrinkage that maximizes the likelihood of left-out targets
        at = some(CHOOSING)
        chosen = np.bincount(codes[at], minlength=len(names)).astype(np.float64)
        losses = []
        for distances in within.distances(see.plain(np.asarray(rows[at])), SHRINKAGES, metric):
            scores = _kernel_scores(distances, codes[at], np.searchsorted(at, moved), len(names))[0]
            losses.append(fit_calibration(scores, own, chosen, biases=False)[1])
            runtime.progress("metric", len(losses), len(SHRINKAGES))
        shrinkage = SHRINKAGES[int(np.argmin(losses))]
    at = some(REFERENCES)
    references = np.asarray(fitted.features[1][at])
    if within is not None:
        distances = next(within.distances(see.plain(references), [shrinkage], metric))
        if shrinkage < 1:
            fitted.learn(within.power(shrinkage, -0.5))
    else:
        distances = see.distance(fitted.features[2], references, metric).rows(0, len(moved))
    *scored, width, soft = _kernel_scores(distances, codes[at], np.searchsorted(at, moved), len(names))
    if ridge is not None:
        scored = [np.dstack([kernels, _relative(found)]) for kernels, found in zip(scored, regressed, strict=True)]
    calibration, _ = fit_calibration(scored[0], own, counts)
    likelihoods, of_others = (calibrated(calibration, scores, np.maximum(counts - 1, 1)) for scores in scored)
    of_others[np.arange(len(own)), own] = -np.inf
    factor, wrong = label_errors(likelihoods, own)
    doubtful, kept = np.split(np.argsort(-wrong, kind="stable"), [int((wrong > 0.5).sum())])
    model = ClassModel(
        classes=names,
        codes=codes,
        counts=counts,
        width=width,
        calibration=calibration,
        left_out=moved[kept],
        likelihoods=likelihoods[kept],
        without_class=of_others[kept],
        labels=own[kept],
        moved=np.asarray(fitted.features[2])[kept],
        distances=soft[kept],
        shrinkage=shrinkage,
        ridge=ridge,
        wrong=float(wrong.mean()),
        doubtful=moved[doubtful],
    )
    return model.sharpened(factor)


def label_errors(log_likelihoods: Vector, labels: Index) -> tuple[float, Vector]:
    """Factor of the log-likelihoods L (k, classes) without wrong labels, and for each label the probability of one.

    A fraction r of the labels is drawn at random, and the others follow the model, which is sharper by a factor g:
    ``sum log((1 - r) softmax(g L + log p)[label] + r p[label])`` is largest. Errors of the model alone are rarely as
    certain as those of labels: (1, zeros) unless a likelihood-ratio test at the 0.1 % level finds r > 0. If most labels
    seemed to be wrong (r > 0.5), a weak model would be as good an explanation, which is then kept.
    """
    from scipy.optimize import minimize
    from scipy.special import expit, log_expit, log_softmax

    k, n_classes = log_likelihoods.shape
    prior = np.log(np.maximum(np.bincount(labels, minlength=n_classes) / k, TINY))

    def terms(x: Vector) -> tuple[Vector, Vector]:
        given = log_softmax(np.exp(x[0]) * log_likelihoods + prior, axis=1)[np.arange(k), labels]
        return given + log_expit(-x[1]), prior[labels] + log_expit(x[1])

    search = partial(minimize, method="Nelder-Mead", options={"xatol": 0.01, "fatol": 0.01})
    none = search(lambda x: -terms(np.append(x, -np.inf))[0].sum(), [0.0])
    found = search(lambda x: -np.logaddexp(*terms(x)).sum(), [0.5, -2.0])
    if 2 * (none.fun - found.fun) < LEAST_RATIO or found.x[1] > 0:
        return 1.0, np.zeros(k)
    right, wrong = terms(found.x)
    return float(np.exp(found.x[0])), expit(wrong - right)


def _kernel_scores(distances: Rows, codes: Index, place: Index, n_classes: int) -> tuple[Any, ...]:
    """Scores (k, classes, 3) of left-out targets, also without their class, width of the widest kernel, soft distances.

    One random target of every other class is left out as well; otherwise class counts would reveal the label.
    """
    from scipy.sparse import csr_array

    k = len(place)
    counts = np.bincount(codes, minlength=n_classes).astype(np.float64)
    draws = np.cumsum(counts) - counts + np.random.default_rng(0).random((k, n_classes)) * counts
    left = np.argsort(codes, kind="stable")[np.minimum(draws.astype(np.int64), len(codes) - 1)]
    left = np.where(counts > 1, left, place[:, None])
    left[np.arange(k), codes[place]] = place
    median = float(np.median(distances[:, :: max(1, distances.shape[1] // 256)])) or 1.0
    indicator = csr_array((np.ones(len(codes), np.float32), (codes, np.arange(len(codes)))), (n_classes, len(codes)))
    width = 0.09 * median  # of the widest of three kernels; see Cost.class_kernels
    blocks = row_blocks(k, block_rows=128)
    rows, shared = (distances, left, codes[place]), (codes, indicator, np.float32(width))
    found = Threads().map(_kernel_sums, blocks, rows=rows, shared=shared)
    (sums, of_others, soft), _ = joined((each, ()) for each in found)
    return _scores(sums, counts - 1), _scores(of_others, counts - 1), width, soft


def _kernel_sums(
    _: Block, distances: Rows, left: Index, own: Index, codes: Index, indicator: Any, width: np.float32
) -> tuple[Rows, Rows, Vector]:
    """Sums (k, classes, 3) of three kernels without the left-out targets, then without their class; soft distances."""
    exponents = distances / -width
    np.put_along_axis(exponents, left, -np.inf, axis=1)

    def sums() -> Rows:
        wide = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        middle = wide * wide * wide
        return np.stack([(indicator @ kernel.T).T for kernel in (middle * middle * middle, middle, wide)], axis=-1)

    found = sums()
    soft = -width * (exponents.max(axis=1) + np.log(found[..., 1].sum(axis=1)) / 3)
    exponents[own[:, None] == codes] = -np.inf
    return found, sums(), soft.astype(np.float64)


def calibrated(calibration: Vector, scores: Vector, counts: Vector) -> Vector:
    """Log-likelihoods (n, classes) of scores (n, classes, s); -inf for classes without targets.

    ``log p(image | class) = sum_s weights_s score_s + slope log(count) + bias + const``.
    """
    weights, slope, biases = np.split(calibration, [scores.shape[2], scores.shape[2] + 1])
    return np.where(counts > 0, scores @ weights + slope * np.log(np.maximum(counts, 1)) + biases, -np.inf)


def fit_calibration(scores: Vector, labels: Index, counts: Vector, *, biases: bool = True) -> tuple[Vector, float]:
    """Multinomial logistic regression on scores (k, classes, s) with shared weights >= 0; also its mean loss.

    Class proportions of ``labels`` enter as offsets, so log-likelihoods do not depend on them.
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    n_classes, n_scores = len(counts), scores.shape[2]
    present = np.bincount(labels, minlength=n_classes)
    offset = np.where(present > 0, np.log(np.maximum(present, 1)), -1e30)
    if not biases:  # a sample is enough for a few weights
        some = evenly_spaced(len(labels), max(256, 2**18 // n_classes))
        scores, labels = scores[some], labels[some]
    log_counts = np.log(np.maximum(counts - 1, 1))
    # pseudo-counts (Platt, 1999) keep weights finite if all elements are classified correctly
    error = 1 / (len(labels) + 2)
    others = max(int((present > 0).sum()) - 1, 1)
    wanted = np.tile(np.where(present > 0, error / others, 0.0), (len(labels), 1))
    wanted[np.arange(len(labels)), labels] = 1 - error

    def loss(x: Vector) -> tuple[float, Vector]:
        slope = x[n_scores]
        bias = x[n_scores + 1 :] if biases else np.zeros(n_classes)
        found = log_softmax(scores @ x[:n_scores] + (slope * log_counts + bias + offset), axis=1)
        value = (bias @ bias + slope**2) / (2 * BIAS_VARIANCE) - (wanted * found).sum()
        wrong = np.exp(found, out=found) - wanted
        columns = wrong.sum(axis=0)
        of_weights = np.tensordot(wrong, scores, axes=([0, 1], [0, 1]))
        of_biases = columns + bias / BIAS_VARIANCE if biases else []
        return float(value), np.array([*of_weights, columns @ log_counts + slope / BIAS_VARIANCE, *of_biases])

    first = np.concatenate([np.full(n_scores, 1 / n_scores), np.zeros(1 + n_classes * biases)])
    bounds = [(0, None)] * n_scores + [(None, None)] * (len(first) - n_scores)
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200})
    return np.append(found.x, np.zeros(n_classes * (not biases))), float(found.fun) / len(labels)


def _scores(sums: Rows, counts: Vector) -> Vector:
    """Logarithms of class means from kernel sums (n, classes, 3), the largest of each row 0."""
    highest = sums.max(axis=1, keepdims=True)
    relative = np.maximum(sums / np.where(highest > 0, highest, 1), np.float32(TINY))
    return _relative(np.log(relative, dtype=np.float64) - np.log(np.maximum(counts, 1))[:, None])


def _relative(scores: Vector) -> Vector:
    return scores - scores.max(axis=1, keepdims=True)
