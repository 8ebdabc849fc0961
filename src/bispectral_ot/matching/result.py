"""Match of two datasets: pairs, labels, probabilities and a distance, and how well classes are preserved."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pandas import DataFrame, Series
from sklearn.metrics import confusion_matrix

from bispectral_ot import drawing, runtime
from bispectral_ot.checks import check_choice, check_integer, check_share, printable
from bispectral_ot.costs import PlanSummary
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import Pictures, is_chunked
from bispectral_ot.drawing import Axes, Tile, frame_html, shortened
from bispectral_ot.errors import InputError, warn
from bispectral_ot.features import FeatureMap
from bispectral_ot.files import any_names
from bispectral_ot.matching.class_model import Rows
from bispectral_ot.matching.outliers import Outliers, OutlierScores, outlier_scores
from bispectral_ot.matching.predictor import VOTERS, Prediction, Predictor, TopMatches
from bispectral_ot.matching.source_classes import ClassProportions, ExpectedAccuracy, Shift, SourceClasses
from bispectral_ot.memory import peak_memory
from bispectral_ot.poses import Poses, estimate_poses, find_motions, upright_images
from bispectral_ot.poses.estimate import practice_rows
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transport import Coupling, EntropicCoupling

Side = Literal["source", "target"]
PlotKind = Literal["pairs", "classes"]
# Best matches per source that are stored; more of them need another pass over the plan.
KEPT_MATCHES = 10
_LONGEST = 11  # letters of a name below a picture


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
    classes: SourceClasses | None = None  # None if the target has no labels
    outlier_scores: OutlierScores | None = None  # None if marginals are balanced

    def __repr__(self) -> str:
        n, m = self.coupling.shape
        state = "converged" if self.converged else "NOT converged"
        distance = f"distance {self.distance:.6g} ({self.coupling.cost.metric})"
        found = f"{distance}, {state}: marginal error {self.marginal_error:.1e}"
        return f"Match({n:,} x {m:,} by {self.settings['features']}, {found})"

    def _repr_html_(self) -> str:
        """Facts, some sources with their best targets, and the confusion matrix."""
        n, m = self.coupling.shape
        facts: dict[str, Any] = {}
        if self.classes is not None:
            facts |= {"expected accuracy": self.expected_accuracy(), "shift": self.shift()}
        facts["distance"] = f"{self.distance:.6g} ({self.coupling.cost.metric})"
        facts["converged"] = f"{'yes' if self.converged else 'NO'}, marginal error {self.marginal_error:.1e}"
        facts |= {name: self.settings[name] for name in ("features", "symmetry", "marginals")}
        pairs = flow = ""
        if not self.images_elsewhere:
            pairs = drawing.html_tiles(_pairs(self, evenly_spaced(len(self.source), 4), 3))
        table = class_table(self)
        if table is not None and max(len(table.rows), len(table.columns)) <= 12:
            cells = [[f"{each:.0%}" if each >= 0.005 else "" for each in row] for row in table.fractions]
            rows, columns = ([printable(name) for name in names] for names in (table.rows, table.columns))
            flow = DataFrame(cells, index=rows, columns=columns).to_html(border=0)
        return drawing.html_panel(f"Match {n:,} x {m:,}", facts, pairs, flow)

    def plot(self, kind: PlotKind | None = None, *, n: int = 6, k: int = 5, ax: Axes | None = None) -> Axes:
        """Draw n sources with their k best targets (``kind="pairs"``) or the confusion matrix (``kind="classes"``)."""
        kind = kind or "pairs"
        check_choice("kind of plot", kind, get_args(PlotKind))
        check_integer("n", n, minimum=1)
        check_integer("k", k, minimum=1)
        if kind == "classes":
            table = class_table(self)
            if table is None:
                raise InputError("both sides need labels for this; make them Dataset(images, labels).")
            title = "Classes that correspond" if table.accuracy is None else f"accuracy {table.accuracy:.1%}"
            own = None if table.accuracy is None else np.equal.outer(np.array(table.rows), np.array(table.columns))
            ax = drawing.draw_matrix(ax, table.fractions, table.rows, table.columns, form="%", title=title, own=own)
            ax.set(ylabel="class of the source", xlabel="assigned label (% of the row)")
            return ax
        tiles = _pairs(self, evenly_spaced(len(self.source), n), k)
        return drawing.draw_tiles(ax, tiles, title="Best matches and their weights")

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
        return float(self.summary.row_sums.sum())

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
        images: "ArrayLike | None" = None,
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
        self, labels: "ArrayLike | None" = None, *, to: Side | None = None
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
        summary = self.summary if labels is None else self.coupling.summary(k=0, **{f"{other}_labels": codes})
        if side == "source":
            mass, weights = summary.source_class_mass, self.coupling.source_weights
        else:
            mass, weights = summary.target_class_mass.T, self.coupling.target_weights
        # divided by measured sums: weights sum to one even if the solver stopped early
        sums = np.where(weights > 0, mass.sum(axis=1), 0.0)
        return classes, mass / np.where(sums > 0, sums, 1.0)[:, None]

    @any_names
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
            "nearest_label": self.target_labels[self.summary.nearest],
            "nearest_distance": self.summary.nearest_costs,
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
        received = np.bincount(codes, weights=self.summary.column_sums)
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
        self, images: "ArrayLike | Dataset | Path", *, k: int = 5, poses: bool = False, seed: int = 0
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
        return self.summary if k <= KEPT_MATCHES else self.coupling.summary(k=k)

    @cached_property
    def summary(self) -> PlanSummary:
        """Summary of the plan with best matches and class masses, from one pass."""
        given = {"source_labels": self.source_labels, "target_labels": self.target_labels}
        codes = {side: np.unique(each, return_inverse=True)[1] for side, each in given.items() if each is not None}
        return self.coupling.summary(k=KEPT_MATCHES, **codes)


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


@dataclass(frozen=True)
class ClassPreservation:
    """Fraction of source elements whose label is their own class."""

    accuracy: float  # over all elements that have mass; NaN without common classes
    recall: NDArray[np.float64] = field(repr=False)  # (c,) of each source class; NaN where the source has none of it
    confusion: NDArray[np.int64] = field(repr=False)  # (c, c) counts; classes of the source down, labels across
    classes: NDArray[Any] = field(repr=False)  # (c,) of rows and columns

    @any_names
    def to_frame(self) -> DataFrame:
        """Confusion matrix."""
        return DataFrame(self.confusion, index=self.classes, columns=self.classes)

    _repr_html_ = frame_html


def class_preservation(
    match: Match, source_labels: ArrayLike | None = None, target_labels: ArrayLike | None = None
) -> ClassPreservation:
    """Compare each source's own class with its label; sources of weight 0 are not counted.

    Labels default to those of the match. Integers must refer to the same classes on both sides (``Dataset.labels``
    refer to those of their own set). Without a common class, the accuracy is NaN, with a warning.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> bool(bot.class_preservation(bot.match(source, target)).accuracy > 0.5)
    True
    """
    n, m = match.coupling.shape
    truth = given_or_own(source_labels, match.source_labels, n, "source")
    targets = given_or_own(target_labels, match.target_labels, m, "target")
    kept = _preserved(match, truth, targets)
    if np.isnan(kept.accuracy):
        warn(f"{no_common_class([*np.unique(truth)], [*np.unique(targets)])}; give both sides the same class names.")
    return kept


def no_common_class(source: Sequence[Any], target: Sequence[Any]) -> str:
    """Message that the classes of two sets have no name in common, with the first of them."""
    one, other = (", ".join(map(str, names[:4])) + ", ..." * (len(names) > 4) for names in (source, target))
    return f"the two sets have no class in common (source: {one}; target: {other}), so there is no accuracy"


def _preserved(match: Match, truth: NDArray[Any], targets: NDArray[Any]) -> ClassPreservation:
    names, codes = np.unique(targets, return_inverse=True)
    own = None if match.target_labels is None else np.unique(match.target_labels, return_inverse=True)
    if own is not None and np.array_equal(own[1], codes):  # the classes of the match, perhaps under other names
        predicted = names[np.searchsorted(own[0], match.labels().label.to_numpy())]
    else:
        given, weights = match.class_weights(targets, to="source")
        predicted = given[weights.argmax(axis=1)]
    moved = match.coupling.source_weights > 0
    classes = np.union1d(truth, targets)
    confusion = confusion_matrix(truth[moved], predicted[moved], labels=classes)
    counts, hits = confusion.sum(axis=1), np.diag(confusion)
    recall = np.divide(hits, counts, out=np.full(len(classes), np.nan), where=counts > 0)
    accuracy = float(hits.sum() / moved.sum()) if np.isin(truth, targets).any() else np.nan
    return ClassPreservation(accuracy, recall, confusion, classes)


@dataclass(frozen=True)
class ClassTable:
    """Confusion matrix of a match: counts (r, c) of source classes by label, common classes first.

    ``accuracy`` is None where the sides have no class in common; ``recall`` is that of common classes.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: NDArray[np.int64]
    accuracy: float | None
    recall: dict[str, float]

    @property
    def fractions(self) -> NDArray[np.float64]:
        """(r, c) counts as fractions of their row; 0 for a class whose images have no mass."""
        return self.counts / self.counts.sum(axis=1, keepdims=True).clip(1)


