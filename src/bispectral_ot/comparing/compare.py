"""Compare any number of sets: distances, their sampling bias, tests and intervals."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot import runtime
from bispectral_ot._version import __version__
from bispectral_ot.comparing.classes import bures_pool, class_distances
from bispectral_ot.comparing.comparison import Comparison, Contributors, Pair
from bispectral_ot.comparing.divergence import Divergence, ExactDivergence, SelfTerm, SinkhornDivergence
from bispectral_ot.comparing.ground_cost import GroundCost, cost_scale
from bispectral_ot.comparing.null_distribution import (
    SamplingBias,
    bootstrap_deviations,
    permutation_test,
    sampling_bias,
)
from bispectral_ot.comparing.symmetry_tests import DEFAULT_PERMUTATIONS, SymmetryTests
from bispectral_ot.comparing.symmetry_tests import symmetry_tests as test_changes
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import Kind, as_shapes
from bispectral_ot.datasets.frames import FrameChoice
from bispectral_ot.datasets.load import as_datasets
from bispectral_ot.engines.cluster import as_engine
from bispectral_ot.errors import InputError
from bispectral_ot.features import FeatureSpec, FittedFeatures, choose_features
from bispectral_ot.features.fitted import SAMPLE, stacked
from bispectral_ot.literals import Metric, Storage
from bispectral_ot.matching.result import label_names
from bispectral_ot.matching.timing import Stages
from bispectral_ot.options import CompareOptions
from bispectral_ot.progress import Progress
from bispectral_ot.store import Store, content_hash, dataset_hash

AnySet = Dataset | ArrayLike | os.PathLike[str]
# Relative to the scale of the ground cost; docs/compare.md has the measurements.
DEFAULT_REG = 0.13
# Random halves for the sampling bias, and the images of a set that they are drawn from.
_SPLITS, _SPLIT_IMAGES = 8, 2000
# Images with the largest contributions, on each side.
_TOP = 16


def compare(
    sets: Mapping[str, AnySet] | Sequence[AnySet],
    *,
    symmetry: str | None = None,
    features: Any = None,
    metric: Metric | None = None,
    intensity: str | None = None,
    frame: str | Sequence[str] = "auto",
    labels: bool | Literal["gaussian"] = False,
    permutations: int = 0,
    bootstrap: int = 0,
    symmetry_tests: bool = False,
    level: float = 0.05,
    reg: float = DEFAULT_REG,
    tol: float = 1e-6,
    normalize: bool = True,
    pca: int | None = None,
    test_images: int = 2000,
    seed: int = 0,
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
    store: str | Path | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare any number of sets by content, up to a symmetry.

    The distance of two sets is the debiased Sinkhorn divergence ``OT(p, q) - OT(p, p) / 2 - OT(q, q) / 2`` with
    ``OT(p, q) = min <P, C> + epsilon KL(P | p x q)``, on one feature space, with one unit and one ``epsilon`` for all
    pairs. It is 0 between a set and itself and is never clamped. The order of the sets has no effect.

    Parameters
    ----------
    sets
        Names and sets: Datasets, arrays (n, height, width), names or paths to load. In a sequence, datasets keep their
        own names.
    symmetry, features, metric, intensity, normalize, pca
        Features, as for :func:`~bispectral_ot.match`.
    frame
        Placement of images, as for :func:`~bispectral_ot.match`, one for all sets or one for each. ``"auto"`` cuts off
        margins that an editor filled where most images of one set have them and those of another have none; it does not
        look at how well sets agree, since that is what a comparison measures.
    labels
        Add the distance between the classes of two images to the cost between them; class names need not agree.
        All sets need labels. ``"gaussian"`` approximates classes by Gaussian distributions (Bures distance).
    permutations
        Number of permutations of a test for each pair; 0 for no test, 199 recommended. Labels play no part in it.
    bootstrap
        Number of bootstrap samples for an interval of each distance; 0 for none.
    symmetry_tests
        Test which changes explain the difference of each pair: intensity, mirrors, turns, position, size, class
        proportions; see :func:`~bispectral_ot.comparing.symmetry_tests`.
    level
        Significance level of tests and intervals.
    reg
        Regularisation relative to the scale (:attr:`Comparison.scale`); 0 for exact transport, for sets of some
        thousands of images at most.
    tol
        Tolerance on the marginal error; :attr:`Comparison.errors` bounds its effect.
    test_images
        Maximum number of images per set, drawn at random, used in tests and intervals.
    seed
        Random seed.
    working_memory, storage
        Memory budget for all features and one cost, and storage of the cost; see :class:`~bispectral_ot.Cost`.
    store
        Folder in which finished parts are kept under a hash of pixels, labels and options, for a later call to reuse.
    client
        A ``distributed.Client``, to compute on its Dask cluster; as for :func:`~bispectral_ot.match`.
    progress
        Called as ``progress(stage, done, total)``; the stage ``"pairs"`` counts solves.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> first, second = bot.split_halves(bot.load("digits"), per_class=20)
    >>> comparison = bot.compare({"first": first, "second": second}, permutations=19)
    >>> bool(comparison.pair("first", "second").p_value > 0.05)
    True
    """
    options = CompareOptions(
        symmetry=symmetry,
        features=features,
        metric=metric,
        intensity=intensity,  # type: ignore[arg-type]
        normalize=normalize,
        pca=pca,
        labels=bool(labels),
        gaussian_classes=labels == "gaussian",
        permutations=permutations,
        bootstrap=bootstrap,
        symmetry_tests=symmetry_tests,
        level=level,
        reg=reg,
        tol=tol,
        test_images=test_images,
        seed=seed,
        storage=storage,
    )
    with runtime.running(progress=progress, memory=working_memory, engine=as_engine(client)):
        kind: Kind | None = "sphere" if symmetry == "so3" or features == "sphere-bispectrum" else None
        return compare_sets(*named_sets(sets, kind, frame), options, Store(store))


