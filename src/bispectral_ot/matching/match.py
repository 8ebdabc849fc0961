"""Match of two datasets: features, cost, class probabilities and transport plan."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pandas import Series

from bispectral_ot import runtime
from bispectral_ot.checks import Marginals
from bispectral_ot.costs import Cost, Metric, Storage
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.frames import SetGeometry
from bispectral_ot.datasets.load import array_kind, as_datasets
from bispectral_ot.datasets.transforms import blank_sources, warn_of_copies
from bispectral_ot.engines.cluster import as_engine
from bispectral_ot.errors import InputError, warn
from bispectral_ot.features import FittedFeatures, choose_features
from bispectral_ot.features.fitted import fit_sample
from bispectral_ot.features.frame_choice import JudgedFrames
from bispectral_ot.features.registry import FeatureSpec
from bispectral_ot.files import any_names
from bispectral_ot.matching.class_model import fit_class_model, left_out_targets, moved_images
from bispectral_ot.matching.corrections import correction_rows, with_corrections
from bispectral_ot.matching.outliers import outlier_scores
from bispectral_ot.matching.result import Match, Stages, label_names
from bispectral_ot.matching.source_classes import SourceClasses
from bispectral_ot.options import MatchOptions
from bispectral_ot.runtime import Progress
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transport import SOLVERS, Coupling, Sinkhorn, Solver
from bispectral_ot.transport.marginals import as_weights

_MOVED = 256  # images of each set that are moved for the null distribution of outlier scores


def match(
    source: "Dataset | ArrayLike | os.PathLike[str]",
    target: "Dataset | ArrayLike | os.PathLike[str]",
    *,
    symmetry: str | None = None,
    features: Any = None,
    metric: Metric | None = None,
    intensity: Literal["ignore", "keep", "affine"] | None = None,
    frame: str | Sequence[str] = "auto",
    solver: Solver | str | None = None,
    normalize: bool = True,
    pca: int | None = None,
    source_weights: "ArrayLike | None" = None,
    target_weights: "ArrayLike | None" = None,
    marginals: Marginals | None = None,
    metric_learning: Literal["auto", "none"] = "auto",
    corrections: str | Path | None = None,
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
    client: Any = None,
    state: str | Path | None = None,
    progress: Progress | None = None,
) -> Match:
    """Match two datasets by content, up to a symmetry.

    If the tolerance is missed, a :class:`~bispectral_ot.NotConvergedWarning` is given and ``converged`` is False.

    Parameters
    ----------
    source, target
        Datasets, or arrays (n, height, width[, channels]) of the same size; 1-D signals as (n, length, 1) or
        (n, 1, length) with ``"translation"``; point clouds as lists of arrays (points_i, 3), or (n, points, 3) with
        ``"so3-shapes"``. Names and paths are loaded. To pass labels, use ``Dataset(images, labels)``.
    symmetry
        Transformations to ignore: ``"rotation"`` (the default for images), ``"rotation-reflection"``; either with
        ``"-translation"``; ``"similarity"`` or ``"similarity-reflection"`` (with translation and scale);
        ``"translation"``, ``"d4"`` (quarter turns and reflections), ``"quarter-turns"``, ``"mirrors"``, an
        :class:`~bispectral_ot.features.ImageGroup`, ``"so3"`` (signals on the sphere, latitude by longitude),
        ``"so3-shapes"`` (the default for clouds and volumes) or ``"none"``.
    features
        A name in ``bispectral_ot.features.FEATURES`` (``"bispectrum"``, the default for rotation, ``"pixels"``, ...),
        names and encoders joined by ``+`` (``"bispectrum+module:name"``), an :class:`~bispectral_ot.features.Encoder`,
        or any scikit-learn transformer or pipeline; fitted to at most 4,096 images of both sets.
    metric : ``"l1"``, ``"l2"``, ``"sqeuclidean"`` or ``"cosine"``; None for the metric that suits the features.
    intensity
        Whether brightness and contrast count: ``"ignore"`` (the default), ``"keep"``, or ``"affine"`` to ignore the
        balance of colours as well (another stain, camera or lighting).
    frame
        Placement of images on their canvas: ``"canvas"``, ``"picture"``, ``"content"``, ``"common"``, or one for each
        set as ``("picture", "canvas")``; docs/frames.md. ``"auto"``: arrays whole, files in the frame that fits best.
    solver : ``Sinkhorn()`` by default, ``ExactTransport()``, or their names (``"sinkhorn"``, ``"exact"``).
    normalize : Bring both sets to mean 0 and standard deviation 1 first, with the same two numbers for both.
    pca : Number of principal components of both sets to which the features are reduced.
    source_weights, target_weights : Mass of each element, summing to one on each side; uniform by default.
    marginals
        Target marginal. ``"balanced"``: every target gets its weight. ``"estimated"``: each class gets its estimated
        proportion of the source. ``"relaxed"``: unconstrained. None: ``"estimated"`` if the target has labels, else
        ``"relaxed"``; ``"balanced"`` with weights or a solver of your own.
    metric_learning
        ``"auto"``: where the target has two classes of two images or more, distances are Mahalanobis distances by the
        shrunk within-class covariance of the targets; the shrinkage is chosen on left-out, randomly moved targets.
        ``"none"``: unchanged distances; with balanced marginals, labels are classes with most mass, as in the paper.
    corrections
        CSV file with labels of some sources, exported from a report: these become targets, and the others are matched.
    working_memory, storage
        Byte budget for features and cost (``"4GB"``), and storage of the cost; see :class:`~bispectral_ot.Cost`.
    client : ``distributed.Client`` of a Dask cluster, with ``working_memory`` for each worker.
    state : File for the state of the solve, from which an interrupted call is resumed; see :meth:`Sinkhorn.solve`.
    progress : Called as ``progress(stage, done, total)``.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> bot.match(bot.rotate_randomly(source), target, symmetry="rotation").converged
    True
    """
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
    for name, data in (("source", source), ("target", target)):
        if isinstance(data, tuple) and len(data) == 2 and getattr(data[0], "ndim", 0) > getattr(data[1], "ndim", 1):
            raise InputError(f"{name} is a pair; images and their labels are given as Dataset(images, labels).")
    if corrections is not None:
        correction_rows(corrections)  # before images are read
    with runtime.running(progress=progress, memory=working_memory, engine=as_engine(client)):
        choosing = partial(choose_features, features, symmetry=symmetry, metric=metric, intensity=intensity)
        frames = JudgedFrames(frame, choosing)
        kind = array_kind(symmetry, features)
        sides = as_datasets((source, target), ("source", "target"), frames=frames, kind=kind)
        m = len(sides[1])
        if corrections is not None:
            sides = list(with_corrections(sides[0], sides[1], corrections))
        spec = choosing(kind=sides[0].kind)
        corrected = len(sides[1]) - m
        return _solve(sides, spec, options, (source_weights, target_weights), corrected, state, frames.settings)


def _solve(
    sides: Sequence[Dataset],
    spec: FeatureSpec,
    options: MatchOptions,
    weights: tuple[ArrayLike | None, ArrayLike | None],
    corrected: int,
    state: str | Path | None,
    about_frames: dict[str, Any],
) -> Match:
    """Stages of a match: features, outliers, learned metric, cost, class probabilities and plan."""
    source, target = sides
    n, m = len(source), len(target)
    solver = options.solver
    if isinstance(solver, str):
        solver = SOLVERS[solver]()
    elif isinstance(solver, type) or not (hasattr(solver, "solve") and hasattr(solver, "extra_bytes")):
        raise InputError(f"solver must be one like Sinkhorn(), with solve and extra_bytes methods, got {solver!r}.")
    if state is not None and not isinstance(solver, Sinkhorn):
        raise InputError(f"the state of a solve is kept by Sinkhorn only, got {solver!r}; leave state out.")
    learn = options.metric_learning == "auto"
    labels = label_names(source), label_names(target)
    masses = as_weights(weights[0], n, "source_weights"), as_weights(weights[1], m, "target_weights")
    weighted = any(given is not None for given in weights)
    marginals = _choose_marginals(options.marginals, solver, labels[1], weighted=weighted)
    if marginals == "balanced":
        _warn_of_different_proportions(labels, masses)
    distinct = warn_of_copies(source, target)
    stages = Stages()

    # Moved targets calibrate the class model; with moved sources, they give the null distribution of outlier scores.
    left_out = moved_sources = moved_targets = sample = None
    if marginals != "balanced" or learn:  # else as in the paper: labels by the plan, without a class model
        # corrected ones are no random sample: a reader chose them because their labels were doubtful
        left_out = left_out_targets(target, distinct[1][distinct[1] < m - corrected])
        target_places = evenly_spaced(m, _MOVED) if left_out is None else left_out
        source_places = evenly_spaced(n, len(target_places))
        moved_sources = moved_images(source, source_places, spec.symmetry, seed=1)
        moved_targets = moved_images(target, target_places, spec.symmetry, seed=0)
    further = [] if moved_targets is None else [moved_targets]
    if moved_sources is not None and moved_targets is not None:
        if learn and left_out is not None:  # without learning, features do not depend on labels
            # both sets, unchanged and moved: with only the targets twice, the fit would favour them
            sample = fit_sample([source, moved_sources, target, moved_targets], spec.transformer.sample_size)
        few = evenly_spaced(len(moved_sources), _MOVED)
        source_places = source_places[few]
        further.append(moved_sources.select(few))
    with stages.measured("features"):
        fitted = FittedFeatures(
            sides,
            spec,
            normalize=options.normalize,
            pca=options.pca,
            storage=options.storage,
            solver_bytes=solver.extra_bytes((n, m)),
            sample=sample,
            further=further,
        )
    stages.split("features", "fit", fitted.fit_seconds)

    outliers = None
    if marginals != "balanced":
        # not by the learned metric: distances between the targets that it was fitted to are too small
        with stages.measured("outliers"):
            moved = None
            if len(further) == 2:
                moved = (source_places, fitted.features[3]), (target_places, fitted.features[2])
            rows = fitted.features[0], fitted.features[1]
            outliers = outlier_scores(fitted.feature_map, spec.metric, rows, distinct, moved, target.labels)
        if outliers.fraction > 2 / 3:  # the match is doubtful as a whole
            words = f"about {outliers.fraction:.0%} of the sources have no counterpart among the targets (outliers.csv)"
            warn(f"{words}: their content, or their size, blur or background is different.")
    model = None
    if left_out is not None and labels[1] is not None:
        with stages.measured("metric"):
            model = fit_class_model(fitted, left_out, labels[1], distinct[1], learn=learn)
    with stages.measured("cost"):
        cost = fitted.cost(0, 1)
    rows = fitted.features[0], fitted.features[1]  # by the learned metric
    classes = None
    if model is not None:
        with stages.measured("classes"):
            blank = blank_sources(source, target)
            see = fitted.feature_map
            classes = SourceClasses.of(model, see, cost, rows, marginals, masses[1], blank, corrected, outliers)
            for doubt in classes.doubts(target, spec.symmetry):
                warn(doubt)
    if marginals == "estimated" and classes is None:
        marginals = "relaxed"
        if len(np.unique(labels[1])) > 1:  # type: ignore[arg-type]
            words = "the target has fewer than two classes of two images, so no probabilities can be estimated"
            warn(f"{words}: marginals are relaxed, and 'probability' is a weight of the plan.")
    with stages.measured("transport"):
        coupling = _solve_marginals(marginals, solver, cost, masses, classes, state)
    constant = [each.constant_images for each in fitted.statistics[:2]]
    settings = {
        "symmetry": spec.symmetry,
        "features": spec.name,
        "metric": cost.metric,
        "solver": repr(solver),
        "constant_images": dict(zip(("source", "target"), constant, strict=True)),
        **fitted.settings,
        "storage": cost.storage,
        "storage_error": cost.storage_error / cost.scale,
        "normalize": options.normalize,
        "frame": [side.frame for side in sides],
        "frame_pixels": [None if side.placement is None else side.placement.pixels for side in sides],
        "frame_masked": [side.placement is not None and side.placement.masked for side in sides],
        "picture_part": _picture_part(source),
        **about_frames,
        "resumed_at": getattr(coupling, "resumed_at", 0),
        "marginals": marginals,
        "outlier_fraction": 0.0 if outliers is None else outliers.fraction,
        "metric_shrinkage": 1.0 if model is None else model.shrinkage,
    }
    found = Match(
        coupling=coupling,
        source=source,
        target=target,
        settings=settings,
        feature_map=fitted.feature_map,
        features=rows,
        seconds=stages.seconds,
        memory=stages.memory,
        classes=classes,
        outlier_scores=outliers,
    )
    with stages.measured("summary"):
        _ = found.summary  # which is kept
    return found


def _picture_part(source: Dataset) -> float:
    """Size of the pictures within margins or corners that an editor filled, of which predictions must know."""
    if source.kind != "images" or not isinstance(source.images, np.ndarray):  # chunks are not read
        return 0.0
    some = evenly_spaced(len(source), min(96, 8 + 2**24 // source.images[0].size))  # fewer if they are large
    return SetGeometry.of(list(source.images[some])).part


def _choose_marginals(
    marginals: Marginals | None, solver: Solver, target_labels: NDArray[Any] | None, *, weighted: bool
) -> Marginals:
    """Resolve the ``marginals`` option."""
    adjustable = isinstance(solver, Sinkhorn) and solver.unbalanced is None
    if marginals is None:
        if not adjustable or weighted:
            return "balanced"
        return "relaxed" if target_labels is None else "estimated"
    if marginals != "balanced" and not adjustable:
        fix = "leave marginals out to solve with it, or give Sinkhorn(reg=...)"
        raise InputError(f"marginals={marginals!r} sets the penalties of a Sinkhorn solver, got {solver!r}; {fix}.")
    if marginals == "estimated" and target_labels is None:
        fix = 'give Dataset(images, labels), a folder for each class, or marginals="relaxed"'
        raise InputError(f'marginals="estimated" needs labels on the target, whose proportions it estimates; {fix}.')
    if marginals == "estimated" and weighted:
        raise InputError('weights and marginals="estimated" are mutually exclusive; leave one of them out.')
    return marginals


def _solve_marginals(
    marginals: Marginals,
    solver: Any,
    cost: Cost,
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
    classes: SourceClasses | None,
    state: str | Path | None,
) -> Coupling:
    """Solve with exact marginals, with a relaxed target marginal, or with penalized class totals in addition."""
    source_weights, target_weights = weights
    options: dict[str, Any] = {} if state is None else {"state": state}
    if marginals == "relaxed":
        solver = replace(solver, unbalanced=(None, 0.5 * solver.reg))
    elif marginals == "estimated":
        assert classes is not None
        estimate, codes, counts = classes.estimate, classes.model.codes, classes.model.counts
        # on single targets: larger if classes have many images, which show how their members are distributed
        penalty = max(2.0, float(np.median(counts)) / 150) * solver.reg
        # firmness is lam / (lam + penalty + reg)
        firm = estimate.firmness / (1 - estimate.firmness) * (penalty + solver.reg)
        solver = replace(solver, unbalanced=(None, penalty))
        target_weights = (estimate.proportions / counts)[codes]
        options["target_groups"] = codes, firm
    return solver.solve(cost, source_weights, target_weights, **options)


@any_names
def _warn_of_different_proportions(
    labels: tuple[NDArray[Any] | None, NDArray[Any] | None], weights: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> None:
    """Warn where a balanced plan must send elements to other classes."""
    source, target = labels
    if source is None or target is None or not np.isin(source, target).any():
        return
    one, other = (Series(mass).groupby(side).sum() for side, mass in zip(labels, weights, strict=True))
    differences = one.sub(other, fill_value=0.0).abs()  # of each class
    different = float(differences.sum() / 2)
    by_chance = float(np.sqrt(len(differences) * (1 / len(source) + 1 / len(target)))) / 2
    if different > 0.05 + by_chance:
        problem = f"a balanced match must send {different:.0%} of the source to other classes"
        advice = 'use marginals="estimated" or "relaxed" (--marginals)'
        warn(f"the two sets have different class proportions: {problem}; {advice}.")
