"""The front door: two datasets in, a match out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from bispectral_ot.checks import check_choice
from bispectral_ot.choices import Marginals
from bispectral_ot.costs import Cost, Metric, Storage
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import as_shapes
from bispectral_ot.datasets.load import as_datasets
from bispectral_ot.datasets.transforms import warn_of_shared
from bispectral_ot.engines import Threads
from bispectral_ot.engines.cluster import as_engine
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.matching.novelty import IMPRESSION, unmatched_share
from bispectral_ot.matching.relaxation import (
    choose_marginals,
    estimate_for,
    solve_marginals,
    some_rows,
    warn_of_different_shares,
)
from bispectral_ot.matching.result import Match, label_names
from bispectral_ot.matching.stages import Stages
from bispectral_ot.progress import Progress, silent
from bispectral_ot.spaces import FeatureSpace, choose_features
from bispectral_ot.transport import SOLVERS, Sinkhorn, Solver
from bispectral_ot.transport.weights import as_weights

# Share of sources without counterpart that makes a match doubtful as a whole.
_MOST = 2 / 3


def match(
    source: Dataset | ArrayLike | os.PathLike[str],
    target: Dataset | ArrayLike | os.PathLike[str],
    *,
    symmetry: str | None = None,
    features: Any = None,
    metric: Metric | None = None,
    intensity: str | None = None,
    solver: Solver | str | None = None,
    normalize: bool = True,
    pca: int | None = None,
    source_weights: ArrayLike | None = None,
    target_weights: ArrayLike | None = None,
    marginals: Marginals | None = None,
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
    scratch: str | Path | None = None,
    client: Any = None,
    state: str | Path | None = None,
    progress: Progress = silent,
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
        A name (``"pixels"``, ``"combined-bispectrum"``, the default for rotation, made of ``"coupled-bispectrum"``
        and ``"local-bispectrum"``, ``"ring-bispectrum"`` as in the paper, ``"aligned"``, which turns every pair to its
        best fit, ...; all of them in ``bispectral_ot.invariants.FEATURES``), any scikit-learn transformer or pipeline,
        or None for the symmetry's default. Transformers are fitted to both sets together (to 4,096 images at most,
        evenly taken); those that want rows get flattened images.
    metric
        ``"l1"``, ``"l2"``, ``"sqeuclidean"`` or ``"cosine"``; None for what suits the features (``"sqeuclidean"`` for
        combined, coupled, local and aligned ones, else ``"l1"``).
    intensity
        Whether brightness and contrast count, for combined and local features: ``"ignore"`` (the default) or
        ``"keep"``.
    solver
        ``Sinkhorn()`` by default; also ``Greenkhorn()`` or ``ExactTransport()``, or the program's names for them
        (``"sinkhorn"``, ``"greenkhorn"``, ``"exact"``).
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
        What is known about the shares of classes in the source. ``"balanced"``: they are those of the target (or of the
        weights), so that every target gets its weight. ``"estimated"``: they are estimated from the target's labels,
        and held for classes as a whole. ``"relaxed"``: nothing is known, and targets get what comes. None, the default,
        chooses ``"estimated"`` where the target has labels and ``"relaxed"`` where not, but ``"balanced"`` where
        weights, another solver or penalties of its own are given. See docs/shares.md.
    working_memory, storage
        Byte budget for features and cost (``"4GB"``), and how the cost is kept; see :class:`~bispectral_ot.Cost`.
    scratch
        Folder for memory-mapped features, where the budget asks for them; the system's temporary folder by default.
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
    solver = check_solver(solver)
    solving: dict[str, Any] = {"progress": progress}
    if state is not None:
        if not isinstance(solver, Sinkhorn):
            raise InputError(f"the state of a solve is kept by Sinkhorn only, got {solver!r}; leave state out.")
        solving["state"] = state
    _refuse_pairs(source=source, target=target)
    engine = as_engine(client) or Threads()
    elsewhere = engine.local is not engine
    sides = as_datasets((source, target), ("source", "target"), stay=elsewhere, progress=progress)
    choice = choose_features(features, symmetry=symmetry, metric=metric, kind=sides[0].kind, intensity=intensity)
    if choice.symmetry == "so3-shapes":
        sides = [as_shapes(side) for side in sides]
    shape = len(sides[0]), len(sides[1])
    weights = (
        as_weights(source_weights, shape[0], "source_weights"),
        as_weights(target_weights, shape[1], "target_weights"),
    )
    labels = label_names(sides[0]), label_names(sides[1])
    weighted = source_weights is not None or target_weights is not None
    way = choose_marginals(marginals, solver, labels[1], weighted=weighted)
    if way == "balanced":
        warn_of_different_shares(labels, weights)
    warn_of_shared(*sides)
    stages = Stages()
    with stages.measured("features"):
        space = FeatureSpace(
            sides,
            choice,
            normalize=normalize,
            pca=pca,
            working_memory=working_memory,
            storage=storage,
            solver_bytes=solver.extra_bytes(shape),
            scratch=scratch,
            engine=engine,
            progress=progress,
        )
    estimate = None
    with space:
        with stages.measured("cost"):
            cost = space.cost(0, 1, progress=progress)
        unmatched = 0.0
        if way != "balanced":
            with stages.measured("novelty"):
                unmatched = _unmatched_share(space, shape, cost.scale)
        if way == "estimated":
            assert labels[1] is not None
            with stages.measured("shares"):
                features = (lambda size: space.features[0][some_rows(shape[0], size)], lambda at: space.features[1][at])
                estimate = estimate_for(space.feature_map, choice.metric, features, labels[1], scale=cost.scale)
    with stages.measured("transport"):
        coupling = solve_marginals(way, solver, cost, weights, labels[1], estimate, **solving)
    result = Match(
        coupling,
        source=sides[0],
        target=sides[1],
        source_labels=labels[0],
        target_labels=labels[1],
        settings=match_settings(space, cost, solver)
        | {"normalize": normalize, "marginals": way, "unmatched_share": unmatched},
        share_estimate=estimate,
        seconds=stages.seconds,
        memory=stages.memory,
        feature_map=space.feature_map,
        progress=progress,
    )
    with stages.measured("summary"):
        result.top_matches()
    return result


def _unmatched_share(space: FeatureSpace, shape: tuple[int, int], scale: float) -> float:
    """Estimated share of the sources without counterpart; a warning where most have none."""
    few = [space.features[side][some_rows(shape[side], IMPRESSION)] for side in (0, 1)]
    between, within = (space.feature_map.distance(side, few[1], space.choice.metric) for side in few)
    share = unmatched_share(between, within, scale=scale)
    if share > _MOST:
        warn(
            f"about {share:.0%} of the sources seem to have no counterpart: they are farther from the targets than "
            "these are from each other. Either they are of another kind, and their labels and matches mean nothing, or "
            "the two sets were made in different ways (another size, blur, background). Match.unmatched() lists them.",
            DataWarning,
        )
    return share


def match_settings(space: FeatureSpace, cost: Cost, solver: Solver) -> dict[str, Any]:
    """How a match was computed, for its ``settings``."""
    constant = [each.constant_images for each in space.statistics]
    return {
        "symmetry": space.choice.symmetry,
        "features": space.choice.name,
        "metric": cost.metric,
        "solver": repr(solver),
        "constant_images": dict(zip(("source", "target"), constant, strict=True)),
        **space.settings,
        "storage": cost.storage,
        "storage_error": cost.storage_error / cost.scale,
    }


def check_solver(solver: Solver | str | None) -> Solver:
    """A solver for a name or for None, or the given one if it can solve."""
    if solver is None or isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver or "sinkhorn", SOLVERS)]()
    if isinstance(solver, type) or not (hasattr(solver, "solve") and hasattr(solver, "extra_bytes")):
        raise InputError(f"solver must be one like Sinkhorn(), with solve and extra_bytes methods, got {solver!r}.")
    return solver


def _refuse_pairs(**sides: Any) -> None:
    for name, data in sides.items():
        if isinstance(data, tuple) and len(data) == 2 and getattr(data[0], "ndim", 0) > getattr(data[1], "ndim", 1):
            raise InputError(f"{name} is a pair; images and their labels are given as Dataset(images, labels).")