def compare_sets(names: Sequence[str], sets: Sequence[Dataset], options: CompareOptions, store: Store) -> Comparison:
    """Comparison of named datasets; progress, memory budget and engine are those of the execution context."""
    check_repeats(options.permutations, options.bootstrap, options.level)
    choice = feature_spec(options, sets[0].kind)
    if choice.symmetry == "so3-shapes":
        sets = [as_shapes(dataset) for dataset in sets]
    # all work is done in an order that only content decides: the order of the arguments changes no digit
    hashes = [dataset_hash(dataset) for dataset in sets]
    order = sorted(range(len(names)), key=lambda place: hashes[place])
    rank = {place: number for number, place in enumerate(order)}
    datasets = [sets[place] for place in order]
    divergence = divergence_of(options.reg, tol=options.tol)
    stages, largest = Stages(), max(map(len, datasets))
    with stages.measured("features"):
        space = FittedFeatures(
            datasets,
            choice,
            normalize=options.normalize,
            pca=options.pca,
            storage=options.storage,
            solver_bytes=divergence.extra_bytes((largest, largest)),
            within=True,
            sample=pooled_sample(datasets, seed=options.seed),
        )
    _refuse_blank(space, datasets)
    with space:
        unlabelled = GroundCost(space)
        classes, ground = None, unlabelled
        if options.labels or options.gaussian_classes:
            with stages.measured("classes"):
                between = bures_pool if options.gaussian_classes else divergence.pool
                titles = [names[place] for place in order]
                classes, codes = class_distances(ground, titles, datasets, between, seed=options.seed)
                ground = GroundCost(space, labels=codes, classes=classes.matrix)
                classes = classes.ordered(names, ground.scale)
        context = content_hash(
            [__version__, sorted(hashes), options.to_json(), space.storage, choice.name, repr(choice.transformer)],
            # the representation of a custom transformer need not tell what it computes
            [] if options.features is None or isinstance(options.features, str) else list(space.features),
        )
        keys = [hashes[place] for place in order]
        work = PairwiseSolver(ground, unlabelled, keys, divergence, options, store, context)
        with stages.measured("transport"):
            parts = work.solve_all()
        with stages.measured("reference"):
            biases = [work.bias(place) for place in range(len(names))]
        with stages.measured("tests"):
            tests = work.test_all()
    with stages.measured("symmetry tests"):
        changes = _symmetry_tests(names, sets, hashes, options, store) if options.symmetry_tests else ()
    pairs = []
    for i, j in combinations(range(len(names)), 2):
        one, other = sorted((rank[i], rank[j]))
        found = parts[one, other] if rank[i] < rank[j] else parts[one, other].reversed()
        reference = biases[one].part(len(datasets[one])) + biases[other].part(len(datasets[other]))
        pairs.append(_pair(names[i], names[j], found, tests[one, other], reference))
    return Comparison(
        names=tuple(names),
        sizes=tuple(map(len, sets)),
        pairs=tuple(pairs),
        biases=tuple(biases[rank[i]] for i in range(len(names))),
        scale=ground.scale,
        labels=tuple(map(label_names, sets)),
        class_distances=classes,
        symmetry_tests=changes,
        options=options,
        settings={
            "frame": [dataset.frame for dataset in sets],
            **options.to_json(),
            "symmetry": choice.symmetry,
            "features": choice.name,
            "metric": choice.metric,
            **space.settings,
            "storage": space.storage,
            "reused": store.reused,
        },
        seconds=stages.seconds,
    )


