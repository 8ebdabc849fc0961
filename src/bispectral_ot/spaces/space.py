"""Several datasets seen through one fitted map."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.costs import Cost, Metric, Storage, plan_storage
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.clouds import cloud_points, pack_clouds
from bispectral_ot.datasets.dataset import KINDS, is_chunked
from bispectral_ot.engines import Block, Engine, Threads, row_blocks
from bispectral_ot.engines.engine import BlockFunction
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.invariants.base import warn_of_vanishing
from bispectral_ot.memory import reserved_memory_map
from bispectral_ot.progress import Progress, silent
from bispectral_ot.spaces.choice import FeatureChoice
from bispectral_ot.spaces.feature_map import FeatureMap, Rows, fitted
from bispectral_ot.spaces.projection import SAMPLE, principal_components, sample_evenly
from bispectral_ot.spaces.statistics import PixelStatistics, common_scale, measure_pixels

# Images whose features are made at a time, and the bytes that they may take as float32.
_BATCH_IMAGES, _BATCH_BYTES = 2048, 2**28
# Bytes of images that decide a fit.
_SAMPLE_BYTES = 2**30
# Standard deviations of two sets may differ so many times before it looks like another range of pixels.
_SCALE_RATIO = 3


class FeatureSpace:
    """Any number of datasets through one normalization, one fitted transformer and one projection.

    Distances between different pairs of its sets are in the same units. It is the only place that normalizes, fits,
    projects and plans memory.

    Parameters
    ----------
    datasets
        Sets of images of one size and kind; shapes in 3-D may differ in size.
    choice
        Features and metric, from :func:`choose_features`.
    normalize
        Bring all pixels to mean 0 and standard deviation 1 first, with the same two numbers for all sets; shapes in
        3-D stay as they are.
    pca
        Reduce the features to this many principal components of all sets together.
    working_memory, storage
        Byte budget for all features and one cost at a time, and how that is kept; see :class:`~bispectral_ot.Cost`.
    solver_bytes
        What a solver takes in addition to features and cost.
    within
        Whether costs of a set with itself will be asked for, too, for which the budget must then have room.
    scratch
        Folder for memory-mapped features, where the budget asks for them.
    engine
        Where features and costs are computed; the cores of this machine by default.
    progress
        Called as features are computed.

    Attributes
    ----------
    choice, feature_map : what the space sees, and the map that was fitted
    statistics : of the pixels of each set
    settings : what a report should say about the features

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> from bispectral_ot.spaces import FeatureSpace, choose_features
    >>> first, second = bot.split_halves(bot.load("digits"), per_class=5)
    >>> space = FeatureSpace([first, second], choose_features("pixels"))
    >>> space.cost(0, 1).shape
    (50, 50)
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        choice: FeatureChoice,
        *,
        normalize: bool = True,
        pca: int | None = None,
        working_memory: str | int | float | None = None,
        storage: Storage | None = None,
        solver_bytes: int = 0,
        within: bool = False,
        scratch: str | Path | None = None,
        engine: Engine | None = None,
        progress: Progress = silent,
    ) -> None:
        if scratch is not None and not Path(scratch).is_dir():
            raise InputError(f"scratch must be a folder that exists, got {str(scratch)!r}.")
        if pca is not None:
            check_integer("pca", pca, minimum=1)
        _check_sizes(datasets)
        progress("prepare", 0, 1)
        self.choice, self.engine = choice, engine or Threads()
        self.statistics: list[PixelStatistics] = [
            measure_pixels(dataset, self.engine if is_chunked(dataset.images) else self.engine.local)
            for dataset in datasets
        ]
        mean, std = common_scale(self.statistics) if normalize and datasets[0].is_flat else (0.0, 1.0)
        sample = fit_sample(chosen_evenly(datasets))
        unfitted = FeatureMap(choice.transformer, mean, std)
        transformer = fitted(choice.transformer, unfitted.normalized(sample))
        self.feature_map = FeatureMap(transformer, mean, std, transformer.feature_weights_)
        columns = transformer.n_features_out_
        if pca is not None:
            choice.check_components(pca, columns)
        sizes = sorted((len(dataset) for dataset in datasets), reverse=True)
        plan = plan_storage(
            (sizes[0], sizes[0 if within else min(1, len(sizes) - 1)]),
            feature_bytes=4 * (pca or columns) * sum(sizes),
            may_map=self.engine.local is self.engine,
            solver_bytes=solver_bytes,
            block_rows=512,
            working_memory=working_memory,
            storage=storage,
            engine=self.engine,
        )
        progress("prepare", 1, 1)
        self.storage: Storage = plan.storage
        self.settings: dict[str, Any] = {"transformer": repr(transformer), "pca": pca}
        if pca is None:
            self.features = self._extract(datasets, columns, plan.mapped_features, scratch, progress)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # the features of all images will say it
                rows = self.feature_map.weighted(self.feature_map.transform(sample))
            projection = principal_components(rows, pca)
            self.feature_map = FeatureMap(transformer, mean, std, self.feature_map.weights, projection)
            self.features, kept = self._extract_projected(datasets, progress)
            self.settings["kept_variance"] = kept
        self.settings |= {"columns": int(self.features[0].shape[1]), "mapped_features": plan.mapped_features}
        if choice.aligns:
            distance = self.feature_map.distance(self.features[0][:1], self.features[0][:1], choice.metric)
            self.settings["n_rotations"] = distance.phases.shape[1]  # type: ignore[attr-defined]
        self._warn_of_scales(datasets)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the features go, and their files; costs that were made from them stay usable."""
        self.features = []

    def cost(
        self,
        source: int,
        target: int,
        *,
        metric: Metric | None = None,
        scale: float | None = None,
        progress: Progress = silent,
    ) -> Cost:
        """The cost between two of the sets, by their places.

        ``metric`` is that of the choice unless another is given; ``scale`` is as for :class:`~bispectral_ot.Cost`.
        """
        metric = metric or self.choice.metric
        distance = self.feature_map.distance(self.features[source], self.features[target], metric)
        return Cost.from_distance(distance, scale=scale, storage=self.storage, engine=self.engine, progress=progress)

    def distances_within(
        self, place: int, *, metric: Metric | None = None, progress: Progress = silent
    ) -> NDArray[np.float64]:
        """Distances (n, n) between all images of one set; symmetric, 0 on the diagonal."""
        return self.feature_map.distances_within(self.features[place], metric or self.choice.metric, progress=progress)

    def _extract(
        self,
        datasets: Sequence[Dataset],
        columns: int,
        mapped: bool,
        scratch: str | Path | None,
        progress: Progress,
    ) -> list[NDArray[np.float32]]:
        features: list[NDArray[np.float32]] = []
        done, total, vanishing = 0, sum(map(len, datasets)), 0
        for dataset in datasets:
            shape = (len(dataset), columns)
            out = reserved_memory_map(shape, folder=scratch) if mapped else np.empty(shape, dtype=np.float32)
            for block, (rows, count) in self._over_batches(_features, dataset):
                out[block.start : block.stop] = rows
                vanishing += count
                done += len(rows)
                progress("features", done, total)
            features.append(out)
        warn_of_vanishing(self.feature_map.transformer, vanishing, total)
        return features

    def _extract_projected(self, datasets: Sequence[Dataset], progress: Progress) -> tuple[list[Rows], float]:
        """Features on the principal components, and the share of the variance that these keep.

        The mean moves all sets alike: distances do not need it, and angles (cosine) must not lose it.
        """
        see = self.feature_map
        assert see.projection is not None
        out = [np.empty((len(dataset), see.projection.shape[1]), dtype=np.float32) for dataset in datasets]
        count, done, vanishing = sum(map(len, datasets)), 0, 0
        total, squares = np.zeros(len(see.projection)), 0.0
        for dataset, features in zip(datasets, out, strict=True):
            for block, (rows, sums, added_squares, added) in self._over_batches(_projected_features, dataset):
                features[block.start : block.stop] = rows
                total += sums
                squares += added_squares
                vanishing += added
                done += len(rows)
                progress("features", done, count)
        warn_of_vanishing(see.transformer, vanishing, count)
        variance = squares / count - float(np.square(total / count).sum())
        means = sum(rows.sum(axis=0, dtype=np.float64) for rows in out) / count
        kept = sum(float(np.square(rows - means, dtype=np.float64).sum()) for rows in out) / count
        return out, min(kept / variance, 1.0) if variance > 0 else 1.0

    def _over_batches(self, function: BlockFunction, dataset: Dataset) -> Iterator[tuple[Block, Any]]:
        """Blocks of images and what a block function gives for them."""
        blocks = row_blocks(len(dataset), block_rows=_batch_size(dataset))
        if self.engine.local is self.engine:  # a batch uses all cores itself
            for block in blocks:
                yield block, function(block, dataset.images[block.start : block.stop], self.feature_map)
        else:
            found = self.engine.map(function, blocks, rows=(dataset.images,), shared=(self.feature_map,))
            yield from zip(blocks, found, strict=True)

    def _warn_of_scales(self, datasets: Sequence[Dataset]) -> None:
        """Warn where pixels of two sets are on different scales, and the features see that."""
        deviations = [each.std for each in self.statistics]
        low, high = int(np.argmin(deviations)), int(np.argmax(deviations))
        if deviations[low] == 0 or deviations[high] <= _SCALE_RATIO * deviations[low]:
            return
        few = np.asarray(datasets[high].images[:: -(-len(datasets[high]) // 8)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen, on_one_scale = self.feature_map(few), self.feature_map(few * (deviations[low] / deviations[high]))
        if np.linalg.norm(seen - on_one_scale) > 0.01 * np.linalg.norm(seen):
            warn(
                f"the pixels of {datasets[low].name!r} have a standard deviation of {deviations[low]:.5g}, those of "
                f"{datasets[high].name!r} {deviations[high]:.5g}, and these features see that. If the sets only differ "
                "in range (8 and 16 bits, 0..1 and 0..255), bring them to one first: save files in one depth, divide "
                "arrays by their maximum, or use normalize(dataset) on each.",
                DataWarning,
            )


def _sample_size(dataset: Dataset) -> int:
    return max(1, min(SAMPLE, _SAMPLE_BYTES // (4 * int(dataset.images[0].size))))


def chosen_evenly(datasets: Sequence[Dataset]) -> list[Dataset]:
    """Some images of each set, those that decide a fit."""
    positions = sample_evenly([len(dataset) for dataset in datasets], _sample_size(datasets[0]))
    return [dataset.select(at) for dataset, at in zip(datasets, positions, strict=True)]


def fit_sample(datasets: Sequence[Dataset]) -> Any:
    """All images of some sets together, as a transformer is fitted to them."""
    if not datasets[0].is_flat:  # of different sizes
        shapes = [shape for dataset in datasets for shape in dataset.images]
        return pack_clouds(list(map(cloud_points, shapes))) if datasets[0].kind == "clouds" else shapes
    shape = datasets[0].images.shape[1:]  # one channel may have an axis or not
    return np.concatenate([np.asarray(dataset.images).reshape(-1, *shape) for dataset in datasets])


def _batch_size(dataset: Dataset) -> int:
    return max(1, min(_BATCH_IMAGES, _BATCH_BYTES // (4 * int(dataset.images[0].size))))


def _features(block: Block, images: NDArray[Any], see: FeatureMap) -> tuple[Rows, int]:
    """Features of some images, and how many of them vanish."""
    rows = np.empty((block.stop - block.start, see.transformer.n_features_out_), dtype=np.float32)
    return rows, see.fill(np.asarray(images), rows)


def _projected_features(
    block: Block, images: NDArray[Any], see: FeatureMap
) -> tuple[Rows, NDArray[np.float64], float, int]:
    """Features on the principal components; sums and squares of those before the projection, how many vanish."""
    rows, vanishing = _features(block, images, see)
    rows = see.weighted(rows)
    assert see.projection is not None
    squares = float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
    return rows @ see.projection, rows.sum(axis=0, dtype=np.float64), squares, vanishing


def _check_sizes(datasets: Sequence[Dataset]) -> None:
    """Refuse sets whose images differ in size or channels; shapes in 3-D may differ in size."""
    first = datasets[0]
    for dataset in datasets[1:]:
        if dataset.kind != first.kind and not (dataset.is_flat and first.is_flat):
            raise InputError(
                f"{first.name!r} has {KINDS[first.kind]} but {dataset.name!r} has {KINDS[dataset.kind]}, which cannot "
                "be compared; give both sides as the same kind."
            )
    if not first.is_flat:
        return
    one = (*first.images.shape[1:], 1)[:3]  # no channel axis: one channel
    for dataset in datasets[1:]:
        other = (*dataset.images.shape[1:], 1)[:3]
        if one[:2] != other[:2]:
            raise InputError(
                f"the images of {first.name!r} are {one[0]} x {one[1]} but those of {dataset.name!r} are "
                f"{other[0]} x {other[1]}; bring them to one size with load(..., resize=...) (--resize)."
            )
        if one[2] != other[2]:
            raise InputError(
                f"the images of {first.name!r} have {one[2]} channel(s) but those of {dataset.name!r} have {other[2]}; "
                "turn colours into grey with load(..., grey=True) (--grey)."
            )