@any_names
def class_table(match: Match) -> ClassTable | None:
    """Confusion matrix of a match; None unless both sides have labels."""
    if match.source_labels is None or match.target_labels is None:
        return None
    kept = _preserved(match, match.source_labels, match.target_labels)
    rows, others = match.source.present_classes, match.target.present_classes
    common = [name for name in rows if name in others]
    columns = common + [name for name in others if name not in rows]
    counts = kept.to_frame().loc[rows, columns].to_numpy()
    recall = Series(kept.recall, kept.classes)[common].to_dict()
    return ClassTable(tuple(rows), tuple(columns), counts, kept.accuracy if common else None, recall)


def given_or_own(labels: ArrayLike | None, own: NDArray[Any] | None, size: int, side: str) -> NDArray[Any]:
    """Labels of a side as an array (size,); its own where none are given."""
    if labels is None and own is None:
        raise InputError(f"the {side} set has no labels; match a Dataset with labels, or pass labels=...")
    try:
        array = np.asarray(own if labels is None else labels)
        if array.dtype.kind == "O":
            np.unique(array)
    except (TypeError, ValueError):  # a None among names, lists of different lengths
        raise InputError("labels must be all numbers or all strings, one per element.") from None
    if array.shape != (size,):
        given = f"{len(array)} entries" if array.ndim == 1 else f"shape {array.shape}"
        raise InputError(f"labels has {given} but there are {size} elements; give one label per element.")
    return array


