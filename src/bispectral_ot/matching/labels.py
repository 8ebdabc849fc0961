"""Labels of sources: class probabilities, expected accuracy, and a test for shift between the sets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost, FeatureDistance, Metric
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.features import FeatureMap
from bispectral_ot.matching.class_model import Calibration, ClassModel
from bispectral_ot.matching.class_proportions import ProportionEstimate, class_offsets, estimate_proportions
from bispectral_ot.matching.results import ExpectedAccuracy, Headline, Shift

Rows = NDArray[np.float32]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# Shift: elements of either set, neighbours and permutations; separability, Kolmogorov-Smirnov distance and level from
# which sets count as different.
_POOL, _NEIGHBOURS, _PERMUTATIONS = 512, 9, 500
_VISIBLE, _FARTHER, _LEVEL = 0.55, 0.1, 0.01
# Of a normal distribution: 90 % are within.
_NORMAL_90 = 1.645
# Fields of a model and of an estimate that files have.
_OF_MODEL = (
    *("classes", "counts", "widths", "coefficients", "intercepts"),
    *("likelihoods", "labels", "moved", "distances", "shrinkage"),
)
_OF_ESTIMATE = ("counts", "proportions", "firmness", "evidence", "trust", "draws", "misfit", "nearest")
# Accuracy of the labels after the least probable ones were checked.
CHECKED = 0.95


@dataclass(frozen=True, eq=False)
class SourceClasses:
    """Class probabilities of the sources, and what they are judged by.

    Attributes
    ----------
    model : likelihoods of the classes
    estimate : class proportions of the sources
    offsets : (classes,) added to log-likelihoods for log-probabilities
    probabilities : (n, classes)
    shift : whether the sources look like moved targets
    """

    model: ClassModel
    estimate: ProportionEstimate
    offsets: Vector
    probabilities: Vector = field(repr=False)
    shift: Shift

    @classmethod
    def of(
        cls, model: ClassModel, see: FeatureMap, cost: Cost, rows: Rows, codes: Index, *, marginals: str, totals: Vector
    ) -> SourceClasses:
        """Class probabilities of the sources of a cost; ``totals`` are the target's weights by class."""
        likelihoods, distances = model.log_likelihoods(cost, rows, codes)
        estimate = estimate_proportions(model, likelihoods)
        if marginals == "estimated" and not estimate.collapsed:
            held = float(estimate.firmness.mean()) * (1 - estimate.trust)
            offsets = class_offsets(likelihoods, estimate.proportions, held=held)
        else:
            offsets = class_offsets(likelihoods, totals, held=float(marginals == "balanced"))
        found = probabilities(likelihoods, offsets)
        shift = shift_test(model, see, cost.metric, rows, found, distances, offsets)
        return cls(model, estimate, offsets, found, shift)

    def of_others(self, see: FeatureMap, cost: Cost, rows: Rows, codes: Index) -> SourceClasses:
        """Class probabilities of other images, from their cost to the targets, in the proportions of these."""
        likelihoods, distances = self.model.log_likelihoods(cost, rows, codes)
        found = probabilities(likelihoods, self.offsets)
        shift = shift_test(self.model, see, cost.metric, rows, found, distances, self.offsets)
        return replace(self, probabilities=found, shift=shift)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that predictions need, for a file."""
        model, estimate = self.model, self.estimate
        found: dict[str, Any] = {
            **{name: getattr(model, name) for name in _OF_MODEL},
            **{name: getattr(estimate, name) for name in _OF_ESTIMATE},
            "offsets": self.offsets,
            "calibration": np.concatenate([model.calibration.weights, [model.calibration.count_slope]]),
            "biases": model.calibration.biases,
        }
        return {name: np.asarray(values) for name, values in found.items() if values is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> SourceClasses:
        """Read what :meth:`arrays` gave."""
        numbers = arrays["calibration"]
        calibration = Calibration(numbers[:-1], float(numbers[-1]), arrays["biases"])
        of_model: dict[str, Any] = {name: arrays.get(name) for name in _OF_MODEL}
        of_model |= {"widths": tuple(map(float, arrays["widths"])), "shrinkage": float(arrays["shrinkage"])}
        of_estimate: dict[str, Any] = {name: arrays.get(name) for name in _OF_ESTIMATE}
        of_estimate |= {name: float(arrays[name]) for name in ("evidence", "trust", "misfit")}
        estimate = ProportionEstimate(**of_estimate)
        model = ClassModel(calibration=calibration, **of_model)
        return cls(model, estimate, arrays["offsets"], np.zeros((0, len(estimate.counts))), Shift(0.5, 0.0, 1.0, False))

    def headline(self) -> Headline:
        """Expected accuracy, shift, and number of labels to check."""
        return Headline(self.expected_accuracy(), self.shift, len(self.to_check(CHECKED)))

    def to_check(self, accuracy: float) -> Index:
        """Positions of the least probable labels, as many as must be checked for an expected accuracy of all."""
        best = self.probabilities.max(axis=1)
        order = np.argsort(best, kind="stable")
        # with the first k checked, the rest is right as often as its probabilities say
        right = np.arange(len(best) + 1) + best.sum() - np.concatenate([[0.0], np.cumsum(best[order])])
        enough = np.flatnonzero(right >= accuracy * len(best) - 1e-9)
        return order[: int(enough[0])]

    def expected_accuracy(self) -> ExpectedAccuracy:
        """Mean probability of the labels; its interval counts chance among sources and among left-out targets."""
        best, labels = self.probabilities.max(axis=1), self.model.labels
        found = self.probabilities.mean(axis=0)
        weights = (found / np.maximum(np.bincount(labels, minlength=len(found)), 1))[labels]
        weights /= weights.sum()
        left_out = probabilities(self.model.likelihoods, self.offsets)
        errors = (left_out.argmax(axis=1) == labels) - left_out.max(axis=1)
        value = float(best.mean())
        variance = float((best * (1 - best)).sum()) / len(best) ** 2 + float(np.square(weights * errors).sum())
        half = _NORMAL_90 * float(np.sqrt(variance))
        return ExpectedAccuracy(value, max(0.0, value - half), min(1.0, value + half))


def shift_test(
    model: ClassModel,
    see: FeatureMap,
    metric: str,
    rows: Rows,
    found: Vector,
    distances: Vector,
    offsets: Vector,
) -> Shift:
    """Two-sample tests between sources and left-out targets, of which of every label as many are taken.

    A nearest-neighbour classifier that tells them apart, and the distribution of their soft distances to the targets.
    Class proportions may differ.
    """
    from scipy.stats import ks_2samp

    generator = np.random.default_rng(0)
    of_sources, of_targets = found.argmax(axis=1), probabilities(model.likelihoods, offsets).argmax(axis=1)
    chosen: tuple[list[int], list[int]] = ([], [])
    for label in np.intersect1d(of_sources, of_targets):
        members = [generator.permutation(np.flatnonzero(given == label)) for given in (of_sources, of_targets)]
        count = min(map(len, members))
        for side, taken in zip(chosen, members, strict=True):
            side.extend(taken[:count])
    kept = generator.permutation(len(chosen[0]))[:_POOL]
    n = len(kept)
    if n <= 2 * _NEIGHBOURS:
        return Shift(0.5, 0.0, 1.0, False)
    farther = ks_2samp(distances[chosen[0]], model.distances[chosen[1]], alternative="less")
    apart = _told_apart(see, metric, rows[np.array(chosen[0])[kept]], model.moved[np.array(chosen[1])[kept]], generator)
    tests = ((apart[0] > _VISIBLE, apart[1]), (farther.statistic > _FARTHER, float(farther.pvalue)))
    differs = any(visible and 2 * p_value < _LEVEL for visible, p_value in tests)
    return Shift(apart[0], float(farther.statistic), min(1.0, 2 * min(p_value for _, p_value in tests)), differs)


def _told_apart(
    see: FeatureMap, metric: str, sources: Rows, targets: Rows, generator: np.random.Generator
) -> tuple[float, float]:
    """Accuracy of nearest neighbours at telling two sets of one size apart, and its p-value under permutations."""
    n, pool = len(sources), np.concatenate([np.asarray(sources), np.asarray(targets)])
    if see.learned is not None:  # by features as they are: a metric that was fitted to targets brings these together
        pool = see.learned.inverse(pool)
        distances = FeatureDistance(pool, pool, cast(Metric, metric)).rows(0, 2 * n)
    else:
        distances = see.distance(pool, pool, cast(Metric, metric)).rows(0, 2 * n)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argpartition(distances, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    is_source = np.arange(2 * n) < n

    def separability(member: NDArray[np.bool_]) -> float:
        return float(((member[nearest].mean(axis=1) > 0.5) == member).mean())

    observed = separability(is_source)
    drawn = np.array([separability(generator.permutation(is_source)) for _ in range(_PERMUTATIONS)])
    return observed, float((1 + (drawn >= observed).sum()) / (1 + _PERMUTATIONS))


def probabilities(log_likelihoods: Vector, offsets: Vector) -> Vector:
    """Class probabilities (n, classes)."""
    from scipy.special import softmax

    found: Vector = softmax(log_likelihoods + offsets, axis=1)
    return found


def warn_of_collapse(classes: SourceClasses) -> None:
    """Warn that estimated class proportions were refuted, with numbers."""
    estimate, names = classes.estimate, classes.model.classes
    assert estimate.nearest is not None
    excess = np.argsort(estimate.nearest - estimate.proportions)[:3]
    named = ", ".join(
        f"{names[c]} {estimate.proportions[c]:.0%} (most similar to {estimate.nearest[c]:.0%} of the sources, "
        f"{estimate.counts[c] / estimate.counts.sum():.0%} of the target)"
        for c in excess
    )
    warn(
        f"estimated class proportions were refuted: they predict labels of which {estimate.misfit:.0%} more than by "
        f"chance differ from those of the sources ({named}). The match is relaxed instead; the two sets may have been "
        "made in different ways, or the target may lack classes of the source.",
        DataWarning,
    )


def warn_of_shift(shift: Shift) -> None:
    """Warn where the sources are not moved targets."""
    if shift.differs:
        warn(f"{shift}. Match.shift() has the test, Match.outliers() the sources that differ most.", DataWarning)


def label_table(columns: dict[str, NDArray[Any]]) -> Any:
    """Table of labels as a DataFrame."""
    from pandas import DataFrame

    return DataFrame(columns)
