"""The front door: two datasets in, a match out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import check_choice
from bispectral_ot.costs import Cost, Metric, Storage
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import Kind, as_shapes
from bispectral_ot.datasets.load import as_datasets
from bispectral_ot.datasets.transforms import warn_of_shared
from bispectral_ot.engines.cluster import as_engine
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.features import FeatureMap, FittedFeatures, choose_features
from bispectral_ot.features.frame_choice import JudgedFrames
from bispectral_ot.literals import Marginals
from bispectral_ot.matching.class_model import ClassModel, MovedTargets, fit_class_model
from bispectral_ot.matching.labels import SourceClasses, warn_of_collapse, warn_of_shift
from bispectral_ot.matching.outliers import outlier_scores, warn_of_outliers
from bispectral_ot.matching.result import Match, label_names, read_plan
from bispectral_ot.matching.target_marginal import (
    choose_marginals,
    solve_marginals,
    warn_of_different_proportions,
)
from bispectral_ot.matching.timing import Stages
from bispectral_ot.options import MatchOptions
from bispectral_ot.progress import Progress
from bispectral_ot.transport import SOLVERS, Sinkhorn, Solver
from bispectral_ot.transport.marginals import as_weights


def match(
    source: Dataset | ArrayLike | os.PathLike[str],
    target: Dataset | ArrayLike | os.PathLike[str],
    *,
    symmetry: str | None = None,
    features: Any = None,
    metric: Metric | None = None,
    intensity: Literal["ignore", "keep"] | None = None,
    frame: str | Sequence[str] = "auto",
    solver: Solver | str | None = None,
    normalize: bool = True,
    pca: int | None = None,
    source_weights: ArrayLike | None = None,
    target_weights: ArrayLike | None = None,
    marginals: Marginals | None = None,
    metric_learning: Literal["auto", "none"] = "auto",
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
    client: Any = None,
    state: str | Path | None = None,
    progress: Progress | None = None,
) -> Match:
    """Pair the elements of two datasets by content, whatever the symmetry did to them.

    Parameters
    ----------
    source, target
        Datasets, or arrays (n, height, width) or (n, height, width, channels) of the same size;
        1-D signals, for features such as ``GroupBispectrum``, as (n, 1, length); point clouds as (n, points, 3), or as
        lists of arrays (points_i, 3) of different sizes. Names and paths are loaded, as by
        :func:`~bispectral_ot.load`. For labels make a ``Dataset(images, labels)``.
    symmetry
        What the comparison should not see: ``"rotation"``, ``"rotation-reflection"`` (mirror images, too),
        ``"rotation-translation"`` and ``"rotation-reflection-translation"`` (content that is not centred, too),
        ``"translation"``, ``"d4"`` (quarter turns and mirror images), ``"so3"`` (3-D rotation of signals on the
        sphere, images being latitude by longitude), ``"so3-shapes"`` (3-D rotation of point clouds (n, points, 3) and
        of voxel volumes (n, depth, height, width)) or ``"none"``. None for what the features do not see; where they are
        left to the default, too, what suits the kind of the datasets: ``"rotation"`` for images, ``"so3-shapes"`` for
        clouds and volumes.
    features
        A name (``"pixels"``, ``"bispectrum"``, the default for rotation, made of ``"global-bispectrum"``
        and ``"local-bispectrum"``, ``"ring-bispectrum"`` as in the paper, ``"best-rotation"``, which compares each
        pair at its best rotation, ...; all of them in ``bispectral_ot.features.FEATURES``), any scikit-learn
        transformer or pipeline, or None for the symmetry's default. Transformers are fitted to both sets together (to
        4,096 images at most, evenly taken); those that want rows get flattened images.
    metric
        ``"l1"``, ``"l2"``, ``"sqeuclidean"`` or ``"cosine"``; None for what suits the features (``"sqeuclidean"`` for
        combined, coupled, local and aligned ones, else ``"l1"``).
    intensity
        Whether brightness and contrast count, for combined and local features: ``"ignore"`` (the default) or
        ``"keep"``.
    frame
        How images are placed on their canvas (docs/frames.md): ``"canvas"`` takes the whole image, ``"picture"`` the
        picture inside a margin that an editor filled, ``"content"`` what differs from the colour of the border, centred
        and brought to one size, ``"common"`` one scale in pixels for all images; one for each set as
        ``("picture", "canvas")``. ``"auto"`` takes the whole canvas of arrays, and of images in files the frame in
        which source and target agree best; ``settings["frame"]`` says which, and a :class:`DataWarning` why.
    solver
        ``Sinkhorn()`` by default, ``ExactTransport()``, or their names (``"sinkhorn"``, ``"exact"``).
    normalize
        Bring both sets to mean 0 and standard deviation 1 first, with the same two numbers for both (the
        paper's way). Say False where that was done before. Sets of different ranges (8 and 16 bits) stay different:
        a :class:`~bispectral_ot.DataWarning` says so where the features see it.
    pca
        Reduce the features to this many principal components of both sets together: far less memory and time for
        an approximation that ``settings["kept_variance"]`` measures. L1 is then taken between components.
    source_weights, target_weights
        Mass of each element, summing to one on each side; uniform by default.
    marginals
        Target marginal. ``"balanced"``: every target gets its weight; class proportions of the source are those of the
        target. ``"estimated"``: class proportions of the source are estimated, and held for classes as a whole.
        ``"relaxed"``: targets get what comes. None, the default, chooses ``"estimated"`` where the target has labels
        and ``"relaxed"`` where not, but ``"balanced"`` where weights, another solver or penalties of its own are given.
        Where an estimate is refuted by the sources, the match is relaxed, with a warning. See docs/labels.md.
    metric_learning
        ``"auto"``: where the target has labels, and two classes of two images or more, distances are Mahalanobis
        distances by the shrunk within-class covariance of the targets. The shrinkage is the one under which left-out
        targets, after random motions of the symmetry, are recognized best; it may turn out to be none. ``"none"``:
        distances as the features have them. Probabilities of labels are calibrated in either case.
    working_memory, storage
        Byte budget for features and cost (``"4GB"``), and how the cost is kept; see :class:`~bispectral_ot.Cost`.
    client
        A ``distributed.Client``: features, cost and passes are then computed on the workers of its Dask cluster, and
        ``working_memory`` is that of each worker. The result is the same. Folders of images and Zarr stores that are
        given by their path are read by the workers, which must see them. See docs/scale.md.
    state
        File for the state of the solve: a call that was cut off goes on from it; see :meth:`Sinkhorn.solve`.
    progress
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Match
        Where the solver misses its tolerance, with a :class:`~bispectral_ot.NotConvergedWarning` and
        ``converged=False``.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> bot.match(bot.rotate_randomly(source), target, symmetry="rotation").converged
    True
    """
    with runtime.running(progress=progress, memory=working_memory, engine=as_engine(client)) as context:
        options = MatchOptions(
            symmetry=symmetry,
            features=features,
            metric=metric,
            intensity=intensity,
            pca=pca,
            normalize=normalize,
            marginals=marginals,
            metric_learning=metric_learning,
            solver=solver or "sinkhorn",
            storage=storage,
        )
        _refuse_pairs(source=source, target=target)
        engine = context.engine
        choosing = partial(choose_features, features, symmetry=symmetry, metric=metric, intensity=intensity)
        frames = JudgedFrames(frame, choosing)
        elsewhere = engine is not None and engine.local is not engine
        kind: Kind | None = "sphere" if symmetry == "so3" or features == "sphere-bispectrum" else None
        sides = as_datasets((source, target), ("source", "target"), stay=elsewhere, frames=frames, kind=kind)
        choice = choosing(kind=sides[0].kind)
        if choice.symmetry == "so3-shapes":
            sides = [as_shapes(side) for side in sides]
        problem = _Problem.of(sides, options, (source_weights, target_weights), state)
        warn_of_shared(*sides)
        moved = MovedTargets.of(sides[1], choice.symmetry)
        turned = [] if moved is None or moved.images is None else [moved.images]
        # features as they are must not depend on labels
        fitting, further = ([*sides, *turned], []) if problem.learn else (sides, turned)
        stages = Stages()
        with stages.measured("features"):
            fitted = FittedFeatures(
                fitting,
                choice,
                normalize=normalize,
                pca=pca,
                storage=storage,
                solver_bytes=problem.solver.extra_bytes((len(sides[0]), len(sides[1]))),
                further=further,
            )
        pixels = [None if side.placement is None else side.placement.pixels for side in sides]
        about = {"normalize": normalize, "frame": [side.frame for side in sides], "frame_pixels": pixels}
        return problem.solved(fitted, stages, moved, about | frames.settings)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Two sets, checked, and how they are to be matched.

    Attributes
    ----------
    sides, labels, weights : of source and target
    solver, marginals : how the plan is found
    learn : whether to learn a metric
    state : file for the state of the solve
    """

    sides: Sequence[Dataset]
    labels: tuple[NDArray[Any] | None, NDArray[Any] | None]
    weights: tuple[NDArray[np.float64], NDArray[np.float64]]
    solver: Solver
    marginals: Marginals
    learn: bool
    state: str | Path | None

    @classmethod
    def of(
        cls,
        sides: Sequence[Dataset],
        options: MatchOptions,
        weights: tuple[ArrayLike | None, ArrayLike | None],
        state: str | Path | None,
    ) -> _Problem:
        solver = check_solver(options.solver)
        if state is not None and not isinstance(solver, Sinkhorn):
            raise InputError(f"the state of a solve is kept by Sinkhorn only, got {solver!r}; leave state out.")
        labels = label_names(sides[0]), label_names(sides[1])
        checked = (
            as_weights(weights[0], len(sides[0]), "source_weights"),
            as_weights(weights[1], len(sides[1]), "target_weights"),
        )
        weighted = any(given is not None for given in weights)
        way = choose_marginals(options.marginals, solver, labels[1], weighted=weighted)
        if way == "balanced":
            warn_of_different_proportions(labels, checked)
        return cls(sides, labels, checked, solver, way, options.metric_learning == "auto", state)

    def solved(
        self, fitted: FittedFeatures, stages: Stages, moved: MovedTargets | None, about: dict[str, Any]
    ) -> Match:
        """Metric, cost, outliers, class probabilities and plan, each computed once, as a match."""
        model = classes = outliers = None
        if self.marginals != "balanced":
            # by distances that were not learned: those between the targets that a metric was fitted to are too small
            with stages.measured("outliers"):
                features = fitted.features[0], fitted.features[1]
                outliers = outlier_scores(fitted.feature_map, fitted.spec.metric, features)
                warn_of_outliers(outliers.fraction)
        if moved is not None and self.labels[1] is not None:
            with stages.measured("metric"):
                model = fit_class_model(fitted, moved.positions, self.labels[1], learn=self.learn)
        features, see = (fitted.features[0], fitted.features[1]), fitted.feature_map
        with stages.measured("cost"):
            cost = fitted.cost(0, 1)
        if model is not None:
            with stages.measured("classes"):
                classes = self._classes(model, see, cost, features[0])
        way = self._marginals(classes)
        with stages.measured("transport"):
            solving = {} if self.state is None else {"state": self.state}
            estimate = None if classes is None else classes.estimate
            coupling = solve_marginals(way, self.solver, cost, self.weights, self.labels[1], estimate, **solving)
        with stages.measured("summary"):
            summary = read_plan(coupling, *self.labels)
        return Match(
            coupling,
            source=self.sides[0],
            target=self.sides[1],
            source_labels=self.labels[0],
            target_labels=self.labels[1],
            settings=match_settings(fitted, cost, self.solver)
            | {
                **about,
                "resumed_at": getattr(coupling, "resumed_at", 0),
                "marginals": way,
                "outlier_fraction": 0.0 if outliers is None else outliers.fraction,
                "metric_shrinkage": 1.0 if model is None else model.shrinkage,
            },
            classes=classes,
            outlier_scores=outliers,
            seconds=stages.seconds,
            memory=stages.memory,
            feature_map=see,
            features=features,
            summary=summary,
            moved=None if moved is None or not self.learn else moved.images,
        )

    def _classes(self, model: ClassModel, see: FeatureMap, cost: Cost, rows: NDArray[np.float32]) -> SourceClasses:
        assert self.labels[1] is not None
        codes = np.searchsorted(model.classes, self.labels[1]).astype(np.int64)
        totals = np.zeros(len(model.classes))
        np.add.at(totals, codes, self.weights[1])
        classes = SourceClasses.of(model, see, cost, rows, codes, marginals=self.marginals, totals=totals)
        warn_of_shift(classes.shift)
        return classes

    def _marginals(self, classes: SourceClasses | None) -> Marginals:
        """Marginals of the plan: relaxed where class proportions cannot be estimated, or are refuted."""
        if self.marginals != "estimated" or (classes is not None and not classes.estimate.collapsed):
            return self.marginals
        if classes is not None:
            warn_of_collapse(classes)
        elif len(np.unique(self.labels[1])) > 1:  # type: ignore[arg-type]
            warn(
                "the target has fewer than two classes of two images: no metric is learned, and neither class "
                "proportions nor probabilities of labels can be estimated. The match is relaxed, and labels have the "
                "weights of its plan.",
                DataWarning,
            )
        return "relaxed"


def match_settings(space: FittedFeatures, cost: Cost, solver: Solver) -> dict[str, Any]:
    """How a match was computed, for its ``settings``."""
    constant = [each.constant_images for each in space.statistics[:2]]
    return {
        "symmetry": space.spec.symmetry,
        "features": space.spec.name,
        "metric": cost.metric,
        "solver": repr(solver),
        "constant_images": dict(zip(("source", "target"), constant, strict=True)),
        **space.settings,
        "storage": cost.storage,
        "storage_error": cost.storage_error / cost.scale,
    }


def check_solver(solver: Solver | str) -> Solver:
    """Solver of a name, or the given one if it can solve."""
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, SOLVERS)]()
    if isinstance(solver, type) or not (hasattr(solver, "solve") and hasattr(solver, "extra_bytes")):
        raise InputError(f"solver must be one like Sinkhorn(), with solve and extra_bytes methods, got {solver!r}.")
    return solver


def _refuse_pairs(**sides: Any) -> None:
    for name, data in sides.items():
        if isinstance(data, tuple) and len(data) == 2 and getattr(data[0], "ndim", 0) > getattr(data[1], "ndim", 1):
            raise InputError(f"{name} is a pair; images and their labels are given as Dataset(images, labels).")
