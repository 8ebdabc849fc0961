"""Features of both sets within a byte budget: in memory, in memory maps, or reduced to principal components."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.costs import AlignedCost, Cost, Metric, Storage
from bispectral_ot.costs.aligned import check_aligned_metric, default_rotations
from bispectral_ot.datasets.transforms import rescale
from bispectral_ot.errors import InputError
from bispectral_ot.invariants import Transformer, as_transformer
from bispectral_ot.matching.budget import plan_memory
from bispectral_ot.progress import Progress, silent

# Images whose features are held at a time on the way to their principal components, and that decide these.
_BATCH, _SAMPLE = 2048, 4096


def fit(transformer: Any, images: NDArray[Any]) -> Transformer:
    """A copy of the transformer, fitted to ``images``; the given one stays as it is."""
    from sklearn.base import clone

    fitted: Transformer = clone(as_transformer(transformer), safe=False)
    return fitted.fit(images)


def extract(
    transformer: Transformer, images: NDArray[Any], *, file: Path | None = None, progress: Progress = silent
) -> Any:
    """Features of ``images`` as float32 rows, written to a memory map where ``file`` is given."""
    out = None if file is None else _memory_map(file, len(images), transformer.n_features_out_)
    return transformer.transform(images, out=out, progress=progress)


def check_metric(metric: Any, transformer: Transformer) -> Metric:
    """Return a metric that can be taken between these features."""
    if transformer.aligns:
        return check_aligned_metric(metric)
    return cast(Metric, check_choice("metric", metric, transformer.metrics))


def check_components(pca: Any, transformer: Transformer, n_columns: int) -> None:
    """Refuse a number of principal components that cannot be."""
    if transformer.aligns:
        raise InputError("principal components cannot be turned to fit; leave pca out, or take coupled-bispectrum.")
    if check_integer("pca", pca, minimum=1) > n_columns:
        raise InputError(f"pca must be between 1 and the {n_columns} columns of the features, got {pca}.")


def _memory_map(file: Path, n_rows: int, n_columns: int) -> Any:
    return np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(n_rows, n_columns))


@dataclass(frozen=True)
class FeatureMap:
    """How a match saw its images, so that further images of their kind can be seen alike.

    Attributes
    ----------
    transformer : the fitted transformer
    mean, std : what pixels were brought to 0 and 1 with
    weights : of the feature columns in the metric, or None
    projection : (columns, components) principal components, or None
    """

    transformer: Any
    mean: float = 0.0
    std: float = 1.0
    weights: NDArray[np.float32] | None = field(default=None, repr=False)
    projection: NDArray[np.float32] | None = field(default=None, repr=False)

    def __call__(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Features (n, columns) of ``images``, to be compared with ``metric_weights``."""
        rows: NDArray[np.float32] = extract(self.transformer, rescale(images, self.mean, self.std))
        if self.projection is None:
            return rows
        if self.weights is not None:
            rows = rows * np.sqrt(self.weights)
        return rows @ self.projection

    def cost(
        self,
        xa: NDArray[np.float32],
        xb: NDArray[np.float32],
        metric: Metric,
        *,
        storage: Storage | None = None,
        progress: Progress = silent,
    ) -> Cost:
        """Distances between two sets of these features; steerable ones are turned to their best fit."""
        transformer = self.transformer
        if not transformer.aligns:
            return Cost(xa, xb, metric, weights=self.metric_weights, storage=storage, progress=progress)
        return AlignedCost(
            xa,
            xb,
            transformer.index_map_,
            metric,
            reflections=transformer.symmetry == "rotation-reflection",
            storage=storage,
            progress=progress,
        )

    @property
    def metric_weights(self) -> NDArray[np.float32] | None:
        """Weights for the :class:`~bispectral_ot.Cost` of these features; the projection has taken them up."""
        return self.weights if self.projection is None else None


@dataclass(frozen=True)
class Reduced:
    """Features of both sets on their common principal components, and the share of variance these keep."""

    xa: NDArray[np.float32]
    xb: NDArray[np.float32]
    projection: NDArray[np.float32]
    kept_variance: float


