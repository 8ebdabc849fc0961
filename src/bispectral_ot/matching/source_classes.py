"""Classes of the sources: proportions, probabilities, expected accuracy, and a test for shift between the sets.

The proportions that make all sources most likely follow by expectation maximization (Saerens, Latinne and Decaestecker,
2002; with calibrated likelihoods: Alexandari, Kundaje and Shrikumar, 2020).
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.sparse import csr_array
from scipy.special import expit, logit, softmax

from bispectral_ot import runtime
from bispectral_ot.costs import Cost, Metric
from bispectral_ot.datasets import Dataset
from bispectral_ot.drawing import frame_html
from bispectral_ot.features import FeatureMap
from bispectral_ot.files import any_names
from bispectral_ot.matching import class_model
from bispectral_ot.matching.class_model import BIAS_VARIANCE, LEAST_RATIO, TINY, ClassModel, Index, Rows, Vector
from bispectral_ot.matching.outliers import OutlierScores
from bispectral_ot.sampling import random_rows

Sides = tuple[Rows, Rows]
Odds = tuple[Vector, float]

_SOURCES = 8192  # maximum number of sources for the estimate of proportions
_PRIOR_IMAGES = 0.5  # pseudo-counts per class (Jeffreys' prior)
# Evidence against equal proportions, in standard deviations from its expectation: none up to the first number, full
# from the second on. With more images than the third, sets made in slightly different ways would seem to differ.
_SAME, _DIFFERENT, _MOST_EVIDENCE = 1.0, 3.0, 2000
# Penalty on class totals if equal proportions are not rejected (1: they are certain).
_FIRMNESS_OF_SAME = 0.9
_EM_STEPS, _EM_TOL, _DRAW_STEPS = 500, 1e-6, 100
# Test for shift: images of each set, neighbours and permutations, accuracy and loss of probability that matter.
_POOL, _NEIGHBOURS, _PERMUTATIONS, _VISIBLE, _LOSS = 512, 9, 500, 0.55, 0.05
_FEWEST_KNOWN = 1 / 3  # if fewer sources are like targets, a change of all images explains as much as new classes


class ClassProportions(NamedTuple):
    """Proportions (c,) of the target's classes in both sets."""

    classes: NDArray[Any]
    source: Vector  # estimated, with a bootstrap interval
    low: Vector
    high: Vector
    target: Vector
    received: Vector  # fraction of the transported mass

    @any_names
    def to_frame(self) -> DataFrame:
        """Table with one row per class."""
        return DataFrame(self._asdict()).set_index("classes")

    def _repr_html_(self) -> str:
        return frame_html(self)


