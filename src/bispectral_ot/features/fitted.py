"""Features of several datasets by one fitted map: normalization, transformer, projection."""

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bispectral_ot import runtime
from bispectral_ot.checks import check_integer
from bispectral_ot.costs import AlignedDistance, Cost, FeatureDistance, Metric, Storage, plan_storage
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.clouds import check_clouds, cloud_points
from bispectral_ot.datasets.dataset import KINDS, is_chunked
from bispectral_ot.datasets.transforms import rescale
from bispectral_ot.engines import Block, Engine, Threads, fill_rows, row_blocks
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.features.combined import CombinedBispectrum
from bispectral_ot.features.registry import FeatureSpec, restore
from bispectral_ot.memory import reserved_memory_map
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transformer import BatchTransformer, Rows, State, warn_of_vanishing

_SAMPLE_BYTES = 2**30  # of the images in the sample for a fit; larger samples hardly change the components
_BATCH_IMAGES, _BATCH_BYTES = 2048, 2**28  # of a block on a cluster, as float32
_MEASURED_BYTES = 2**24  # of a block whose pixels are measured, as float64
_SCALE_RATIO = 3  # of standard deviations, from which two sets seem to have different pixel ranges
_LARGE = 2**28  # number of pairs above which fewer columns are kept, since distances dominate the time