def reduce_features(
    transformer: Any,
    images_a: NDArray[Any],
    images_b: NDArray[Any],
    weights: NDArray[np.float32] | None,
    n_components: int,
    *,
    progress: Progress = silent,
) -> Reduced:
    """Project weighted features on the leading principal components of both sets together.

    The components are those of at most 4,096 images, taken evenly from both sets: beyond that they hardly change,
    while a covariance of thousands of columns costs minutes. ``kept_variance`` is that of all images.
    """
    from sklearn.decomposition import PCA

    def batches(stage: str, places: Any) -> Iterator[NDArray[np.float32]]:
        """Weighted features of the images at ``places``, counted through both sets, a batch at a time."""
        for start in range(0, len(places), _BATCH):
            batch = places[start : start + _BATCH]
            for images, at in ((images_a, batch[batch < n_a]), (images_b, batch[batch >= n_a] - n_a)):
                if len(at):
                    rows = extract(transformer, images[at])
                    yield rows if weights is None else rows * np.sqrt(weights)
            progress(stage, min(start + _BATCH, len(places)), len(places))

    n_a, count = len(images_a), len(images_a) + len(images_b)
    sample = np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(int))
    rows = np.concatenate(list(batches("principal components", sample)))
    # fewer images than components have no more directions than there are images
    components = PCA(min(n_components, *rows.shape), random_state=0, copy=False).fit(rows).components_
    projection = np.ascontiguousarray(components.T, dtype=np.float32)
    del rows
    out = np.empty((count, projection.shape[1]), dtype=np.float32)
    total, squares, start = np.zeros(len(projection)), 0.0, 0
    # The mean moves both sets alike: distances do not need it, and angles (cosine) must not lose it.
    for rows in batches("features", np.arange(count)):
        out[start : start + len(rows)] = rows @ projection
        total += rows.sum(axis=0, dtype=np.float64)
        squares += float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
        start += len(rows)
    variance = squares / count - float(np.square(total / count).sum())
    kept = float(out.var(axis=0, dtype=np.float64).sum()) / variance if variance > 0 else 1.0
    return Reduced(out[:n_a], out[n_a:], projection, min(kept, 1.0))


@dataclass(frozen=True)
class FeaturePair:
    """Features of both sets, how they were made, and how the budget has their cost stored.

    Attributes
    ----------
    xa, xb : (n, columns) and (m, columns) float32, memory-mapped where the budget asks for it
    feature_map : how images became these features
    storage : of the cost
    settings : what a result should tell about them
    """

    xa: Any
    xb: Any
    feature_map: FeatureMap
    storage: Storage
    settings: dict[str, Any]

    def cost(self, metric: Metric, *, progress: Progress = silent) -> Cost:
        """Distances between the two sets."""
        return self.feature_map.cost(self.xa, self.xb, metric, storage=self.storage, progress=progress)


@contextmanager
def extracted_features(
    transformer: Any,
    images_a: NDArray[Any],
    images_b: NDArray[Any],
    *,
    scale: tuple[float, float] = (0.0, 1.0),
    pca: int | None = None,
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
    solvers: Sequence[Any] = (),
    scratch: str | Path | None = None,
    progress: Progress = silent,
) -> Iterator[FeaturePair]:
    """Fit to the first set, plan the memory, and extract the features of both; their files are gone afterwards.

    Parameters
    ----------
    scale
        Mean and deviation that the images were brought to 0 and 1 with.
    pca, working_memory, storage, scratch
        As for :func:`~bispectral_ot.match`.
    solvers
        Those that will solve for this cost, one after the other: what they take beside it (``extra_bytes``) is planned
        for.
    """
    shape = len(images_a), len(images_b)
    transformer = fit(transformer, images_a)
    columns, weights = transformer.n_features_out_, transformer.feature_weights_
    if pca is not None:
        check_components(pca, transformer, columns)
    taken = [solver.extra_bytes(shape) for solver in solvers if hasattr(solver, "extra_bytes")]
    plan = plan_memory(
        shape, pca or columns, working_memory=working_memory, storage=storage, solver_bytes=max(taken, default=0)
    )
    settings: dict[str, Any] = {"transformer": repr(transformer), "pca": pca}
    if transformer.aligns:
        settings["n_rotations"] = default_rotations(transformer.index_map_)  # the best of so many, not of all
    with tempfile.TemporaryDirectory(prefix="bispectral-ot-", dir=scratch) as folder:
        if pca is not None:
            reduced = reduce_features(transformer, images_a, images_b, weights, pca, progress=progress)
            rows, projection = [reduced.xa, reduced.xb], reduced.projection
            settings["kept_variance"] = reduced.kept_variance
            del reduced
        else:
            files = [Path(folder) / f"{side}.npy" if plan.mapped_features else None for side in "ab"]
            rows = [
                extract(transformer, images_a, file=files[0], progress=progress),
                extract(transformer, images_b, file=files[1], progress=progress),
            ]
            projection = None
        settings |= {"columns": int(rows[0].shape[1]), "mapped_features": isinstance(rows[0], np.memmap)}
        feature_map = FeatureMap(transformer, *scale, weights, projection)
        del images_a, images_b  # what the caller gives up is free from here on, the features likewise
        yield FeaturePair(rows.pop(0), rows.pop(0), feature_map, plan.storage, settings)
