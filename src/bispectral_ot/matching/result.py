"""The result of a match: pairs, masses, labels and a distance, without ever forming the plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_choice, check_integer, check_share
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import as_dataset, is_chunked
from bispectral_ot.errors import InputError
from bispectral_ot.matching.novelty import Unmatched, own_distances, rank, relaxed_plan, soft_distances
from bispectral_ot.matching.outcomes import ClassShares, LabelDetails, LabelTransfer, Prediction, TopMatches
from bispectral_ot.matching.predictor import VOTERS, Predictor
from bispectral_ot.matching.relaxation import estimate_for, some_rows
from bispectral_ot.matching.shares import ShareEstimate
from bispectral_ot.matching.views import PlotKind, match_html, plot_match
from bispectral_ot.poses import Poses, estimate_poses, find_motions, practice_rows, upright_images
from bispectral_ot.progress import Progress, silent
from bispectral_ot.spaces import FeatureMap, chosen_evenly
from bispectral_ot.transport import Coupling, EntropicCoupling, Summary

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
    feature_map : how images became features, where the match began with images
    share_estimate : the shares that the target's weights come from, where they were estimated

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> match = bot.match(source, target)
    >>> match.top_matches(k=3).indices.shape
    (100, 3)
    >>> match.transfer_labels().labels.shape
    (100,)
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
    share_estimate: ShareEstimate | None = field(default=None, repr=False)
    progress: Progress = silent

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
            ``"pairs"``: some sources, each with its best targets and their share of its mass; ``"classes"``: where each
            source class went. Pairs by default, where the match has images.
        n, k
            Sources that are drawn, and targets of each.
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
        """The k best targets of each source with their share of its mass, best first.

        Exact transport gives mass to one or two targets of each source: there is no third best, and its index is -1.
        """
        summary = self._best(k)
        shares = summary.top_masses[:, :k] / _positive(self.coupling.source_weights)[:, None]
        return TopMatches(np.where(shares > 0, summary.top_indices[:, :k], -1), shares)

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
        return estimate_poses(motions, *images, top.indices, top.shares, k=k, seed=seed, progress=self.progress)

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
        return upright_images(np.asarray(images), poses, fill=fill, expand=expand, guess=guess, progress=self.progress)

    def class_mass(
        self, labels: ArrayLike | None = None, *, to: Side | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """How the mass of each element is spread over the classes of the other side.

        Parameters
        ----------
        labels
            Labels of the other side; those of its Dataset by default.
        to
            Whose elements get a row: ``"source"`` (the default where the target has labels) or ``"target"``.

        Returns
        -------
        classes : (c,) the distinct labels, sorted
        shares : (n, c) rows sum to one
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
            summary = self.coupling.summary(k=0, target_labels=codes, progress=self.progress)
        else:
            summary = self.coupling.summary(k=0, source_labels=codes, progress=self.progress)
        if side == "source":
            mass, weights = summary.source_class_mass, self.coupling.source_weights
        else:
            assert summary.target_class_mass is not None
            mass, weights = summary.target_class_mass.T, self.coupling.target_weights
        assert mass is not None
        # what was measured rather than what was asked for: shares sum to one also where the solver stopped early
        return classes, mass / _positive(np.where(weights > 0, mass.sum(axis=1), 0.0))[:, None]

    def transfer_labels(self, labels: ArrayLike | None = None, *, to: Side | None = None) -> LabelTransfer:
        """Give each element the label with the largest transported mass; see :meth:`class_mass`.

        Without ``labels`` they are the match's own: names, where they come from a Dataset. With ``labels`` they are
        of the kind that is given: the numbers of ``Dataset.labels``, say.
        """
        classes, shares = self.class_mass(labels, to=to)
        best = shares.argmax(axis=1)
        return LabelTransfer(classes[best], shares[np.arange(len(best)), best])

    def label_details(self) -> LabelDetails:
        """Label, runner-up and the label of the nearest target of each source, to sort out doubtful ones by.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
        >>> bot.match(source, target).label_details().runner_up.shape
        (100,)
        """
        classes, shares = self.class_mass(to="source")
        second, best = (
            np.argsort(shares, axis=1)[:, [-2, -1]].T if len(classes) > 1 else (np.zeros(len(shares), int),) * 2
        )
        rows, summary = np.arange(len(shares)), self._summary
        assert self.target_labels is not None
        nearest = self.target_labels[summary.nearest]
        return LabelDetails(
            classes[best], shares[rows, best], classes[second], shares[rows, second], nearest, summary.nearest_costs
        )

    def doubtful(self, share: float = 0.5) -> NDArray[np.int64]:
        """Sources whose label gets less than ``share`` of their mass, or is not that of the nearest target.

        Returns
        -------
        Positions, the least certain first.
        """
        check_share("share", share)
        details = self.label_details()
        found = np.flatnonzero((details.shares < share) | (details.labels != details.nearest))
        return found[np.argsort(details.shares[found], kind="stable")]

    def class_shares(self, *, level: float = 0.9, seed: int = 0) -> ClassShares:
        """Estimated shares of the target's classes in the source, with bootstrap intervals.

        Parameters
        ----------
        level
            Of the intervals.
        seed
            Of the bootstrap.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=20)
        >>> shares = bot.match(source.select(source.labels < 5), target).class_shares()
        >>> bool(shares.source[:5].sum() > 0.9)
        True
        """
        check_share("level", level)
        if self.target_labels is None:
            raise InputError("the target set has no labels, of whose classes shares could be estimated.")
        estimate = self.share_estimate
        if estimate is None:
            source, target = self._images("shares are")
            see = self._seen
            features = (
                lambda size: see(source.images[some_rows(len(source), size)]),
                lambda at: see(target.images[at]),
            )
            scale = self.coupling.cost.scale
            estimate = estimate_for(see, self.settings["metric"], features, self.target_labels, scale=scale)
        low, high = estimate.intervals(level=level, seed=seed)
        classes, codes = np.unique(self.target_labels, return_inverse=True)
        received = np.bincount(codes, weights=self._summary.column_sums)
        return ClassShares(
            classes, estimate.shares, low, high, estimate.counts / estimate.counts.sum(), received / received.sum()
        )

    def unmatched(self, share: float = 0.05, *, side: Side = "source") -> Unmatched:
        """Elements without counterpart: fewer than ``share`` of the other set are as far from each other.

        A plan that is relaxed on both sides gives each element a soft distance to the other set, and each element of
        the other set the same distance to the rest of its own. Of elements with a counterpart, about ``share`` are
        found, too.

        Parameters
        ----------
        share
            Share of the other set's elements that may be as far from the rest.
        side
            Whose elements are judged: ``"source"``, or ``"target"`` for targets that no source wants.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> source, target = bot.split_halves(bot.load("digits"), per_class=20)
        >>> found = bot.match(source, target.select(target.labels < 5)).unmatched(0.1)
        >>> bool((source.labels[found.indices] >= 5).mean() > 0.8)
        True
        """
        check_share("share", share)
        check_choice("side", side, get_args(Side))
        source, target = self._images("distances within a set are")
        other, plan = target if side == "source" else source, self._relaxed
        potential = plan.target_potential if side == "source" else plan.source_potential
        rows, at = self._seen(other.images), some_rows(len(other))
        within = self._seen.distance(rows[at], rows, self.settings["metric"])
        distances = soft_distances(plan, side)
        scores = rank(distances, own_distances(within, at, potential, plan.epsilon))
        found = np.flatnonzero(scores < share)
        return Unmatched(found[np.argsort(-distances[found], kind="stable")], scores)

    def predict(self, images: ArrayLike | Dataset, *, k: int = 5, poses: bool = False, seed: int = 0) -> Prediction:
        """Labels, shares and best targets of new source images from the solved potentials, without a new solve.

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
        >>> bool((match.predict(source).labels == match.transfer_labels().labels).all())
        True
        """
        given = as_dataset(images, name="images")
        found = self.predictor.match(given, progress=self.progress)
        labels, shares = found.transfer_labels() if self.target_labels is not None else (None, None)
        posed = None
        if poses:
            posed = self.predictor.poses(given, found.top_matches(VOTERS), seed=seed, progress=self.progress)
        return Prediction(labels, shares, found.top_matches(k), posed)

    @cached_property
    def predictor(self) -> Predictor:
        """What :meth:`predict` uses, which can be saved."""
        if not isinstance(self.coupling, EntropicCoupling):
            raise InputError("only an entropic match has potentials to predict by; solve with Sinkhorn.")
        source, target = self._images("new ones are compared with them, and predictions are")
        top = self.top_matches(VOTERS)
        rows = practice_rows(top.indices)
        return Predictor(
            target=target,
            potential=self.coupling.target_potential,
            reg=self.coupling.reg,
            scale=self.coupling.cost.scale,
            tol=self.coupling.tol,
            feature_map=self._seen,
            settings=self.settings,
            practice=TopMatches(top.indices[rows], top.shares[rows]),
            sample=chosen_evenly([source, target]),
        )

    def _images(self, why: str) -> tuple[Dataset, Dataset]:
        if self.source is None or self.target is None or self.feature_map is None:
            raise InputError(
                f"this match has no images, and {why} read off them; keep the Match that match() returned, or match "
                "the two sets again."
            )
        return self.source, self.target

    @property
    def _seen(self) -> FeatureMap:
        assert self.feature_map is not None
        return self.feature_map

    @cached_property
    def _relaxed(self) -> EntropicCoupling:
        return relaxed_plan(self.coupling.cost, progress=self.progress)

    def _best(self, k: int) -> Summary:
        check_integer("k", k, minimum=1)
        return self._summary if k <= KEPT_MATCHES else self.coupling.summary(k=k, progress=self.progress)

    @cached_property
    def _summary(self) -> Summary:
        """Everything that is asked for most, in one pass."""

        def codes(labels: NDArray[Any] | None) -> NDArray[np.int64] | None:
            return None if labels is None else np.unique(labels, return_inverse=True)[1].astype(np.int64)

        return self.coupling.summary(
            k=KEPT_MATCHES,
            source_labels=codes(self.source_labels),
            target_labels=codes(self.target_labels),
            progress=self.progress,
        )


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
    """Weights to divide by: an element without mass has shares of 0, not NaN."""
    return np.where(weights > 0, weights, 1.0)