def _name(dataset: Dataset, index: int) -> str:
    """Class, file or position of an element, shortened."""
    if dataset.labels is not None:
        return shortened(dataset.classes[dataset.labels[index]], _LONGEST)
    return shortened(dataset.files[index].rsplit("/", 1)[-1], _LONGEST) if dataset.files else f"#{index}"


def _pairs(match: Match, rows: NDArray[np.int64], k: int) -> list[list[Tile | None]]:
    """For each source a row of tiles: itself, a gap, and its best targets."""
    sources, targets, top = Pictures(match.source), Pictures(match.target), match.top_matches(k)
    names, others = match.source_labels, match.target_labels
    if names is None or others is None or not np.isin(names, others).any():
        names = others = None  # there is no right or wrong
    tiles: list[list[Tile | None]] = []
    for i in rows:
        line: list[Tile | None] = [Tile(sources[i], _name(match.source, i)), None]
        for j, weight in zip(top.indices[i], top.weights[i], strict=True):
            if j >= 0 and weight >= 0.01 * top.weights[i, 0]:
                label = f"{_name(match.target, j)} " if match.target.classes else ""
                right = None if names is None or others is None else bool(names[i] == others[j])
                line.append(Tile(targets[j], f"{label}{weight:.0%}", right))
        tiles.append(line)
    return tiles
