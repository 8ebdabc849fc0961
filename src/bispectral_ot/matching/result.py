"""The result of a match: pairs, masses, labels and a distance, without ever forming the plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_choice, check_integer, check_share
from bispectral_ot.costs import PlanSummary
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import as_dataset, is_chunked
from bispectral_ot.errors import InputError
from bispectral_ot.features import FeatureMap, fit_sample
from bispectral_ot.matching.labels import CHECKED, SourceClasses, label_table
from bispectral_ot.matching.outliers import Outliers, OutlierScores, Rows, outlier_scores
from bispectral_ot.matching.plotting import PlotKind, match_html, plot_match
from bispectral_ot.matching.predictor import VOTERS, Predictor
from bispectral_ot.matching.results import (
    ClassProportions,
    ExpectedAccuracy,
    Headline,
    LabelDetails,
    Prediction,
    Shift,
    TopMatches,
)
from bispectral_ot.poses import Poses, estimate_poses, find_motions, practice_rows, upright_images
from bispectral_ot.transport import Coupling, EntropicCoupling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Side = Literal["source", "target"]
# Best matches that are kept from the first pass; asking for more costs another pass.
KEPT_MATCHES = 10


@dataclass(frozen=True, eq=False)
class Match:
    """Two datasets paired by content.

    Attributes
    ----------
    coupling : the transport plan, readable by rows
    source, target : the two sides, where the match began with images; poses are read off them
    source_labels, target_labels : labels of the two sides where they are known (names, where they come from a
        Dataset), else None
    settings : how it was computed: symmetry, features, metric, storage and everything that is not exact
    seconds : time spent in each stage
    memory : peak memory of the process in bytes, by the end of each stage; in a study, during it
    feature_map, features : fitted map from images to features, and the rows of both sides; None without images
    summary : what a pass over the plan read, where that was done already
    classes : class probabilities of the sources, where the target has labels to learn them from
    outlier_scores : of both sides, where they were computed with the match
    moved : moved targets that the features were fitted to, too

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> match = bot.match(source, target)
    >>> match.top_matches(k=3).indices.shape
    (100, 3)
    >>> match.labels().shape
    (100, 6)
    """

    coupling: Coupling
    source: Dataset | None = field(default=None, repr=False)
    target: Dataset | None = field(default=None, repr=False)
    source_labels: NDArray[Any] | None = None
    target_labels: NDArray[Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    feature_map: FeatureMap | None = None
    features: tuple[Rows, Rows] | None = field(default=None, repr=False)
    summary: PlanSummary | None = field(default=None, repr=False)
    classes: SourceClasses | None = field(default=None, repr=False)
    outlier_scores: OutlierScores | None = field(default=None, repr=False)
    moved: Dataset | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        n, m = self.coupling.shape
        state = "converged" if self.converged else "NOT converged"
        features = f" by {self.settings['features']}" if "features" in self.settings else ""
        return (
            f"Match({n:,} x {m:,}{features}, distance {self.distance:.6g} ({self.coupling.cost.metric}), {state}: "
            f"marginal error {self.marginal_error:.1e})"
        )

    def _repr_html_(self) -> str:
        return match_html(self)

    def plot(self, kind: PlotKind | None = None, *, n: int = 6, k: int = 5, ax: Axes | None = None) -> Axes:
        """Draw the match on matplotlib axes, which are returned.

        Parameters
        ----------
        kind
            ``"pairs"``: some sources, each with its best targets and their weights; ``"classes"``: confusion table;
            ``"check"``: the least certain labels; ``"outliers"``; ``"proportions"``: class proportions. Pairs by
            default, where the match has images.
        n, k
            Number of images that are drawn, and of targets of each.
        ax
            Axes to draw on; those of a new figure by default.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
        >>> axes = bot.match(source, target).plot("classes")
        >>> axes.images[0].get_array().shape
        (10, 10)
        """
        return plot_match(self, kind, n=n, k=k, ax=ax)

    @property
    def images_elsewhere(self) -> bool:
        """Whether images of a side are a ``dask.array``, of which not all are to be read here."""
        return any(side is not None and is_chunked(side.images) for side in (self.source, self.target))

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
        """Mass that goes over; 1 unless the solver relaxes the source's side or leaves a share behind."""
        return float(self._summary.row_sums.sum())

    def top_matches(self, k: int = 5) -> TopMatches:
        """Best targets of each source, k of them, with their weights: the fractions of its mass that they get.

        Exact transport gives mass to one or two targets of each source: there is no third best, and its index is -1.
        """
        summary = self._best(k)
        weights = summary.top_masses[:, :k] / _positive(self.coupling.source_weights)[:, None]
        return TopMatches(np.where(weights > 0, summary.top_indices[:, :k], -1), weights)

    def top_distances(self, k: int = 5) -> NDArray[np.float64]:
        """Distances (n, k) to the targets of :meth:`top_matches`, in the units of the metric; NaN where there is none.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
        >>> bot.match(source, target).top_distances(k=3).shape
        (100, 3)
        """
        summary = self._best(k)
        return np.where(summary.top_masses[:, :k] > 0, summary.top_costs[:, :k], np.nan)

    def poses(self, k: int = 10, *, symmetry: str | None = None, seed: int = 0) -> Poses:
        """How each source has to be turned, mirrored or moved to stand like its k best targets.

        The targets vote, by their share of the mass and by how well they fit; see docs/poses.md.

        Parameters
        ----------
        k
            Targets that vote. With one, the source is turned to its best target alone.
        symmetry
            Of the poses; that of the match by default.
        seed
            Of the turns that scores and uncertainties are learnt from.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=20)
        >>> poses = bot.match(bot.rotate_randomly(source), target).poses()
        >>> poses.angles.shape
        (200,)
        """
        if self.source is None or self.target is None:
            raise InputError(
                "this match has no images, and poses are read off them; keep the Match that match() returned, or match "
                "the two sets again."
            )
        check_integer("k", k, minimum=1)
        top = self.top_matches(max(k, 2))  # what a vote is worth is learnt from the second best
        if not (top.indices >= 0).any():
            raise InputError("no source has a target, so that there is nothing to stand like; see match.converged.")
        transformer = None if self.feature_map is None else self.feature_map.transformer
        motions = find_motions(symmetry or self.settings.get("symmetry"), self.source.images, transformer)
        images = self.source.images, self.target.images
        return estimate_poses(motions, *images, top.indices, top.weights, k=k, seed=seed)

    def upright(
        self,
        images: ArrayLike | None = None,
        *,
        poses: Poses | None = None,
        fill: float | None = None,
        expand: bool = False,
        guess: bool = False,
    ) -> NDArray[Any]:
        """The sources in the poses of their targets; those without a certain pose stay as they are.

        Parameters
        ----------
        images
            The sources at another resolution, say; those of the match by default.
        poses
            What :meth:`poses` gave; asked for here by default.
        fill
            What corners get; the median of each image's border by default.
        expand
            Enlarge the canvas so that nothing is cut off.
        guess
            Move those whose pose is ambiguous, too.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=20)
        >>> bot.match(bot.rotate_randomly(source), target).upright().shape
        (200, 8, 8)
        """
        poses = self.poses() if poses is None else poses
        if images is None:
            if self.source is None:
                raise InputError("this match has no images; give those of the sources.")
            images = self.source.images
        return upright_images(np.asarray(images), poses, fill=fill, expand=expand, guess=guess)

    def class_weights(
        self, labels: ArrayLike | None = None, *, to: Side | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Weights of the classes of the other side: how the plan spreads the mass of each element over them.

        Parameters
        ----------
        labels
            Labels of the other side; those of its Dataset by default.
        to
            Whose elements get a row: ``"source"`` (the default where the target has labels) or ``"target"``.

        Returns
        -------
        classes : (c,) the distinct labels, sorted
        weights : (n, c) rows sum to one
        """
        if to is None and labels is None and self.source_labels is None and self.target_labels is None:
            raise InputError("neither set has labels to transfer; pass labels=...")
        side = to or ("source" if labels is not None or self.target_labels is not None else "target")
        check_choice("side", side, get_args(Side))
        own = self.target_labels if side == "source" else self.source_labels
        if labels is None and own is None:
            other = "target" if side == "source" else "source"
            raise InputError(f"the {other} set has no labels to transfer; pass labels=...")
        size = self.coupling.shape[1 if side == "source" else 0]
        given = check_labels(own if labels is None else labels, size)
        classes, codes = np.unique(given, return_inverse=True)
        if labels is None:
            summary = self._summary
        elif side == "source":
            summary = self.coupling.summary(k=0, target_labels=codes)
        else:
            summary = self.coupling.summary(k=0, source_labels=codes)
        if side == "source":
            mass, weights = summary.source_class_mass, self.coupling.source_weights
        else:
            mass, weights = summary.target_class_mass.T, self.coupling.target_weights
        # what was measured rather than what was asked for: weights sum to one also where the solver stopped early
        return classes, mass / _positive(np.where(weights > 0, mass.sum(axis=1), 0.0))[:, None]

    def labels(self) -> Any:
        """Labels of the sources as a table (``pandas.DataFrame``), a row for each source.

        Columns: ``label``, its ``probability``, ``runner_up``, its ``runner_up_probability``, ``nearest_label`` (of the
        target of lowest cost) and ``outlier_score`` (see :meth:`outliers`; NaN where proportions are balanced).
        Probabilities are calibrated on targets that were left out, after random motions of the symmetry; where the
        target has no two classes of two images, they are weights of the plan.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
        >>> labels = bot.match(source, target).labels()
        >>> bool(labels.probability.between(0, 1).all())
        True
        """
        found = self.label_details()
        return label_table(
            {
                "label": found.labels,
                "probability": found.probabilities,
                "runner_up": found.runner_up,
                "runner_up_probability": found.runner_up_probabilities,
                "nearest_label": found.nearest,
                "outlier_score": found.outlier_scores,
            }
        )

    def label_details(self) -> LabelDetails:
        """Columns of :meth:`labels` as arrays."""
        return self._label_details

    @cached_property
    def _label_details(self) -> LabelDetails:
        if self.target_labels is None:
            raise InputError("the target set has no labels to transfer; give Dataset(images, labels).")
        if self.classes is None:
            classes, found = self.class_weights(to="source")
        else:
            classes, found = self.classes.model.classes, self.classes.probabilities
        rows, summary = np.arange(len(found)), self._summary
        best = found.argmax(axis=1)
        rest = found.copy()
        rest[rows, best] = -1.0
        second = rest.argmax(axis=1) if len(classes) > 1 else best
        return LabelDetails(
            classes[best],
            found[rows, best],
            classes[second],
            found[rows, second],
            self.target_labels[summary.nearest],
            summary.nearest_costs,
            np.full(len(rows), np.nan) if self.outlier_scores is None else self.outlier_scores.source,
            calibrated=self.classes is not None,
        )

    def to_check(self, accuracy: float = CHECKED) -> NDArray[np.int64]:
        """Sources whose labels to check, the least probable first, so that a fraction ``accuracy`` of all is right.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
        >>> match = bot.match(source, target)
        >>> len(match.to_check(0.9)) <= len(match.to_check(0.99))
        True
        """
        check_share("accuracy", accuracy)
        return self._known_classes.to_check(accuracy)

    def expected_accuracy(self) -> ExpectedAccuracy:
        """Expected accuracy of the labels of the sources, with a 90 % interval; see :meth:`shift` for its reliability.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
        >>> found = bot.match(source, target).expected_accuracy()
        >>> 0 <= found.low <= found.value <= found.high <= 1
        True
        """
        return self._known_classes.expected_accuracy()

    def shift(self) -> Shift:
        """Test whether the sources look like moved targets; where they do not, labels may be worse than expected."""
        return self._known_classes.shift

    def headline(self) -> Headline | None:
        """Expected accuracy, shift and number of labels to check; None where the target has no labels to learn from."""
        return None if self.classes is None else self.classes.headline()

    @property
    def _known_classes(self) -> SourceClasses:
        if self.classes is None:
            raise InputError(
                "this match has no class probabilities: the target needs labels, and two classes of two images or more."
            )
        return self.classes

    def class_proportions(self, *, level: float = 0.9) -> ClassProportions:
        """Estimated proportions of the target's classes in the source, with bootstrap intervals of this level.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=20)
        >>> found = bot.match(source.select(source.labels < 5), target).class_proportions()
        >>> bool(found.source[:5].sum() > 0.9)
        True
        """
        check_share("level", level)
        if self.target_labels is None:
            raise InputError("the target set has no labels, of whose classes proportions could be estimated.")
        estimate = self._known_classes.estimate
        low, high = estimate.intervals(level)
        classes, codes = np.unique(self.target_labels, return_inverse=True)
        received = np.bincount(codes, weights=self._summary.column_sums)
        own = estimate.counts / estimate.counts.sum()
        return ClassProportions(classes, estimate.proportions, low, high, own, received / received.sum())

    def outliers(self, level: float = 0.05, *, side: Side = "source") -> Outliers:
        """Outliers: elements that are farther from the other set than all but ``level`` of its own elements.

        A plan between samples of both sets, relaxed on both sides, gives each element a soft distance to the other set,
        and each element of the other set the same distance to the rest of its own. Of elements that are no outliers,
        about a fraction ``level`` is found, too.

        Parameters
        ----------
        level
            Fraction of the other set's elements that may be as far from the rest.
        side
            Whose elements are judged: ``"source"``, or ``"target"`` for targets that no source wants.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=20)
        >>> found = bot.match(source, target.select(target.labels < 5)).outliers(0.1)
        >>> bool((source.labels[found.indices] >= 5).mean() > 0.8)
        True
        """
        check_share("level", level)
        check_choice("side", side, get_args(Side))
        return self._outlier_scores.below(level, side)

    def predict(self, images: ArrayLike | Dataset, *, k: int = 5, poses: bool = False, seed: int = 0) -> Prediction:
        """Labels, probabilities and best targets of new source images, without a new solve.

        The mass of an image goes to target j in proportion to ``exp((g_j - c_j) / epsilon)``, as it does for the images
        that took part: the same image gets the same answer, up to rounding.

        Parameters
        ----------
        images
            Of the size of those that took part.
        k
            Best targets of each image.
        poses
            Whether to find how each image has to be turned, too, as :meth:`poses` does.
        seed
            Of the turns that scores and uncertainties of poses are learnt from.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
        >>> match = bot.match(source, target)
        >>> bool((match.predict(source).labels == match.labels().label).all())
        True
        """
        return self.predictor.predict(as_dataset(images, name="images"), k=k, poses=poses, seed=seed)

    def save(
        self, folder: str | Path, *, report: bool = True, figures: bool = True, k: int = 5, overwrite: bool = False
    ) -> Path:
        """Write the run folder that the command ``match`` writes, and return its path.

        Parameters
        ----------
        folder
            Output folder; created only if everything is written.
        report
            Whether to write ``report.html``.
        figures
            Whether to draw figures.
        k
            Number of targets per source in ``matches.csv``.
        overwrite
            Replace an earlier run of a match in that folder.
        """
        from bispectral_ot.report.saved_run import save_match  # the only way back along the pipeline

        return save_match(self, folder, report=report, figures=figures, k=k, overwrite=overwrite)

    @cached_property
    def predictor(self) -> Predictor:
        """What :meth:`predict` uses, which can be saved."""
        if not isinstance(self.coupling, EntropicCoupling):
            raise InputError("only an entropic match has potentials to predict by; solve with Sinkhorn.")
        see, rows = self._seen("new images are compared with them, and predictions are")
        assert self.source is not None
        assert self.target is not None
        top = self.top_matches(VOTERS)
        chosen = practice_rows(top.indices)
        return Predictor(
            target=self.target,
            potential=self.coupling.target_potential,
            reg=self.coupling.reg,
            scale=self.coupling.cost.scale,
            tol=self.coupling.tol,
            feature_map=see,
            settings=self.settings,
            practice=TopMatches(top.indices[chosen], top.weights[chosen]),
            sample=fit_sample([self.source, self.target, *([] if self.moved is None else [self.moved])]),
            target_features=rows[1],
            classes=self.classes,
        )

    def _seen(self, why: str) -> tuple[FeatureMap, tuple[Rows, Rows]]:
        if self.feature_map is None or self.features is None:
            raise InputError(
                f"this match has no images, and {why} read off them; keep the Match that match() returned, or match "
                "the two sets again."
            )
        return self.feature_map, self.features

    @cached_property
    def _outlier_scores(self) -> OutlierScores:
        if self.outlier_scores is not None:
            return self.outlier_scores
        see, rows = self._seen("distances within a set are")
        return outlier_scores(see, self.settings["metric"], rows)

    def _best(self, k: int) -> PlanSummary:
        check_integer("k", k, minimum=1)
        return self._summary if k <= KEPT_MATCHES else self.coupling.summary(k=k)

    @cached_property
    def _summary(self) -> PlanSummary:
        return self.summary or read_plan(self.coupling, self.source_labels, self.target_labels)


def read_plan(
    coupling: Coupling, source_labels: NDArray[Any] | None, target_labels: NDArray[Any] | None
) -> PlanSummary:
    """One pass over a plan for what a :class:`Match` is asked for most."""

    def codes(labels: NDArray[Any] | None) -> NDArray[np.int64] | None:
        return None if labels is None else np.unique(labels, return_inverse=True)[1].astype(np.int64)

    return coupling.summary(k=KEPT_MATCHES, source_labels=codes(source_labels), target_labels=codes(target_labels))


def label_names(dataset: Dataset) -> NDArray[Any] | None:
    """Labels by name, so that two sets with different class lists are compared by meaning, not by number."""
    return None if dataset.labels is None else np.asarray(dataset.classes)[dataset.labels]


def check_labels(labels: ArrayLike | None, size: int) -> NDArray[Any]:
    """Labels as an array (size,), or an :class:`InputError` that says what is wrong."""
    try:
        array = np.asarray(labels)
        if array.dtype.kind == "O":
            np.unique(array)
    except (TypeError, ValueError):  # a None among names, lists of different lengths
        raise InputError("labels must be all numbers or all strings, one per element.") from None
    if array.shape != (size,):
        given = f"{len(array)} entries" if array.ndim == 1 else f"shape {array.shape}"
        raise InputError(f"labels has {given} but there are {size} elements; give one label per element.")
    return array


def _positive(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights to divide by: an element without mass has weights of 0, not NaN."""
    return np.where(weights > 0, weights, 1.0)