class ExpectedAccuracy(NamedTuple):
    """Expected accuracy of the labels, with a 90 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        rough = "; rough: few images, or unlike the targets" if self.high - self.low > 0.2 else ""
        return f"{self.value:.1%} (90% interval {self.low:.1%} to {self.high:.1%}{rough})"


class Shift(NamedTuple):
    """Test whether sources and targets differ by more than the symmetry."""

    separability: float  # accuracy of nearest neighbours at telling sources from left-out targets; 0.5 by chance
    distance: float  # one-sided Kolmogorov-Smirnov distance between the soft distances of both to the targets
    p_value: float  # of the most extreme of these two and the probabilities of labels; NaN with too few images
    differs: bool  # whether the difference is significant and large enough to matter

    def __str__(self) -> str:
        if np.isnan(self.p_value):
            return "not tested: there are too few images"
        p_value = f"p = {self.p_value:.2g}" if self.p_value >= 0.001 else "p < 0.001"
        if self.differs:
            reason = p_value if self.p_value < 0.01 else "few of them are like any target"
            words = f"sources differ from targets by more than the symmetry ({reason})"
            return f"{words}; the expected accuracy is not reliable"
        if self.p_value < 0.01:
            return f"small: sources differ from targets ({p_value}), but labels are as probable as those of targets"
        return f"none found: up to the symmetry, sources look like targets at the 1% level ({p_value})"


NO_SHIFT_TEST = Shift(np.nan, np.nan, np.nan, False)
_NO_ODDS = np.array([-np.inf, 0.0, 0.0])  # every source is of a class of the target


@dataclass(frozen=True, eq=False)
class ProportionEstimate:
    """Estimate of the class proportions of the source."""

    proportions: Vector
    priors: Vector  # the same for labels, closer to uniform for classes with few targets
    firmness: Vector  # penalty of each class total in the plan, from 0 to 1
    trust: float  # 0: the target's proportions are used, 1: the estimated ones
    draws: Vector = field(repr=False)  # (draws, classes) estimates for bootstrap samples


@dataclass(frozen=True, eq=False)
class SourceClasses:
    """Class probabilities of the sources."""

    model: ClassModel
    estimate: ProportionEstimate
    offsets: Vector  # (classes,) added to the log-likelihoods for the logarithms of probabilities
    odds: Vector  # (3,) log-odds that a source is of none of the classes: constant, and slopes of its familiarity
    probabilities: Vector = field(default_factory=partial(np.zeros, 0), repr=False)  # (n, classes) if of any of them
    known: Vector = field(default_factory=partial(np.zeros, 0), repr=False)  # (n,) probabilities that it is
    shift: Shift = NO_SHIFT_TEST
    least: float = 1.0  # fraction of sources of known classes, if it is not clear whether the others only differ

    @classmethod
    def of(
        cls,
        model: ClassModel,
        see: FeatureMap,
        cost: Cost,
        rows: Sides,
        marginals: str,
        weights: Vector,
        blank: Index,
        corrected: int,
        outliers: OutlierScores | None,
    ) -> Self:
        """Class probabilities of the sources of a cost, some blank; the last ``corrected`` targets were sources."""
        likelihoods, distances = model.log_likelihoods(see, cost, rows)
        likelihoods[blank] = 0.0
        estimate = estimate_proportions(model, likelihoods, corrected)
        # class totals, and how firmly mean probabilities are held to them
        if marginals == "estimated":
            totals, held = estimate.priors, _FIRMNESS_OF_SAME * (1 - estimate.trust)
        else:
            totals = np.bincount(model.codes, weights=weights).astype(np.float64)
            held = float(marginals == "balanced")
        # logarithms of probabilities are scaled as a whole, which changes no label
        factor = _sharpening(model, held)
        offsets = factor * class_offsets(likelihoods, totals, held=held)
        model = model.sharpened(factor)
        likelihoods = factor * likelihoods
        far, of_targets = np.zeros(len(likelihoods)), np.zeros((len(model.labels), 2))
        if outliers is not None and outliers.left_out is not None:
            far, of_targets = outliers.source_distances, outliers.left_out[model.left_out]
        seen = np.delete(np.arange(len(far)), blank)
        odds, least = odds_of_unknown(model, offsets, of_targets, probabilities(likelihoods[seen], offsets), far[seen])
        found = cls(model, estimate, offsets, odds, least=least)
        found = found.of_others(see, cost, rows, blank, far, (likelihoods, distances))
        alike = min(1.0 if outliers is None else 1 - outliers.fraction, float(found.known.mean()))
        tested = found.shift is not NO_SHIFT_TEST
        if tested and alike > _FEWEST_KNOWN:
            return found
        # nothing tells new classes from a change of all images
        shift, least = found.shift._replace(differs=tested), min(alike, least)
        return replace(found, odds=_NO_ODDS, known=np.ones(len(found.known)), shift=shift, least=least)

    def of_others(self, see: FeatureMap, cost: Cost, rows: Sides, blank: Index, far: Vector, given: Any = None) -> Self:
        """Class probabilities of other images, from their cost to the targets, in the proportions of the sources.

        ``far`` are their outlier distances. Log-likelihoods and soft distances are computed unless they are given.
        """
        likelihoods, distances = given or self.model.log_likelihoods(see, cost, rows)
        likelihoods[blank] = -self.offsets  # all classes are equally probable
        found = probabilities(likelihoods, self.offsets)
        known: Vector = expit(-self.odds[0] - _familiarity(found, len(self.model.labels), far) @ self.odds[1:])
        known[blank] = 1.0
        classes = replace(self, probabilities=found, known=known)
        return replace(classes, shift=shift_test(classes, see, cost.metric, rows, distances))

    @property
    def best(self) -> Vector:
        """Probabilities (n,) that the labels are right."""
        return self.known * self.probabilities.max(axis=1)

    def to_check(self, accuracy: float) -> Index:
        """Positions of the least probable labels, as many as must be checked for an expected accuracy of all."""
        best = self.best
        order = np.argsort(best, kind="stable")
        # with the first k checked, the rest is right as often as its probabilities say
        right = np.arange(len(best) + 1) + best.sum() - np.concatenate([[0.0], np.cumsum(best[order])])
        enough = np.flatnonzero(right >= accuracy * len(best) - 1e-9)
        return order[: int(enough[0])]

    def expected_accuracy(self) -> ExpectedAccuracy:
        """Mean probability of the labels; its interval counts chance among sources and left-out targets."""
        best = self.best
        value = float(best.mean())
        labels = self.model.labels
        weights = source_weights(labels, self.probabilities)
        left_out = probabilities(self.model.likelihoods, self.offsets)
        errors = (left_out.argmax(axis=1) == labels) - left_out.max(axis=1)
        shared = np.bincount(labels, weights=weights * errors)  # errors of a class are not independent
        variance = float((best * (1 - best)).sum()) / len(best) ** 2
        variance += max(float(np.square(weights * errors).sum()), float(np.square(shared).sum()))
        variance += 1 / (len(labels) + 2) ** 2  # a pseudo-count: no finite number of targets shows that all are right
        variance += self.model.wrong * (1 - self.model.wrong) / len(labels)  # which labels are wrong is estimated
        if (unknown := 1 - self.known.mean()) > 0:  # how many sources are of no class is estimated as well
            slopes = (1 - self.known) / unknown - self.known / (1 - unknown)  # of the logarithm of the likelihood
            variance += (value / (1 - unknown)) ** 2 * (1 / len(best) + 1 / len(labels)) / np.square(slopes).mean()
        half = 1.645 * float(np.sqrt(variance))  # 90 % of a normal distribution
        # sources may be of any class: of those with hardly any targets, none may be right
        least = value * min(self.least, float((self.model.counts >= 3).mean()))
        least -= 1.645 * np.sqrt(least * (1 - least) / len(best)) if least < value else half
        return ExpectedAccuracy(value, max(0.0, min(value - half, least)), min(1.0, value + half))

    def doubts(self, target: Dataset, symmetry: Any) -> list[str]:
        """Warnings of wrong labels, of sources of no class, and of a shift."""
        model, found = self.model, list[str]()
        if len(model.doubtful):
            count = round(model.wrong * len(target))
            files = target.files or target.positions
            named = ", ".join(f"{files[i]} ({model.classes[model.codes[i]]})" for i in model.doubtful[:5])
            problem = f"about {count:,} of {len(target):,} labels of the target look wrong; check {named} first"
            found.append(f"{problem}. Probabilities and expected accuracy refer to the true classes.")
        unknown = round(len(self.known) - self.known.sum())
        if unknown:
            problem = f"about {unknown:,} of {len(self.known):,} sources look like no class of the target"
            found.append(f"{problem}. Their labels have low probabilities; the expected accuracy counts them as wrong.")
        if self.shift.differs:
            words = "Match.outliers() (outliers.csv) lists the sources that differ most"
            zoom = "; if zoom differs, try symmetry='similarity' (--symmetry)" * str(symmetry).startswith("rotation")
            found.append(f"{self.shift}. {words}{zoom}.")
        return found


def source_weights(labels: Index, found: Vector) -> Vector:
    """Weights (k,) of left-out targets, with the class proportions of the sources; they sum to one."""
    proportions = found.mean(axis=0)
    weights: Vector = (proportions / np.maximum(np.bincount(labels, minlength=len(proportions)), 1))[labels]
    return weights / weights.sum()


def odds_of_unknown(model: ClassModel, offsets: Vector, of_targets: Vector, found: Vector, far: Vector) -> Odds:
    """Log-odds (constant, slopes of the familiarity) that a source is of no class of the target.

    Left-out targets show how familiar images are with and without the right class, by which logistic regression tells
    the two apart. The fraction of unknown sources is the adjusted count of those told to be unknown (Forman, 2008),
    which does not depend on how far they are. It is 0 unless a likelihood-ratio test at the 0.1 % level rejects that,
    and if classes of one or two targets may explain it, or a change of all images: new classes do not change the most
    familiar ones. Then, the second value is the fraction of known sources that the 5 % level suggests.
    """
    k, n = len(model.labels), len(found)
    if (model.counts > 0).sum() < 3 or n == 0:
        return _NO_ODDS, 1.0
    weights = source_weights(model.labels, found)
    drawn = np.searchsorted(weights.cumsum(), (np.arange(k) + 0.5) / k)  # k left-out targets with these weights
    both = np.concatenate([model.likelihoods[drawn], model.without_class[drawn]])
    known = _familiarity(probabilities(both, offsets), k, of_targets[drawn].T.ravel())
    centre, spread = known.mean(axis=0), np.maximum(known.std(axis=0), TINY)
    scores = np.stack([np.zeros_like(known), (known - centre) / spread], axis=1)
    calibration, _ = class_model.fit_calibration(scores, np.repeat([1, 0], k), np.full(2, k))
    slopes, (_, *biases) = calibration[:2] / spread, calibration[2:]
    constant = biases[0] - biases[1] + slopes @ centre
    ratios = constant - _familiarity(found, k, far) @ slopes
    of_known, of_unknown = np.split(constant - known @ slopes, 2)

    squares = np.square(weights).sum()

    def counted(limit: float) -> tuple[float, float]:
        """Fraction of unknown sources by the number beyond a limit, and its variance."""
        false, true, beyond = (float((each > limit).mean()) for each in (of_known, of_unknown, ratios))
        gap = max(true - false, TINY)
        fraction = (beyond - false) / gap
        part = min(max(fraction, 0.0), 1.0)
        variance = (1 - part) ** 2 * false * (1 - false) + part**2 * true * (1 - true)
        return fraction, (beyond * (1 - beyond) / n + variance * squares) / gap**2

    (first, of_first), (last, of_last) = counted(np.quantile(of_known, 0.25)), counted(np.median(of_unknown))
    if first - last > 1.645 * np.sqrt(of_first + of_last):
        return _NO_ODDS, 1.0
    unknown, rest = likeliest_proportions(np.column_stack([ratios, np.zeros(n)]), prior=_PRIOR_IMAGES)
    gain = np.log(rest + unknown * np.exp(ratios)).sum()
    # the variance of a gain over n sources is larger, since the left-out targets are a sample as well
    enough = 2 * gain > LEAST_RATIO * (1 + n * squares)
    fraction, variance = counted(0.0)
    surplus, few = fraction - 1.645 * np.sqrt(variance), (model.counts < 3).mean()
    if not enough or fraction * n < _PRIOR_IMAGES or surplus < few > 0:
        return _NO_ODDS, 1.0 if surplus <= 0 else max(0.0, 1 - fraction)
    fraction = min(fraction, 1 - _PRIOR_IMAGES / n)
    shift = brentq(lambda shift: float(expit(ratios + shift).mean()) - fraction, -1e3, 1e3)
    return np.array([constant + shift, *-slopes]), 1.0


def _familiarity(found: Vector, k: int, far: Vector) -> Vector:
    """Log-odds of the labels, at most those that k left-out targets can show, and minus outlier distances: (n, 2)."""
    certainty = logit(np.minimum(found.max(axis=1), 1 - 1 / (k + 2)))
    return np.column_stack([certainty, -far])


def estimate_proportions(model: ClassModel, log_likelihoods: Vector, corrected: int = 0) -> ProportionEstimate:
    """Class proportions of the sources; those of the target where there is no evidence against them.

    The last ``corrected`` targets were sources, which now lack them. Classes that these add are as frequent as in them.
    """
    some = log_likelihoods[random_rows(len(log_likelihoods), _SOURCES)]
    n, k = len(some), len(model.labels)
    counts = model.counts
    known = counts > 0
    n_free = int(known.sum()) - 1
    even = known / known.sum()
    own = _own_proportions(model, len(log_likelihoods), corrected)
    likelihoods = _exponentials(some)
    best = likeliest_proportions(some)
    found, left_out = (probabilities(each, np.log(np.maximum(own, TINY))) for each in (some, model.likelihoods))
    # biases of the likelihoods are estimated from k targets, which inflates the variance of a gain over n sources: by
    # 1 + n / k * u / (1 - u), where left-out labels have u times the variance of a guess
    of_guess = float(own @ own)
    surer = max((float(np.square(left_out).sum(axis=1).mean()) - of_guess) / max(1 - of_guess, TINY), TINY)
    counted = min(n, _MOST_EVIDENCE)
    per_source = counted / n / (1 + counted / k * (1 - surer) / surer)
    # a power of the target's proportions, from even ones to the same: the mean of those that fit. Nearly even ones are
    # kept: how they differ from even ones takes more sources to see than count
    powers = np.linspace(0, 1, 11) if np.abs(own - even).sum() > 0.2 else np.ones(1)
    mixed = likelihoods @ np.stack([_blend(own, even, power) for power in powers]).T
    same = _blend(own, even, float(powers @ softmax(per_source * np.log(np.maximum(mixed, TINY)).sum(axis=0))))
    gain = np.log(likelihoods @ best).sum() - np.log(np.maximum(likelihoods @ same, TINY)).sum()
    evidence = 2 * gain / max(n_free, 1) * per_source
    # of equal proportions the evidence is a chi-square variable over its degrees of freedom
    deviations = (evidence - 1) / np.sqrt(2 / max(n_free, 1))
    trust = float(np.clip((deviations - _SAME) / (_DIFFERENT - _SAME), 0, 1)) if n_free else 0.0
    # labels that are less certain than those of left-out targets: a shift may have moved as many to other classes
    fall = max(0.0, fall_of_certainty(found, left_out)[0])
    confusion = np.eye(len(own))  # a pseudo-image that is recognized: classes without left-out targets have no other
    np.add.at(confusion, (model.labels, left_out.argmax(axis=1)), 1.0)
    confusion /= confusion.sum(axis=1, keepdims=True)
    nearest = np.bincount(found.argmax(axis=1), minlength=len(own)) / n
    trust *= max(0.0, 1 - fall / max(float(np.abs(same @ confusion - nearest).sum()) / 2, TINY))
    smoothed = likeliest_proportions(some, prior=_PRIOR_IMAGES)
    certainty = 1 - 0.5 / np.maximum(counts, 1)  # a class of one image is as good as half known
    proportions = _blend(_blend(smoothed, even, certainty), same, trust)
    # errors of a class of few targets are the same for all sources, and the estimate amplifies them
    priors = _blend(_blend(smoothed, even, counts / (counts + 20)), same, trust)
    firmness = certainty * (_FIRMNESS_OF_SAME + (1 - _FIRMNESS_OF_SAME) * trust)
    return ProportionEstimate(proportions, priors, firmness, trust, _bootstrap(model, likelihoods, best))


def fall_of_certainty(found: Vector, left_out: Vector) -> tuple[float, float]:
    """Mean fall of the highest probability from left-out targets to sources of the same label; its standard error."""
    labels, certain = found.argmax(axis=1), found.max(axis=1)
    others, of_others = left_out.argmax(axis=1), left_out.max(axis=1)
    counts = np.bincount(others, minlength=found.shape[1])
    means = np.bincount(others, of_others, len(counts)) / np.maximum(counts, 1)
    falls = np.where(counts[labels] > 0, means[labels] - certain, 0.0)
    fractions = np.bincount(labels, minlength=len(counts)) / len(labels)
    variance = float(np.square(of_others - means[others]).mean()) * (fractions**2 / np.maximum(counts, 1)).sum()
    return float(falls.mean()), float(np.sqrt(falls.var() / len(falls) + variance))


def _own_proportions(model: ClassModel, n_sources: int, corrected: int) -> Vector:
    """Class proportions of the sources, if they had those of the target before the corrected ones were taken out."""
    counts = model.counts
    taken = np.bincount(model.codes[len(model.codes) - corrected :], minlength=len(counts))
    others = np.where(counts > taken, counts - taken, counts)
    expected = (n_sources + corrected) * others / others.sum()
    own: Vector = np.maximum(expected - taken, np.minimum(expected, _PRIOR_IMAGES))
    return own / own.sum()


def likeliest_proportions(log_likelihoods: Vector, *, prior: float = 0.0) -> Vector:
    """Proportions (classes,) of a mixture that make the elements most likely, with ``prior`` images of each class."""
    known = np.isfinite(log_likelihoods).any(axis=0)
    return _maximise(_exponentials(log_likelihoods), (known / known.sum())[:, None], prior=prior)[:, 0]


def _maximise(
    likelihoods: Any, start: Vector, weights: Vector | None = None, prior: float = 0.0, factors: Vector | float = 1.0
) -> Vector:
    """Proportions (classes, b) that make rows of likelihoods most likely, for b weightings (n, b) of the rows.

    The likelihoods of each weighting are multiplied by its ``factors`` (classes, b).
    """
    found = start
    for step in range(_EM_STEPS if found.shape[1] == 1 else _DRAW_STEPS):
        scaled = factors * found
        inverse = 1 / np.maximum(likelihoods @ scaled, TINY)
        new = scaled * (likelihoods.T @ (inverse if weights is None else weights * inverse)) + prior * (start > 0)
        new /= new.sum(axis=0)
        moved = float(np.abs(new - found).sum(axis=0).max())
        found = new
        if found.shape[1] > 1:
            runtime.progress("intervals", step + 1, _DRAW_STEPS)
        if moved < _EM_TOL:
            break
    return found


def class_offsets(log_likelihoods: Vector, proportions: Vector, *, held: float = 0.0) -> Vector:
    """Logarithms of the priors (classes,); ``held`` (0 to 1) is how far mean probabilities are held to proportions.

    Biases of the classes hold them, with the prior variance of the calibration: totals of few, certain labels are not.
    """
    prior = np.log(np.maximum(proportions, TINY))
    if held == 0 or len(proportions) < 2:
        return prior
    some = _exponentials(log_likelihoods[random_rows(len(log_likelihoods), _SOURCES)])
    wanted = some.shape[0] * proportions

    def loss(biases: Vector) -> tuple[float, Vector]:
        odds = np.exp(prior + biases)
        totals = np.maximum(some @ odds, TINY)
        value = np.log(totals).sum() - wanted @ biases + biases @ biases / (2 * BIAS_VARIANCE)
        return value, odds * (some.T @ (1 / totals)) - wanted + biases / BIAS_VARIANCE

    # bounded: no bias would hold the total of a class that no source is near
    found = minimize(loss, np.zeros(len(prior)), jac=True, method="L-BFGS-B", bounds=[(-16, 16)] * len(prior))
    return prior + held * np.asarray(found.x)


def _sharpening(model: ClassModel, held: float) -> float:
    """Factor of the log-probabilities where proportions are held, which removes errors that a class shares.

    What this gains for left-out targets is fitted to them. A left-out target deviates from the mean of the n - 1 others
    by n / (n - 1) times its deviation from the mean of all; the same error of a mean is shared by all sources.
    """
    if held == 0:
        return 1.0
    labels, n_classes = model.labels, len(model.counts)
    own = np.bincount(labels, minlength=n_classes) / len(labels)
    offsets = class_offsets(model.likelihoods, own, held=held)

    def loss(logarithm: float) -> float:
        found = probabilities(np.exp(logarithm) * model.likelihoods, np.exp(logarithm) * offsets)
        return -float(np.log(np.maximum(found[np.arange(len(labels)), labels], TINY)).mean())

    best = minimize_scalar(loss, bounds=(-1, 1), method="bounded", options={"xatol": 0.05}).x
    factor = np.exp(best) * (1 + held * np.mean(1 / np.maximum(model.counts[labels] - 1, 1)))
    return float(factor ** np.minimum(own, 1 / n_classes).sum())


def probabilities(log_likelihoods: Vector, offsets: Vector) -> Vector:
    """Class probabilities (n, classes)."""
    return softmax(log_likelihoods + offsets, axis=1)


def _bootstrap(model: ClassModel, likelihoods: Any, start: Vector) -> Vector:
    """Likeliest proportions (draws, classes) with sources drawn anew, and biases refitted by one Newton step."""
    n, n_classes = likelihoods.shape
    k = len(model.labels)
    generator = np.random.default_rng(0)
    draws = int(np.clip(1e8 / (n * n_classes), 30, 100))
    # the Newton step: curvature and gradient of the log-likelihood of the left-out targets, drawn anew
    p = probabilities(model.likelihoods, np.zeros(n_classes))
    drawn = generator.multinomial(k, np.full(k, 1 / k), size=draws) - 1.0
    curvature = np.diag(p.sum(axis=0)) - p.T @ p + np.eye(n_classes)
    factors = np.exp(np.linalg.solve(curvature, (drawn @ (np.eye(n_classes)[model.labels] - p)).T))
    weights = generator.multinomial(n, np.full(n, 1 / n), size=draws).T.astype(np.float64)
    begin = np.repeat(np.maximum(start, 1e-6)[:, None], draws, axis=1)
    return np.ascontiguousarray(_maximise(likelihoods, begin, weights, factors=factors).T)


def _exponentials(log_likelihoods: Vector) -> Any:
    """Likelihoods (n, classes), the largest of each row 1; of many classes a sparse matrix without negligible ones."""
    found = np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True))
    return found if found.shape[1] <= 64 else csr_array(np.where(found > 1e-7, found, 0.0))


def _blend(first: Vector, others: Vector, trust: float | Vector) -> Vector:
    """``first^trust * others^(1 - trust)``, summing to one."""
    logs = trust * np.log(np.maximum(first, TINY)) + (1 - trust) * np.log(np.maximum(others, TINY))
    blended: Vector = np.where(others > 0, np.exp(logs), 0.0)
    blended /= blended.sum()
    return blended


def shift_test(classes: SourceClasses, see: FeatureMap, metric: str, rows: Sides, distances: Vector) -> Shift:
    """Two-sample tests between as many sources and left-out targets of every label: neighbours, distances, confidence.

    Sources may be upright, moved, or both, and interpolation by a motion can be seen: sources differ only if they can
    be told from left-out targets of all three kinds. Differences of neighbours and distances may cost no accuracy,
    which follows the confidence (Guillory et al., 2021): they count if that falls, or may fall by more than a limit.
    """
    from scipy.stats import ks_2samp, t

    model, found, generator = classes.model, classes.probabilities, np.random.default_rng(0)
    left_out = probabilities(model.likelihoods, classes.offsets)
    of_sources, of_targets = found.argmax(axis=1), left_out.argmax(axis=1)
    pairs: list[tuple[int, int]] = []  # of a source and a target with one label
    for label in np.intersect1d(of_sources, of_targets):
        members = (generator.permutation(np.flatnonzero(given == label)) for given in (of_sources, of_targets))
        pairs.extend(zip(*members, strict=False))
    if len(pairs) <= 2 * _NEIGHBOURS:
        return NO_SHIFT_TEST
    sources, targets = np.array(pairs).T
    farther = ks_2samp(distances[sources], model.distances[targets], alternative="less")
    kept = generator.permutation(len(pairs))[:_POOL]
    sources, targets, n = sources[kept], targets[kept], len(kept)
    pool = np.concatenate([rows[0][sources], model.moved[targets], rows[1][model.left_out[targets]]])
    apart = see.unlearned_distance(pool, pool, cast(Metric, metric)).rows(0, 3 * n)
    kinds = (np.zeros(n, dtype=bool), np.ones(n, dtype=bool), generator.random(n) < 0.5)  # where targets are upright
    chosen = (np.concatenate([np.arange(n), n + np.arange(n) + n * upright]) for upright in kinds)
    told = [_told_apart(apart[np.ix_(at, at)], generator) for at in chosen]
    separability, p_value = min(told, key=lambda each: (-each[1], each[0]))
    fall, error = fall_of_certainty(found, left_out)
    error = max(error, 1e-6)
    less_sure = t.sf(fall / error, len(pairs) - 1)
    costs = bool(less_sure < 0.05 or t.cdf((fall - _LOSS) / error, len(pairs) - 1) > 0.05)
    tests = [
        (costs and separability > _VISIBLE, p_value),
        (costs and farther.statistic > 0.1, farther.pvalue),
        (fall > 0.02, less_sure),
    ]
    differs = any(bool(visible and 3 * p_value < 0.01) for visible, p_value in tests)
    p_value = min(1.0, 3 * float(min(p for _, p in tests)))
    return Shift(separability, float(farther.statistic), p_value, differs)


def _told_apart(distances: Rows, generator: np.random.Generator) -> tuple[float, float]:
    """Accuracy of nearest neighbours at telling the halves apart; its p-value under swaps in pairs."""
    np.fill_diagonal(distances, np.inf)
    nearest = np.argpartition(distances, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]

    def told(swapped: NDArray[np.bool_]) -> float:
        member = np.concatenate([~swapped, swapped])
        return float(((member[nearest].mean(axis=1) > 0.5) == member).mean())

    n = len(distances) // 2
    observed = told(np.zeros(n, dtype=bool))
    drawn = np.array([told(generator.random(n) < 0.5) for _ in range(_PERMUTATIONS)])
    return observed, float((1 + (drawn >= observed).sum()) / (1 + _PERMUTATIONS))