def _symmetry_tests(
    names: Sequence[str], sets: Sequence[Dataset], hashes: Sequence[str], options: CompareOptions, store: Store
) -> tuple[SymmetryTests, ...]:
    """Tests of what changed, for all pairs."""
    found = []
    asked = options.permutations or DEFAULT_PERMUTATIONS, options.level, options.test_images, options.seed
    for i, j in combinations(range(len(names)), 2):
        compute = partial(test_changes, sets[i], sets[j], *asked)
        parts = ["symmetry tests", __version__, hashes[i], hashes[j], asked]
        result = store.result(parts, SymmetryTests, compute)
        found.append(replace(result, source=names[i], target=names[j]))
    return tuple(found)


def pooled_sample(datasets: Sequence[Dataset], *, seed: int) -> list[Dataset]:
    """Images that decide a fit: drawn at random from all sets together, and in an order that no set decides.

    With a fixed number of images of each set, permutation tests on the fitted features would not be exact.
    """
    sizes = [len(dataset) for dataset in datasets]
    chosen = np.sort(np.random.default_rng(seed).permutation(sum(sizes))[:SAMPLE])
    ends = np.cumsum(sizes)
    parts = [
        dataset.select(at)
        for dataset, end in zip(datasets, ends, strict=True)
        if len(at := chosen[(chosen >= end - len(dataset)) & (chosen < end)] - (end - len(dataset)))
    ]
    if (
        len({dataset.images.shape[1:] for dataset in datasets}) > 1
    ):  # shapes in 3-D, or an error that the fit will raise
        return parts
    images = stacked(parts)
    mixed = images[np.random.default_rng([seed, 1]).permutation(len(images))]
    return [Dataset.from_vectors(mixed) if datasets[0].kind == "vectors" else Dataset(mixed, kind=datasets[0].kind)]


def feature_spec(options: CompareOptions, kind: str) -> FeatureSpec:
    """Features and metric that the options ask for, for sets of a kind."""
    return choose_features(
        options.features, symmetry=options.symmetry, metric=options.metric, kind=kind, intensity=options.intensity
    )


@dataclass(frozen=True)
class PairTerms:
    """Divergence of a pair by its images, relative to the scale.

    Attributes
    ----------
    source_contributions, target_contributions : (n,) and (m,); they sum to the divergence
    source_top, target_top : positions of the largest of them
    source_counterparts, target_counterparts : position in the other set to which most mass of each of these goes
    error : bound on the error of the divergence
    converged : whether all solves met their tolerance
    """

    source_contributions: NDArray[np.float64]
    target_contributions: NDArray[np.float64]
    source_top: NDArray[np.int64]
    target_top: NDArray[np.int64]
    source_counterparts: NDArray[np.int64]
    target_counterparts: NDArray[np.int64]
    error: float
    converged: bool

    def reversed(self) -> PairTerms:
        """Same pair with source and target exchanged."""
        return PairTerms(
            self.target_contributions,
            self.source_contributions,
            self.target_top,
            self.source_top,
            self.target_counterparts,
            self.source_counterparts,
            self.error,
            self.converged,
        )


