"""The front door: two datasets in, a match out."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bispectral_ot.checks import check_choice
from bispectral_ot.costs import Metric, Storage
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import as_dataset
from bispectral_ot.datasets.transforms import mean_and_std, rescale
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.invariants import make_features
from bispectral_ot.invariants.names import DEFAULT_FEATURES
from bispectral_ot.matching.features import FeatureMap, check_metric, extracted_features
from bispectral_ot.matching.result import Match, label_names
from bispectral_ot.matching.stages import Stages
from bispectral_ot.progress import Progress, silent
from bispectral_ot.transport import SOLVERS
from bispectral_ot.transport.weights import as_weights

# Standard deviations of the two sides may differ so many times before it looks like another range of pixels.
_SCALE_RATIO = 3


def match(
    a: Dataset | ArrayLike | os.PathLike[str],
    b: Dataset | ArrayLike | os.PathLike[str],
    *,
    symmetry: str | None = None,
    features: Any = None,
    metric: Metric | None = None,
    solver: Any = None,
    normalize: bool = True,
    pca: int | None = None,
    source_weights: ArrayLike | None = None,
    target_weights: ArrayLike | None = None,
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
    scratch: str | Path | None = None,
    progress: Progress = silent,
) -> Match:
    """Pair the elements of two datasets by content, whatever the symmetry did to them.

    Parameters
    ----------
    a, b
        Source and target: Datasets, or arrays (n, height, width) or (n, height, width, channels) of the same size;
        1-D signals, for features such as ``GroupBispectrum``, as (n, 1, length). Names and paths are loaded, as by
        :func:`~bispectral_ot.load`. For labels make a ``Dataset(images, labels)``.
    symmetry
        What the comparison should not see: ``"rotation"``, ``"rotation-reflection"`` (mirror images, too),
        ``"translation"``, ``"d4"`` (quarter turns and mirror images), ``"so3"`` (3-D rotation of signals on the
        sphere, images being latitude by longitude), ``"so3-shapes"`` (3-D rotation of point clouds (n, points, 3))
        or ``"none"``. None for what the features do not see: ``"rotation"`` where they are left to the default, too.
    features
        A name (``"pixels"``, ``"coupled-bispectrum"``, the default for rotation, ``"ring-bispectrum"`` as in the paper,
        ``"aligned"``, which turns every pair to its best fit, ...; all of them in
        ``bispectral_ot.invariants.FEATURES``), any scikit-learn transformer or pipeline, or None for the symmetry's
        default. Transformers are fitted to the source; those that
        want rows get flattened images.
    metric
        ``"l1"``, ``"l2"``, ``"sqeuclidean"`` or ``"cosine"``; None for what suits the features (``"sqeuclidean"`` for
        coupled and aligned ones, else ``"l1"``).
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
    working_memory, storage
        Byte budget for features and cost (``"4GB"``), and how the cost is kept; see :class:`~bispectral_ot.Cost`.
    scratch
        Folder for memory-mapped features, where the budget asks for them; the system's temporary folder by default.
    progress
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Match

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> a, b = bot.split_halves(bot.load("digits"), per_class=10)
    >>> bot.match(bot.rotate_randomly(a), b, symmetry="rotation").converged
    True
    """
    transformer = make_features(features, symmetry=symmetry)
    features = DEFAULT_FEATURES[symmetry or "rotation"] if features is None else features
    metric = check_metric(metric or transformer.default_metric, transformer)
    if solver is None or isinstance(solver, str):
        solver = SOLVERS[check_choice("solver", solver or "sinkhorn", SOLVERS)]()
    if isinstance(solver, type) or not hasattr(solver, "solve"):
        raise InputError(f"solver must be one like Sinkhorn(), with a solve method, got {solver!r}.")
    if scratch is not None and not Path(scratch).is_dir():
        raise InputError(f"scratch must be a folder that exists, got {str(scratch)!r}.")
    source, target = _as_dataset(a, "a"), _as_dataset(b, "b")
    _check_sizes(source, target)
    source_weights = as_weights(source_weights, len(source), "source_weights")
    target_weights = as_weights(target_weights, len(target), "target_weights")
    stages = Stages()
    constant = _tell_constant_images(source, target)
    mean, std = mean_and_std(source.images, target.images) if normalize else (0.0, 1.0)
    scale = mean, std or 1.0  # all pixels may be equal
    with ExitStack() as stack:
        with stages.measured("features"):
            pair = stack.enter_context(
                extracted_features(
                    transformer,
                    # handed over, so that they can go once the features are there
                    *(rescale(side.images, *scale) if normalize else side.images for side in (source, target)),
                    scale=scale,
                    pca=pca,
                    working_memory=working_memory,
                    storage=storage,
                    solvers=[solver],
                    scratch=scratch,
                    progress=progress,
                )
            )
        _tell_scales(source, target, pair.feature_map)
        with stages.measured("cost"):
            cost = pair.cost(metric, progress=progress)
        settings = {
            "symmetry": transformer.symmetry or symmetry,
            "features": features if isinstance(features, str) else type(features).__name__,
            "metric": metric,
            "solver": repr(solver),
            "normalize": normalize,
            "constant_images": constant,
            **pair.settings,
            "storage": cost.storage,
            "storage_error": cost.storage_error / cost.scale,
        }
        feature_map = pair.feature_map
        del pair  # a stored cost does not need the features any more
        with stages.measured("transport"):
            coupling = solver.solve(cost, source_weights, target_weights, progress=progress)
        result = Match(
            coupling,
            source_labels=label_names(source),
            target_labels=label_names(target),
            settings=settings,
            seconds=stages.seconds,
            memory=stages.memory,
            feature_map=feature_map,
            progress=progress,
        )
        with stages.measured("summary"):
            result.top_matches()
    return result


def _as_dataset(data: Any, name: str) -> Dataset:
    if isinstance(data, tuple) and len(data) == 2 and getattr(data[0], "ndim", 0) > getattr(data[1], "ndim", 1):
        raise InputError(f"{name} is a pair; images and their labels are given as Dataset(images, labels).")
    return as_dataset(data, name=name)


def _check_sizes(source: Dataset, target: Dataset) -> None:
    one, other = ((*side.images.shape[1:], 1)[:3] for side in (source, target))  # no channel axis: one channel
    if one[:2] != other[:2]:
        raise InputError(
            f"the images of {source.name!r} are {one[0]} x {one[1]} but those of {target.name!r} are "
            f"{other[0]} x {other[1]}; "
            "bring them to one size with load(..., resize=...) (--resize)."
        )
    if one[2] != other[2]:
        raise InputError(
            f"the images of {source.name!r} have {one[2]} channel(s) but those of {target.name!r} have {other[2]}; "
            "turn colours into grey with load(..., grey=True) (--grey)."
        )


def _tell_scales(source: Dataset, target: Dataset, feature_map: FeatureMap) -> None:
    """Warn where pixels of the two sets are on different scales, and the features see that."""
    one, other = (mean_and_std(side.images)[1] for side in (source, target))
    if min(one, other) == 0 or max(one, other) <= _SCALE_RATIO * min(one, other):
        return
    few = target.images[:: -(-len(target) // 8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen, on_one_scale = feature_map(few), feature_map(few * (one / other))
    if np.linalg.norm(seen - on_one_scale) > 0.01 * np.linalg.norm(seen):
        warnings.warn(
            f"the pixels of {source.name!r} have a standard deviation of {one:.5g}, those of {target.name!r} "
            f"{other:.5g}, and these features see that. If the sets only differ in range (8 and 16 bits, 0..1 and "
            "0..255), bring them to one first: save files in one depth, divide arrays by their maximum, or use "
            "normalize(dataset) on each.",
            DataWarning,
            stacklevel=3,
        )


def _tell_constant_images(source: Dataset, target: Dataset) -> dict[str, int]:
    counts = {}
    for side, dataset in (("source", source), ("target", target)):
        pixels = dataset.images.reshape(len(dataset), -1)
        counts[side] = int((pixels.max(axis=1) == pixels.min(axis=1)).sum())
        if counts[side]:
            warnings.warn(
                f"{counts[side]} of the {len(dataset)} images of {dataset.name!r} are constant (blank): they have "
                "no shape to match by.",
                DataWarning,
                stacklevel=3,
            )
    return counts
