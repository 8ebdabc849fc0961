"""Match of two datasets: pairs, labels, probabilities and a distance; the transport plan is never formed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pandas import DataFrame

from bispectral_ot import runtime
from bispectral_ot.checks import check_choice, check_integer, check_share
from bispectral_ot.costs import PlanSummary
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import is_chunked
from bispectral_ot.drawing import Axes
from bispectral_ot.errors import InputError
from bispectral_ot.features import FeatureMap
from bispectral_ot.matching.class_model import Rows
from bispectral_ot.matching.evaluation import PlotKind, given_or_own, match_html, plot_match
from bispectral_ot.matching.outliers import Outliers, OutlierScores, outlier_scores
from bispectral_ot.matching.predictor import VOTERS, Prediction, Predictor, TopMatches
from bispectral_ot.matching.source_classes import ClassProportions, ExpectedAccuracy, Shift, SourceClasses
from bispectral_ot.memory import peak_memory
from bispectral_ot.poses import Poses, estimate_poses, find_motions, upright_images
from bispectral_ot.poses.estimate import practice_rows
from bispectral_ot.transport import Coupling, EntropicCoupling

Side = Literal["source", "target"]
# Best matches per source that are stored; more of them need another pass over the plan.
KEPT_MATCHES = 10


@dataclass(frozen=True, eq=False)
class Match:
    """Match of two datasets: labels, best targets, class proportions, outliers, poses and distance.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=20)
    >>> match = bot.match(bot.rotate_randomly(source), target)
    >>> match.top_matches(k=3).indices.shape, match.labels().shape, match.poses().angles.shape
    ((200, 3), (200, 7), (200,))
    >>> bool((match.predict(match.source).labels == match.labels().label).all())
    True
    """

    coupling: Coupling  # transport plan, which can be read row by row
    source: Dataset
    target: Dataset
    settings: dict[str, Any]  # and every approximation that was used
    feature_map: FeatureMap
    features: tuple[Rows, Rows]  # of both sets
    seconds: dict[str, float] = field(default_factory=dict)  # time of each stage
    memory: dict[str, int] = field(default_factory=dict)  # peak of the process at the end of each stage, in bytes
    summary: PlanSummary | None = None
    classes: SourceClasses | None = None  # None if the target has no labels
    outlier_scores: OutlierScores | None = None  # None if marginals are balanced

    def __repr__(self) -> str:
        n, m = self.coupling.shape
        state = "converged" if self.converged else "NOT converged"
        distance = f"distance {self.distance:.6g} ({self.coupling.cost.metric})"
        found = f"{distance}, {state}: marginal error {self.marginal_error:.1e}"
        return f"Match({n:,} x {m:,} by {self.settings['features']}, {found})"

    _repr_html_ = match_html

    def plot(self, kind: PlotKind | None = None, *, n: int = 6, k: int = 5, ax: Axes | None = None) -> Axes:
        """Draw n sources with their k best targets (``kind="pairs"``) or the confusion matrix (``kind="classes"``)."""
        return plot_match(self, kind, n=n, k=k, ax=ax)

    @cached_property
    def source_labels(self) -> NDArray[Any] | None:
        """Class of each source, by name; None if the sources have no labels."""
        return label_names(self.source)

    @cached_property
    def target_labels(self) -> NDArray[Any] | None:
        """Class of each target, by name; None if the targets have no labels."""
        return label_names(self.target)

    @property
    def images_elsewhere(self) -> bool:
        """Whether the images of a set are a ``dask.array``, which is not loaded into memory."""
        return is_chunked(self.source.images) or is_chunked(self.target.images)

    @property
    def distance(self) -> float:
        """Transport cost ``sum P * C`` in the units of the metric."""
        return self.coupling.transport_cost

    @property
    def converged(self) -> bool:
        """Whether the measured marginal error is within the solver's tolerance."""
        return self.coupling.converged

    @property
    def marginal_error(self) -> float:
        """``|P 1 - p|_1 + |P^T 1 - q|_1``, measured in float64."""
        return self.coupling.marginal_error

    @property
    def mass(self) -> float:
        """Total transported mass (1 if balanced)."""
        return float(self._summary.row_sums.sum())

    def top_matches(self, k: int = 5) -> TopMatches:
        """Best k targets of each source, with their weights: the fractions of its mass that they receive."""
        summary = self._best(k)
        sent = self.coupling.source_weights
        weights = summary.top_masses[:, :k] / np.where(sent > 0, sent, 1.0)[:, None]  # without mass 0, not NaN
        return TopMatches(np.where(weights > 0, summary.top_indices[:, :k], -1), weights)

    def top_distances(self, k: int = 5) -> NDArray[np.float64]:
        """Distances (n, k) to the targets of :meth:`top_matches`, in the units of the metric; NaN if there is none."""
        summary = self._best(k)
        return np.where(summary.top_masses[:, :k] > 0, summary.top_costs[:, :k], np.nan)

    def poses(self, k: int = 10, *, symmetry: str | None = None, seed: int = 0) -> Poses:
        """Poses: the motion of each source that aligns it with its k best targets, by voting; see docs/poses.md.

        ``symmetry`` defaults to that of the match; ``seed`` is for the random rotations that calibrate uncertainties.
        """
        check_integer("k", k, minimum=1)
        top = self.top_matches(max(k, 2))  # the weight of a vote is calibrated on the second best
        if not (top.indices >= 0).any():
            raise InputError("no source has a target, so there are no poses; see match.converged.")
        asked = symmetry or self.settings["symmetry"]
        motions = find_motions(asked, self.source.images, self.feature_map.transformer, self.source.kind)
        with runtime.running():
            return estimate_poses(motions, (self.source.images, self.target.images), top, k=k, seed=seed)

    def upright(
        self,
        images: ArrayLike | None = None,
        *,
        poses: Poses | None = None,
        fill: float | None = None,
        expand: bool = False,
        include_ambiguous: bool = False,
    ) -> NDArray[Any]:
        """Sources rotated to the poses of their targets; images with an ambiguous pose are returned unchanged.

        ``images`` (at any resolution) and ``poses`` default to those of the match. ``fill`` is the value of corners, by
        default the median of each border; ``expand`` enlarges the canvas; ``include_ambiguous`` rotates all images.
        """
        poses = self.poses() if poses is None else poses
        given = self.source.images if images is None else np.asarray(images)
        return upright_images(given, poses, fill=fill, expand=expand, include_ambiguous=include_ambiguous)

    def class_weights(
        self, labels: ArrayLike | None = None, *, to: Side | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Distinct labels (c,) of the other set, and fractions (n, c) of each element's mass that go to each label.

        ``labels`` default to those of the other dataset. ``to`` is the set whose elements are the rows: ``"source"``
        (the default if the target has labels) or ``"target"``.
        """
        if to is None and labels is None and self.source_labels is None and self.target_labels is None:
            raise InputError("neither set has labels to transfer; pass labels=...")
        side = to or ("source" if labels is not None or self.target_labels is not None else "target")
        check_choice("side", side, get_args(Side))
        own, other = (self.target_labels, "target") if side == "source" else (self.source_labels, "source")
        given = given_or_own(labels, own, self.coupling.shape[side == "source"], other)
        classes, codes = np.unique(given, return_inverse=True)
        summary = self._summary if labels is None else self.coupling.summary(k=0, **{f"{other}_labels": codes})
        if side == "source":
            mass, weights = summary.source_class_mass, self.coupling.source_weights
        else:
            mass, weights = summary.target_class_mass.T, self.coupling.target_weights
        # divided by measured sums: weights sum to one even if the solver stopped early
        sums = np.where(weights > 0, mass.sum(axis=1), 0.0)
        return classes, mass / np.where(sums > 0, sums, 1.0)[:, None]

    def labels(self) -> DataFrame:
        """Table of labels (``pandas.DataFrame``) with one row per source, and its file if the sources are files.

        ``nearest_label`` and ``nearest_distance`` belong to the target of lowest cost; ``outlier_score`` is NaN if
        marginals are balanced. Probabilities are calibrated on left-out targets after random motions of the symmetry.
        If fewer than two classes have two targets, probabilities are weights of the plan.
        """
        if self.target_labels is None:
            raise InputError("the target set has no labels to transfer; give Dataset(images, labels).")
        if self.classes is None:
            classes, found = self.class_weights(to="source")
        else:
            classes, found = self.classes.model.classes, self.classes.probabilities * self.classes.known[:, None]
        rows = np.arange(len(found))
        best = found.argmax(axis=1)
        rest = found.copy()
        rest[rows, best] = -1.0
        second = rest.argmax(axis=1) if len(classes) > 1 else best
        columns = {
            **({"file": list(self.source.files)} if self.source.files else {}),
            "label": classes[best],
            "probability": found[rows, best],
            "runner_up": classes[second],
            "runner_up_probability": found[rows, second],
            "nearest_label": self.target_labels[self._summary.nearest],
            "nearest_distance": self._summary.nearest_costs,
            "outlier_score": np.nan if self.outlier_scores is None else self.outlier_scores.source,
        }
        return DataFrame(columns)

    def to_check(self, accuracy: float = 0.95) -> NDArray[np.int64]:
        """Sources whose labels must be checked to reach an expected ``accuracy``, least probable label first."""
        check_share("accuracy", accuracy)
        return self._known_classes.to_check(accuracy)

    def expected_accuracy(self) -> ExpectedAccuracy:
        """Expected accuracy of the labels, with a 90 % interval; it assumes that :meth:`shift` finds no difference."""
        return self._known_classes.expected_accuracy()

    def shift(self) -> Shift:
        """Test whether sources and targets differ by more than the symmetry; labels may then be worse than expected."""
        return self._known_classes.shift

    def headline(self) -> dict[str, Any]:
        """Expected accuracy, shift and number of labels to check, for ``results.json``; empty without class model."""
        if self.classes is None:
            return {}
        value, low, high = self.expected_accuracy()
        return {
            "expected_accuracy": value,
            "expected_accuracy_low": low,
            "expected_accuracy_high": high,
            "shift": {**self.shift()._asdict(), "words": str(self.shift())},
            "to_check": len(self.to_check()),
            "doubtful_targets": self.classes.model.doubtful.tolist(),
        }

    @property
    def _known_classes(self) -> SourceClasses:
        if self.classes is None:
            raise InputError("no class probabilities: they need two classes of two targets, and metric learning.")
        return self.classes

    def class_proportions(self, *, level: float = 0.9) -> ClassProportions:
        """Estimated class proportions of the source, with bootstrap intervals of the given level."""
        check_share("level", level)
        if self.target_labels is None:
            raise InputError("class proportions need labels on the target; give Dataset(images, labels).")
        estimate = self._known_classes.estimate
        classes, codes = np.unique(self.target_labels, return_inverse=True)
        received = np.bincount(codes, weights=self._summary.column_sums)
        own = np.bincount(codes) / len(codes)
        low, high = np.quantile(estimate.draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
        low = np.minimum(np.where(low < 1e-3 / len(classes), 0.0, low), estimate.proportions)
        high = np.maximum(high, estimate.proportions)
        return ClassProportions(classes, estimate.proportions, low, high, own, received / received.sum())

    def outliers(self, level: float = 0.05, *, side: Side = "source") -> Outliers:
        """Outliers: elements that are farther from the other set than all but a fraction ``level`` of its own elements.

        The false positive rate is about ``level``.
        """
        check_share("level", level)
        check_choice("side", side, get_args(Side))
        if self.outlier_scores is not None:
            return self.outlier_scores.below(level, side)
        return outlier_scores(self.feature_map, self.settings["metric"], self.features).below(level, side)

    def predict(
        self, images: ArrayLike | Dataset | Path, *, k: int = 5, poses: bool = False, seed: int = 0
    ) -> Prediction:
        """Prediction of labels, probabilities and best k targets for new images, without solving again.

        Sources of the match get the same labels as before. ``poses=True`` also estimates poses.
        """
        return self.predictor.predict(self.predictor.read(images), k=k, poses=poses, seed=seed)

    def save(
        self, folder: str | Path, *, report: bool = True, figures: bool = True, k: int = 5, overwrite: bool = False
    ) -> Path:
        """Write the same run folder as the command ``match``, with k targets per source, and return its path."""
        from bispectral_ot.report.run_folder import save_match  # the only import against the order of the pipeline

        return save_match(self, folder, report=report, figures=figures, k=k, overwrite=overwrite)

    @cached_property
    def predictor(self) -> Predictor:
        """Predictor for new images, which can be saved to a file."""
        if not isinstance(self.coupling, EntropicCoupling):
            raise InputError("prediction needs the potentials of an entropic solver; match with Sinkhorn.")
        plan = self.coupling
        top = self.top_matches(VOTERS)
        practised = practice_rows(top.indices)
        return Predictor(
            target=self.target,
            potential=plan.target_potential,
            reg=plan.reg,
            scale=plan.cost.scale,
            tol=plan.tol,
            feature_map=self.feature_map,
            settings=self.settings,
            practice=TopMatches(top.indices[practised], top.weights[practised]),
            target_features=self.features[1],
            classes=self.classes,
            outliers=None if self.outlier_scores is None else self.outlier_scores.reference,
        )

    def _best(self, k: int) -> PlanSummary:
        check_integer("k", k, minimum=1)
        return self._summary if k <= KEPT_MATCHES else self.coupling.summary(k=k)

    @cached_property
    def _summary(self) -> PlanSummary:
        return self.summary or read_plan(self.coupling, self.source_labels, self.target_labels)


def read_plan(
    coupling: Coupling, source_labels: NDArray[Any] | None, target_labels: NDArray[Any] | None
) -> PlanSummary:
    """Summary of a plan with best matches and class masses, from one pass."""
    given = {"source_labels": source_labels, "target_labels": target_labels}
    codes = {side: np.unique(each, return_inverse=True)[1] for side, each in given.items() if each is not None}
    return coupling.summary(k=KEPT_MATCHES, **codes)


@dataclass(frozen=True)
class Stages:
    """Time of each stage in seconds, and peak memory of the process at its end in bytes."""

    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def measured(self, stage: str) -> Iterator[None]:
        """Measure the block as one stage."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start
        self.memory[stage] = peak_memory()

    def split(self, stage: str, first: str, seconds: float) -> None:
        """Count the first ``seconds`` of a stage as a stage of its own."""
        rest = self.seconds.pop(stage) - seconds
        self.seconds.update({first: seconds, stage: rest})


def label_names(dataset: Dataset) -> NDArray[Any] | None:
    """Class names of all elements: two sets may number their classes differently."""
    return None if dataset.labels is None else np.asarray(dataset.classes)[dataset.labels]
