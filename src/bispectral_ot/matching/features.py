"""Features of both sets within a byte budget: in memory, in memory maps, or reduced to principal components."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import STORAGES, Storage, choose_storage
from bispectral_ot.errors import InputError, MemoryBudgetError
from bispectral_ot.memory import default_budget, parse_bytes
from bispectral_ot.progress import Progress, silent

# Images whose features are held at a time on the way to their principal components.
_BATCH = 2048


@dataclass(frozen=True)
class MemoryPlan:
    """How features and cost share the budget."""

    storage: Storage
    mapped_features: bool


def plan_memory(
    shape: tuple[int, int],
    n_features: int,
    *,
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
) -> MemoryPlan:
    """Choose before any work is done; the most exact storage first, memory-mapped features where that makes it fit.

    Raises
    ------
    MemoryBudgetError
        If nothing fits; the message says what would be needed.
    """
    feature_bytes = 4 * n_features * sum(shape)
    budget = default_budget() if working_memory is None else parse_bytes(working_memory)
    for candidate in (storage,) if storage else STORAGES:
        for mapped in (False, True):
            try:
                choose_storage(
                    shape,
                    feature_bytes=0 if mapped else feature_bytes,
                    block_rows=512,
                    working_memory=budget,
                    storage=candidate,
                )
            except MemoryBudgetError:
                continue
            return MemoryPlan(candidate, mapped)
    choose_storage(shape, feature_bytes=0, block_rows=512, working_memory=budget, storage=storage)
    raise AssertionError("unreachable")


def extract(transformer: Any, images: NDArray[Any], *, file: Path | None = None, progress: Progress = silent) -> Any:
    """Features of ``images`` as float32 rows, written to a memory map where ``file`` is given."""
    if not hasattr(transformer, "n_features_out_"):  # any scikit-learn transformer will do
        return np.ascontiguousarray(transformer.transform(images), dtype=np.float32)
    if file is None:
        return transformer.transform(images, progress=progress)
    shape = (len(images), transformer.n_features_out_)
    out = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
    return transformer.transform(images, out=out, progress=progress)


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
    weights: NDArray[np.float32] | None = None
    projection: NDArray[np.float32] | None = None

    def __call__(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Features (n, columns) of ``images``, to be compared with ``metric_weights``."""
        pixels = (images - np.float32(self.mean)) / np.float32(self.std)
        rows: NDArray[np.float32] = extract(self.transformer, pixels.astype(np.float32, copy=False))
        if self.projection is None:
            return rows
        if self.weights is not None:
            rows = rows * np.sqrt(self.weights)
        return rows @ self.projection

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

    Written out rather than scikit-learn's PCA, which wants all features in memory at once: here the covariance is
    summed batch by batch, and features are computed a second time for the projection, which costs seconds.
    """

    def batches(stage: str) -> Iterator[tuple[int, NDArray[np.float32]]]:
        total, done = len(images_a) + len(images_b), 0
        for images in (images_a, images_b):
            for start in range(0, len(images), _BATCH):
                rows = extract(transformer, images[start : start + _BATCH])
                if weights is not None:
                    rows *= np.sqrt(weights)
                yield done, rows
                done += len(rows)
                progress(stage, done, total)

    count = len(images_a) + len(images_b)
    total: Any = 0.0
    second: Any = 0.0
    for _, rows in batches("principal components"):
        total = total + rows.sum(axis=0, dtype=np.float64)
        second = second + rows.T @ rows  # float32 products of one batch, float64 between batches
        second = second.astype(np.float64, copy=False)
    mean = total / count
    covariance = second / count - np.outer(mean, mean)
    if not 1 <= n_components <= len(mean):
        raise InputError(f"pca must be between 1 and the {len(mean)} columns of the features, got {n_components}.")
    from scipy.linalg import eigh

    last = len(mean) - 1
    values, vectors = eigh(covariance, subset_by_index=(last - n_components + 1, last))
    variance = float(np.trace(covariance))
    kept = float(np.clip(values, 0, None).sum()) / variance if variance > 0 else 1.0
    projection = np.ascontiguousarray(vectors[:, ::-1], dtype=np.float32)
    out = np.empty((count, n_components), dtype=np.float32)
    # The mean moves both sets alike: distances do not need it, and angles (cosine) must not lose it.
    for start, rows in batches("features"):
        out[start : start + len(rows)] = rows @ projection
    return Reduced(out[: len(images_a)], out[len(images_a) :], projection, min(kept, 1.0))
