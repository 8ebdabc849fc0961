"""The front door: two datasets in, a match out."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.costs import Metric, Storage
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.transforms import mean_and_std, rescale
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.invariants import make_features
from bispectral_ot.invariants.names import DEFAULT_FEATURES
from bispectral_ot.matching.features import (
    FeatureMap,
    check_components,
    check_metric,
    column_weights,
    count_columns,
    extract,
    fit,
    plan_memory,
    reduce_features,
)
from bispectral_ot.matching.result import Match
from bispectral_ot.memory import peak_memory
from bispectral_ot.progress import Progress, silent
from bispectral_ot.transport import Sinkhorn
from bispectral_ot.transport.weights import as_weights


def match(
    a: Dataset | ArrayLike,
    b: Dataset | ArrayLike,
    *,
    symmetry: str = "rotation",
    features: Any = None,
    metric: Metric | None = None,
    solver: Any = None,
    normalise: bool = True,
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
        Source and target: Datasets, or arrays (n, height, width) or (n, height, width, channels) of the same size.
    symmetry
        What the comparison should not see: ``"rotation"``, ``"rotation-reflection"`` (mirror images, too),
        ``"translation"``, ``"d4"`` (quarter turns and mirror images), ``"so3"`` (3-D rotation of signals on the
        sphere, images being latitude by longitude), ``"so3-shapes"`` (3-D rotation of point clouds (n, points, 3))
        or ``"none"``.
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
        ``Sinkhorn()`` by default; also ``Greenkhorn()`` or ``ExactTransport()``.
    normalise
        Bring both sets to mean 0 and standard deviation 1 first, with the same two numbers for both (the
        paper's way). Say False where that was done before.
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
    features = DEFAULT_FEATURES[symmetry] if features is None else features
    metric = check_metric(metric or getattr(transformer, "default_metric", "l1"), transformer)
    source, target = _as_dataset(a, "a"), _as_dataset(b, "b")
    if source.images.shape[1:] != target.images.shape[1:]:
        raise InputError(
            f"the images of {source.name!r} are {_size(source)} but those of {target.name!r} are {_size(target)}; "
            "bring them to one size with load(..., resize=...) (--resize)."
        )
    solver = Sinkhorn() if solver is None else solver
    if isinstance(solver, type) or not hasattr(solver, "solve"):
        raise InputError(f"solver must be one like Sinkhorn(), with a solve method, got {solver!r}.")
    if scratch is not None and not Path(scratch).is_dir():
        raise InputError(f"scratch must be a folder that exists, got {str(scratch)!r}.")
    shape = len(source), len(target)
    source_weights = as_weights(source_weights, shape[0], "source_weights")
    target_weights = as_weights(target_weights, shape[1], "target_weights")
    settings: dict[str, Any] = {
        "symmetry": symmetry,
        "features": features if isinstance(features, str) else type(transformer).__name__,
        "transformer": repr(transformer),
        "metric": metric,
        "solver": repr(solver),
        "normalise": normalise,
        "pca": pca,
        "constant_images": _tell_constant_images(source, target),
    }
    seconds: dict[str, float] = {}
    memory: dict[str, int] = {}

    def timed(stage: str) -> AbstractContextManager[None]:
        return _measured(seconds, memory, stage)

    mean, std = mean_and_std(source.images, target.images) if normalise else (0.0, 1.0)
    std = std or 1.0  # all pixels are equal
    images_a, images_b = (rescale(side.images, mean, std) if normalise else side.images for side in (source, target))
    transformer = fit(transformer, images_a)
    columns = count_columns(transformer, images_a)
    if pca is not None:
        check_components(pca, transformer, columns)
    plan = plan_memory(shape, pca or columns, working_memory=working_memory, storage=storage)
    weights = column_weights(transformer)
    projection: NDArray[np.float32] | None = None
    with tempfile.TemporaryDirectory(prefix="bispectral-ot-", dir=scratch) as folder:
        with timed("features"):
            if pca:
                reduced = reduce_features(transformer, images_a, images_b, weights, pca, progress=progress)
                xa, xb, projection = reduced.xa, reduced.xb, reduced.projection
                settings["kept_variance"] = reduced.kept_variance
            else:
                files = [Path(folder) / f"{side}.npy" if plan.mapped_features else None for side in "ab"]
                xa = extract(transformer, images_a, file=files[0], progress=progress)
                xb = extract(transformer, images_b, file=files[1], progress=progress)
        del images_a, images_b
        feature_map = FeatureMap(transformer, mean, std, weights, projection)
        with timed("cost"):
            cost = feature_map.cost(xa, xb, metric, storage=plan.storage, progress=progress)
        settings |= {
            "columns": int(xa.shape[1]),
            "mapped_features": isinstance(xa, np.memmap),
            "storage": cost.storage,
            "storage_error": cost.storage_error / cost.scale,
        }
        del xa, xb
        with timed("transport"):
            coupling = solver.solve(cost, source_weights, target_weights, progress=progress)
        result = Match(
            coupling,
            source_labels=_names(source),
            target_labels=_names(target),
            settings=settings,
            seconds=seconds,
            memory=memory,
            feature_map=feature_map,
            progress=progress,
        )
        with timed("summary"):
            result.top_matches()
    return result


def _as_dataset(data: Dataset | ArrayLike, name: str) -> Dataset:
    return data if isinstance(data, Dataset) else Dataset(cast(NDArray[Any], data), name=name)  # checked there


def _size(dataset: Dataset) -> str:
    return " x ".join(map(str, dataset.images.shape[1:]))


def _names(dataset: Dataset) -> NDArray[Any] | None:
    """Labels by name, so that two sets with different class lists are compared by meaning, not by number."""
    return None if dataset.labels is None else np.asarray(dataset.classes)[dataset.labels]


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


@contextmanager
def _measured(seconds: dict[str, float], memory: dict[str, int], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - start
    memory[stage] = peak_memory()