@dataclass(frozen=True)
class PairTest:
    """Permutation test and bootstrap of a pair; None where they were not asked for.

    Attributes
    ----------
    p_value : of the permutation test
    low, high : deviations from the distance, relative to the scale
    """

    p_value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PairwiseSolver:
    """Solves of a comparison, each made once and kept in a store.

    Attributes
    ----------
    ground, unlabelled : costs with and without the distances between classes
    keys : hash of the content of each set
    divergence : of two sets
    options : as for :func:`compare`
    store : finished parts
    context : hash of everything else that decides a result: all sets and options
    """

    ground: GroundCost
    unlabelled: GroundCost
    keys: list[str]
    divergence: Divergence
    options: CompareOptions
    store: Store
    context: str

    def solve_all(self) -> dict[tuple[int, int], PairTerms]:
        """Divergences of all pairs, one cost at a time."""
        count = len(self.keys)
        tasks = list(combinations(range(count), 2))
        total, own = count + len(tasks), []
        for place in range(count):
            runtime.progress("pairs", place, total)
            parts = ["self-term", self.context, self.keys[place]]
            own.append(self.store.result(parts, SelfTerm, partial(self._self_term, place)))
        found = {}
        for number, (i, j) in enumerate(tasks):
            runtime.progress("pairs", count + number, total)
            parts = ["pair", self.context, self.keys[i], self.keys[j]]
            found[i, j] = self.store.result(parts, PairTerms, partial(self._solve, i, j, own))
        runtime.progress("pairs", total, total)
        return found

    def _self_term(self, place: int) -> SelfTerm:
        return self.divergence.self_term(self.ground.cost(place, place))

    def _solve(self, i: int, j: int, own: Sequence[SelfTerm]) -> PairTerms:
        cross = self.divergence.cross_term(self.ground.cost(i, j))
        source = (cross.source_potential - own[i].values) / self._size(i)
        target = (cross.target_potential - own[j].values) / self._size(j)
        # potentials are known up to a constant that moves from one side to the other: both sides get the same sum
        shift = (source.sum() - target.sum()) / 2
        source, target = source - shift / len(source), target + shift / len(target)
        tops = [np.argsort(-values, kind="stable")[:_TOP] for values in (source, target)]
        # most mass of i goes to the j where potential - cost is largest
        source_counterparts = (cross.target_potential - self.ground.between(i, tops[0], j)).argmax(axis=1)
        target_counterparts = (cross.source_potential - self.ground.between(j, tops[1], i)).argmax(axis=1)
        scale = self.ground.scale
        error = (cross.error + own[i].error / 2 + own[j].error / 2) / scale
        converged = cross.converged and own[i].converged and own[j].converged
        counterparts = source_counterparts, target_counterparts
        return PairTerms(source / scale, target / scale, tops[0], tops[1], *counterparts, error, converged)

    def bias(self, place: int) -> SamplingBias:
        """Sampling bias of a set, relative to the scale."""

        def compute() -> SamplingBias:
            at = self._draw(place, _SPLIT_IMAGES)
            if len(at) < 4:
                return SamplingBias(float("nan"), 0.0)
            pool = self.divergence.pool(self.ground.among([(place, at)]), scale=self.ground.scale)
            found = sampling_bias(pool, len(at), splits=_SPLITS, random=self._random("halves", place))
            return SamplingBias(found.constant / self.ground.scale, found.offset)

        return self.store.result(["bias", self.context, self.keys[place]], SamplingBias, compute)

    def test_all(self) -> dict[tuple[int, int], PairTest]:
        """Permutation tests and bootstrap deviations of all pairs."""
        tasks = list(combinations(range(len(self.keys)), 2))
        if not (self.options.permutations or self.options.bootstrap):
            return dict.fromkeys(tasks, PairTest())
        found = {}
        for number, (i, j) in enumerate(tasks):
            runtime.progress("tests", number, len(tasks))
            parts = ["test", self.context, self.keys[i], self.keys[j]]
            found[i, j] = self.store.result(parts, PairTest, partial(self._test, i, j))
        runtime.progress("tests", len(tasks), len(tasks))
        return found

    def _test(self, i: int, j: int) -> PairTest:
        chosen = [(place, self._draw(place, self.options.test_images)) for place in (i, j)]
        sizes = len(chosen[0][1]), len(chosen[1][1])
        random = self._random("test", i, j)
        p_value = low = high = None
        if self.options.permutations:
            # without labels, which would reveal the set of an image; the scale is that of the pool: both sets
            # enter every part of the test alike
            costs = self.unlabelled.among(chosen)
            pool = self.divergence.pool(costs, scale=cost_scale(costs))
            p_value = permutation_test(
                costs, pool, sizes, permutations=self.options.permutations, random=random
            ).p_value
        if self.options.bootstrap:
            pool = self.divergence.pool(self.ground.among(chosen), scale=self.ground.scale)
            moved = bootstrap_deviations(pool, sizes, repeats=self.options.bootstrap, random=random)
            # deviations of a sample of test_images are wider than those of the whole set
            shrink = np.sqrt((1 / self._size(i) + 1 / self._size(j)) / (1 / sizes[0] + 1 / sizes[1]))
            ends = [self.options.level / 2, 1 - self.options.level / 2]
            low, high = (float(end) for end in np.quantile(moved, ends) * shrink / self.ground.scale)
        return PairTest(p_value, low, high)

    def _size(self, place: int) -> int:
        return len(self.ground.space.features[place])

    def _draw(self, place: int, most: int) -> NDArray[np.int64]:
        """Positions of at most ``most`` images of a set, drawn at random."""
        size = self._size(place)
        if size <= most:
            return np.arange(size)
        return np.sort(self._random("draw", place).choice(size, most, replace=False))

    def _random(self, purpose: str, *places: int) -> np.random.Generator:
        return np.random.default_rng(int(content_hash(purpose, self.options.seed, [self.keys[i] for i in places]), 16))