@dataclass(frozen=True, eq=False)
class LinearMap:
    """Linear map of rows: directions ``basis`` (columns, r) are scaled by ``gains`` (r,), all others by ``rest``."""

    basis: Rows = field(repr=False)
    gains: NDArray[np.float64]
    rest: float

    @cached_property
    def _matrix(self) -> Rows:
        scaled = self.basis * (self.gains - self.rest).astype(np.float32)
        matrix: Rows = scaled @ self.basis.T
        matrix[np.diag_indices_from(matrix)] += np.float32(self.rest)
        return matrix

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Mapped rows (n, columns), of the same type."""
        if 2 * self.basis.shape[1] > self.basis.shape[0]:  # one product is fewer operations than two
            return rows @ self._matrix.astype(rows.dtype, copy=False)
        along = (rows @ self.basis) * (self.gains - self.rest).astype(rows.dtype)
        return rows * rows.dtype.type(self.rest) + along @ self.basis.T.astype(rows.dtype)


@dataclass(frozen=True)
class FeatureMap:
    """Fitted map from images to features."""

    transformer: BatchTransformer
    mean: float = 0.0  # pixels become (pixel - mean) / std first
    std: float = 1.0
    projection: Rows | None = field(default=None, repr=False)  # principal components (columns, components)
    learned: LinearMap | None = field(default=None, repr=False)  # map to the learned metric

    def get_state(self) -> State:
        """Attributes for ``write_record``, of which :meth:`from_state` makes a copy without a fit.

        Features of other packages, encoders that are not given by name, and own groups cannot be stored.
        """
        return {**vars(self), "transformer": self.transformer.get_state()}

    @classmethod
    def from_state(cls, state: State, *, encoder: str | Sequence[str] | None = None) -> Self:
        """Map from its stored state; ``encoder`` names the encoders that may be loaded, if it has any."""
        learned = None if state["learned"] is None else LinearMap(**state["learned"])
        return cls(**state | {"transformer": restore(state["transformer"], encoder), "learned": learned})

    def __call__(self, images: Any) -> Rows:
        """Features (n, columns) of ``images``, to be compared by :meth:`distance`."""
        rows = self.transformer.transform(self.normalized(images))
        if self.projection is not None:
            rows = self.weighted(rows) @ self.projection
        return rows if self.learned is None else self.learned(self.plain(rows))

    def normalized(self, images: Any) -> Any:
        """``(image - mean) / std``."""
        return images if (self.mean, self.std) == (0.0, 1.0) else rescale(images, self.mean, self.std)

    def weighted(self, rows: Rows) -> Rows:
        """Rows scaled by the square roots of the feature weights."""
        weights = self.transformer.feature_weights_
        return rows if (weights == 1).all() else rows * np.sqrt(weights)

    def plain(self, rows: Rows) -> Rows:
        """Extracted rows, scaled so that their Euclidean distance is the weighted one; without the learned map."""
        return rows if self.projection is not None else self.weighted(rows)

    def unlearned(self, rows: Rows) -> Rows:
        """Rows of :meth:`plain` from features of this map, by the inverse of the learned map."""
        if self.learned is None:
            return self.plain(rows)
        inverse = replace(self.learned, gains=1 / self.learned.gains, rest=1 / self.learned.rest)
        return inverse(rows)

    def distance(self, source: Rows, target: Rows, metric: Metric) -> FeatureDistance:
        """Distances between two sets of features; steerable ones at the best rotation of each pair."""
        if self.transformer.aligns:
            reflections = self.transformer.symmetry == "rotation-reflection"
            return AlignedDistance(source, target, self.transformer.index_map_, metric, reflections=reflections)
        # projection and learned map have taken the weights up
        plain = self.projection is not None or self.learned is not None
        return FeatureDistance(source, target, metric, None if plain else self.transformer.feature_weights_)

    def unlearned_distance(self, source: Rows, target: Rows, metric: Metric) -> FeatureDistance:
        """Distances without the learned metric."""
        if self.learned is None:
            return self.distance(source, target, metric)
        return FeatureDistance(self.unlearned(source), self.unlearned(target), metric)

    def distances_within(self, rows: Rows, metric: Metric) -> NDArray[np.float64]:
        """Distances (n, n) between all of some features (n, columns); symmetric, 0 on the diagonal."""
        cost = Cost.from_distance(self.distance(rows, rows, metric), storage="float32")
        distances = cost.block(0, len(rows)).astype(np.float64)
        distances = (distances + distances.T) / 2  # the two halves differ by float32 rounding
        np.fill_diagonal(distances, 0.0)
        return distances


class PixelStatistics(NamedTuple):
    """Number, mean and standard deviation of all pixels of a dataset, and number of images that are constant."""

    pixels: int
    mean: float
    std: float
    constant_images: int

    @classmethod
    def pooled(cls, parts: Sequence[tuple[int, float, float, int]]) -> Self:
        """Statistics of several parts together."""
        counts, means, deviations, constant = np.array(parts, dtype=np.float64).T
        fractions = counts / counts.sum()
        mean = float(fractions @ means)
        std = math.sqrt(float(fractions @ (deviations**2 + (means - mean) ** 2)))
        return cls(int(counts.sum()), mean, std, int(constant.sum()))


class FittedFeatures:
    """Features of any number of datasets by one normalization, one fitted transformer and one projection.

    ``feature_map`` is the map that was fitted, ``features`` are the rows (n, columns) of each set, ``statistics`` those
    of its pixels, ``settings`` has facts about the features for reports, and ``fit_seconds`` is the time of the fit.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],  # of one size and kind; shapes in 3-D may differ in size
        spec: FeatureSpec,
        *,
        normalize: bool = True,  # bring all pixels of all sets together to mean 0 and standard deviation 1 first
        pca: int | None = None,  # number of principal components of all sets together
        storage: Storage | None = None,  # of costs
        solver_bytes: int = 0,  # memory of the solver in addition to features and cost
        within: bool = False,  # whether the budget must have room for the cost of a set with itself
        sample: Sequence[Dataset] | None = None,  # images that decide the fit; evenly spaced by default
        further: Sequence[Dataset] = (),  # sets that decide neither fit nor scale
    ) -> None:
        check_sizes(datasets, spec.symmetry)
        if datasets[0].kind == "images" and datasets[0].images.shape[3:] > (4,):
            found = f"{datasets[0].name!r} is read as images with {datasets[0].images.shape[3]} channels"
            warn(f"{found}; volumes need symmetry='so3-shapes' (--symmetry so3-shapes).", DataWarning)
        runtime.progress("prepare", 0, 1)
        start = time.perf_counter()
        self.settings: dict[str, Any] = {}
        self.spec, self.engine = spec, runtime.current().engine or Threads()
        self.statistics = [measure_pixels(dataset, self.engine) for dataset in datasets]
        scaled = normalize and datasets[0].is_flat and not spec.transformer.raw
        mean, std = PixelStatistics.pooled(self.statistics)[1:3] if scaled else (0.0, 1.0)
        std = std or 1.0  # all pixels are equal
        sample = sample or fit_sample(datasets, spec.transformer.sample_size)
        sets = [*datasets, *further]
        sizes = sorted((len(dataset) for dataset in datasets), reverse=True)
        shape = (sizes[0], sizes[0 if within else min(1, len(sizes) - 1)])
        planned = partial(
            plan_storage,
            shape,
            solver_bytes=solver_bytes,
            block_rows=512,
            storage=storage,
            may_map=type(self.engine) is Threads,
            engine=self.engine,
        )
        planned(feature_bytes=0)  # a budget without room for the cost is an error before the fit
        self.feature_map = FeatureMap(clone(spec.transformer, safe=False), mean, std)
        if math.prod(shape) > _LARGE and isinstance(self.feature_map.transformer, CombinedBispectrum):
            self.feature_map.transformer.set_params(kept_variance=0.85)
        self.feature_map.transformer.fit(self.feature_map.normalized(stacked(sample)))
        columns = self.feature_map.transformer.n_features_out_
        if pca is not None:
            columns = check_integer("pca", pca, minimum=1, maximum=columns)
            self._project(sample, columns)
        plan = planned(feature_bytes=4 * columns * sum(map(len, sets)))
        self.storage: Storage = plan.storage
        runtime.progress("prepare", 1, 1)
        self.fit_seconds = time.perf_counter() - start
        self.features = self._extract(sets, sum(map(len, datasets)), mapped=plan.mapped_features)
        self.settings |= {"transformer": repr(self.feature_map.transformer), "pca": pca}
        self.settings |= {"columns": int(self.features[0].shape[1]), "mapped_features": plan.mapped_features}
        self._warn_of_scales(datasets)

    def cost(self, source: int, target: int) -> Cost:
        """Cost between two of the sets, by their places."""
        distance = self.feature_map.distance(self.features[source], self.features[target], self.spec.metric)
        return Cost.from_distance(distance, storage=self.storage, engine=self.engine)

    def learn(self, learned: LinearMap) -> None:
        """Apply a learned map to all features in place, and to images that are mapped later."""
        plain = self.feature_map.plain
        for rows in self.features:
            fill_rows(lambda _, some: learned(plain(some)), rows, block_rows=256, rows=(rows,))
        self.feature_map = replace(self.feature_map, learned=learned)

    def _project(self, sample: Sequence[Dataset], pca: int) -> None:
        from sklearn.decomposition import PCA

        if self.spec.transformer.aligns:
            raise InputError("best-rotation features cannot be reduced by pca; leave it out, or use global-bispectrum.")
        with warnings.catch_warnings(action="ignore", category=DataWarning):  # the features of all images will warn
            rows = self.feature_map.weighted(self.feature_map(stacked(sample)))
        # a fixed order of rows makes the randomized solver give the same result for (A, B) and (B, A)
        rows = rows[np.lexsort(rows[:, : min(8, rows.shape[1])].T)]
        found = PCA(min(pca, *rows.shape), random_state=0, copy=False).fit(rows)
        self.settings["kept_variance"] = min(float(np.nan_to_num(found.explained_variance_ratio_, nan=1).sum()), 1.0)
        components = np.ascontiguousarray(found.components_.T, dtype=np.float32)
        self.feature_map = replace(self.feature_map, projection=components)

    def _extract(self, datasets: Sequence[Dataset], counted: int, *, mapped: bool) -> list[Rows]:
        """Features of every set, on the principal components where there are any."""
        transformer, projection = self.feature_map.transformer, self.feature_map.projection
        features: list[Rows] = []
        total = sum(map(len, datasets))
        done = vanishing = 0
        columns = transformer.n_features_out_ if projection is None else projection.shape[1]
        for dataset in datasets:
            shape = (len(dataset), columns)
            out = reserved_memory_map(shape) if mapped else np.empty(shape, dtype=np.float32)
            most = min(_BATCH_IMAGES, _BATCH_BYTES // (4 * int(dataset.signals[0].size)))
            if type(self.engine) is Threads:
                most = transformer.block_rows
            blocks = row_blocks(len(dataset), block_rows=max(1, most))
            found = self.engine.map(_features, blocks, rows=(dataset.signals,), shared=(self.feature_map,))
            for block, (rows, count) in zip(blocks, found, strict=True):
                out[block.start : block.stop] = rows
                vanishing += count * (done < counted)  # of the first sets only
                done += len(rows)
                runtime.progress("features", done, total)
            features.append(out)
        warn_of_vanishing(transformer, vanishing, counted)
        return features

    def _warn_of_scales(self, datasets: Sequence[Dataset]) -> None:
        """Warn if pixels of two sets are on different scales and the features depend on it."""
        deviations = [each.std for each in self.statistics]
        low, high = int(np.argmin(deviations)), int(np.argmax(deviations))
        if deviations[low] == 0 or deviations[high] <= _SCALE_RATIO * deviations[low]:
            return
        few = np.asarray(datasets[high].images[:: -(-len(datasets[high]) // 8)])
        with warnings.catch_warnings(action="ignore"):
            seen, on_one_scale = self.feature_map(few), self.feature_map(few * (deviations[low] / deviations[high]))
        if np.linalg.norm(seen - on_one_scale) > 0.01 * np.linalg.norm(seen):
            found = f"the pixels of {datasets[low].name!r} have a standard deviation of {deviations[low]:.5g}, those "
            found += f"of {datasets[high].name!r} {deviations[high]:.5g}, and these features depend on it"
            advice = "if only the range differs (8 and 16 bits, 0..1 and 0..255), use normalize(dataset) on each set"
            warn(f"{found}; {advice}, or save the files at one bit depth.")


def _features(block: Block, images: Any, feature_map: FeatureMap) -> tuple[Rows, int]:
    """Features of a block of images, and how many of them vanish."""
    rows = np.empty((len(images), feature_map.transformer.n_features_out_), dtype=np.float32)
    vanishing = feature_map.transformer.fill(feature_map.normalized(np.asarray(images)), rows, first=block.start)
    return rows if feature_map.projection is None else feature_map.weighted(rows) @ feature_map.projection, vanishing


def fit_sample(datasets: Sequence[Dataset], size: int) -> list[Dataset]:
    """Evenly spaced images, about ``size`` in all, in proportion to the sizes of the sets, at least one of each."""
    total = sum(map(len, datasets))
    most = max(1, min(size, total, _SAMPLE_BYTES // (4 * int(datasets[0].signals[0].size))))
    return [each.select(evenly_spaced(len(each), max(1, round(most * len(each) / total)))) for each in datasets]


def stacked(datasets: Sequence[Dataset]) -> Any:
    """Images of several sets as one batch."""
    if datasets[0].kind in ("clouds", "volumes"):  # of different sizes
        shapes = [shape for dataset in datasets for shape in dataset.images]
        return check_clouds(list(map(cloud_points, shapes))) if datasets[0].kind == "clouds" else shapes
    shape = datasets[0].signals.shape[1:]  # one channel may have an axis or not
    return np.concatenate([np.asarray(dataset.signals).reshape(-1, *shape) for dataset in datasets])


def measure_pixels(dataset: Dataset, engine: Engine) -> PixelStatistics:
    """Statistics of the pixels of a dataset; warns of constant images. Shapes in 3-D and vectors have no pixels."""
    if not dataset.is_flat:
        return PixelStatistics(0, 0.0, 1.0, 0)
    rows = min(_BATCH_IMAGES, _MEASURED_BYTES // (8 * math.prod(dataset.images.shape[1:])))
    blocks = row_blocks(len(dataset), block_rows=max(1, rows))
    engine = engine if is_chunked(dataset.images) else Threads()
    found = PixelStatistics.pooled(list(engine.map(_measure, blocks, rows=(dataset.images,))))
    if found.constant_images:
        words = f"{found.constant_images} of the {len(dataset)} images of {dataset.name!r} are constant (blank)"
        warn(f"{words}: they contain nothing that can be matched.")
    return found


def _measure(block: Block, images: NDArray[Any]) -> PixelStatistics:
    pixels = np.asarray(images).reshape(block.stop - block.start, -1)
    mean = float(pixels.mean(dtype=np.float64))
    std = math.sqrt(float(np.square(pixels - np.float64(mean)).mean()))
    return PixelStatistics(pixels.size, mean, std, int((pixels.max(axis=1) == pixels.min(axis=1)).sum()))


def check_sizes(datasets: Sequence[Dataset], symmetry: Any) -> None:
    """Refuse sets whose images differ in size or channels; shapes in 3-D may differ in size."""
    first = datasets[0]
    if symmetry == "so3-shapes" and first.is_flat:
        raise InputError(f"{first.name!r} has images, but 'so3-shapes' is for point clouds and volumes; leave it out.")
    for dataset in datasets[1:]:
        if dataset.kind != first.kind and not (dataset.is_flat and first.is_flat):
            found = f"{first.name!r} has {KINDS[first.kind]} but {dataset.name!r} has {KINDS[dataset.kind]}"
            raise InputError(f"{found}, which cannot be compared; give both sides as the same kind.")
        if first.kind == "vectors" and first.signals.shape[1] != dataset.signals.shape[1]:
            found = f"the vectors of {first.name!r} have {first.signals.shape[1]} columns but those of {dataset.name!r}"
            raise InputError(f"{found} {dataset.signals.shape[1]}; make both with the same encoder.")
        if not first.is_flat:
            continue
        one, other = ((*each.images.shape[1:], 1)[:3] for each in (first, dataset))  # no channel axis: one channel
        if one[:2] != other[:2]:
            found = f"{first.name!r} has {one[0]} x {one[1]}, {dataset.name!r} {other[0]} x {other[1]}"
            fix = "resample the signals to one grid" if symmetry == "so3" else "use resize=... (--resize)"
            raise InputError(f"images or grids have different sizes ({found}); {fix}.")
        if one != other:
            found = f"images of {first.name!r} have {one[2]} channel(s), those of {dataset.name!r} have {other[2]}"
            raise InputError(f"{found}; compare them in grey with grey=True (--grey).")