def _pair(source: str, target: str, found: PairTerms, test: PairTest, reference: float) -> Pair:
    parts = found.source_contributions, found.target_contributions
    distance = float(parts[0].sum() + parts[1].sum())
    low, high = test.low, test.high
    return Pair(
        source,
        target,
        distance=distance,
        error=found.error,
        reference=reference,
        source_contributions=parts[0],
        target_contributions=parts[1],
        source_top=Contributors(found.source_top, parts[0][found.source_top], found.source_counterparts),
        target_top=Contributors(found.target_top, parts[1][found.target_top], found.target_counterparts),
        p_value=test.p_value,
        interval=None if low is None or high is None else (distance + low, distance + high),
        converged=found.converged,
    )


def divergence_of(reg: float, *, tol: float = 1e-6) -> Divergence:
    """Divergence of a regularisation: exact transport where it is 0."""
    return SinkhornDivergence(reg=reg, tol=tol) if reg else ExactDivergence()


def named_sets(
    sets: Mapping[str, AnySet] | Sequence[AnySet], kind: Kind | None = None, frame: str | Sequence[str] = "canvas"
) -> tuple[tuple[str, ...], list[Dataset]]:
    """Names and datasets, or an :class:`InputError` that says why they cannot be compared.

    ``kind`` is that of sets that are loaded, ``frame`` their placement.
    """
    if isinstance(sets, (str, os.PathLike, Dataset)) or not isinstance(sets, (Mapping, Sequence)):
        raise InputError(
            f"sets must be a mapping from names to sets, or a list of them, got {type(sets).__name__}; "
            "write compare({'first': one, 'second': other})."
        )
    frames = FrameChoice(frame)
    if isinstance(sets, Mapping):
        names = [str(name) for name in sets]
        found = as_datasets(list(sets.values()), names, kind=kind, frames=frames)
        datasets = [replace(dataset, name=name) for dataset, name in zip(found, names, strict=True)]
    else:
        datasets = as_datasets(sets, [f"set {place}" for place in range(len(sets))], kind=kind, frames=frames)
        names = [dataset.name for dataset in datasets]
    if len(names) < 2:
        raise InputError(f"at least two sets are needed for a comparison, got {len(names)}.")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InputError(f"two sets are called {repeated[0]!r}; give each a name of its own, in a mapping.")
    for name, dataset in zip(names, datasets, strict=True):
        if len(dataset) < 2:
            raise InputError(f"{name!r} has one image only; a set needs two at least.")
        if dataset.kind != datasets[0].kind:
            raise InputError(
                f"{names[0]!r} is of the kind {datasets[0].kind!r} but {name!r} is of {dataset.kind!r}; sets of "
                "different kinds cannot share a feature space."
            )
    return tuple(names), datasets


def check_repeats(permutations: int, bootstrap: int, level: float) -> None:
    """Refuse numbers of repeats that cannot give a result at the level."""
    fewest = int(np.ceil(1 / level - 1e-9)) - 1
    if 0 < permutations < fewest:
        raise InputError(
            f"{permutations} permutations cannot give a p-value of {level:g}: the least is 1 / ({permutations} + 1); "
            f"ask for {fewest} at least, better for {10 * (fewest + 1) - 1}."
        )
    if 0 < bootstrap < 2 * fewest:
        raise InputError(
            f"{bootstrap} resamplings are too few for a level of {level:g}; ask for {2 * fewest} at least."
        )


def _refuse_blank(space: FittedFeatures, datasets: Sequence[Dataset]) -> None:
    for found, dataset in zip(space.statistics, datasets, strict=True):
        if found.constant_images == len(dataset):
            raise InputError(f"all images of {dataset.name!r} are constant (blank); leave the set out.")
