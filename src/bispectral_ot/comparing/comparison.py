"""Comparison of any number of sets: a distance for each pair, its error and reference, tests, and contributions."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pandas import DataFrame

from bispectral_ot import drawing, runtime
from bispectral_ot._version import __version__
from bispectral_ot.checks import Intensity, Metric
from bispectral_ot.comparing import divergence
from bispectral_ot.comparing.change_tests import DEFAULT_PERMUTATIONS, SymmetryTests, check_sets
from bispectral_ot.comparing.change_tests import symmetry_tests as test_changes
from bispectral_ot.comparing.divergence import GroundCost, Potentials, SamplingBias, Vector
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import ArrayKind
from bispectral_ot.datasets.frames import FrameChoice
from bispectral_ot.datasets.load import array_kind, as_datasets
from bispectral_ot.datasets.transforms import count_copies
from bispectral_ot.drawing import Axes
from bispectral_ot.engines.cluster import as_engine
from bispectral_ot.errors import InputError, warn
from bispectral_ot.features import FittedFeatures, choose_features
from bispectral_ot.features.fitted import stacked
from bispectral_ot.files import any_names
from bispectral_ot.matching.result import Stages, label_names
from bispectral_ot.options import CompareOptions
from bispectral_ot.runtime import Progress
from bispectral_ot.store import Store, content_hash, dataset_hash
from bispectral_ot.transport import BatchedSinkhorn, Sinkhorn

AnySet = Dataset | ArrayLike | os.PathLike[str]
COLUMNS = ("source", "target", "distance", "error", "reference", "ratio", "p_value", "low", "high")


class Contributors(NamedTuple):
    """Images of one side that contribute most, and those of the other side that get their mass."""

    indices: NDArray[np.int64]
    contributions: Vector
    counterparts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two sets compared; all figures are relative to the scale of the comparison.

    Attributes
    ----------
    distance : debiased divergence; may be negative by less than ``error``
    error : bound on the difference from the exact divergence of these images
    reference : average distance of two samples of these sizes of one population
    source_contributions, target_contributions : (n,) and (m,) contribution of each image; the sum is ``distance``
    source_counterparts, target_counterparts : (k,) best counterparts of the images that contribute most
    p_value, low, high : of the permutation test, and interval of the bootstrap; None without these
    """

    source: str
    target: str
    distance: float
    error: float
    reference: float
    source_contributions: Vector = field(repr=False)
    target_contributions: Vector = field(repr=False)
    source_counterparts: NDArray[np.int64] = field(repr=False)
    target_counterparts: NDArray[np.int64] = field(repr=False)
    p_value: float | None = None
    low: float | None = None
    high: float | None = None
    converged: bool = True

    def swapped(self) -> Self:
        """Same pair with source and target exchanged."""
        names = [name for name in self.__dataclass_fields__ if name.startswith("source")]
        pairs = [(name, name.replace("source", "target")) for name in names]
        return replace(self, **{one: getattr(self, other) for pair in pairs for one, other in (pair, pair[::-1])})

    @property
    def ratio(self) -> float:
        """Distance in multiples of its reference."""
        return self.distance / self.reference if self.reference > 0 else float("nan")

    @property
    def source_top(self) -> Contributors:
        """Sources that contribute most, with their best counterparts."""
        at = largest(self.source_contributions)
        return Contributors(at, self.source_contributions[at], self.source_counterparts)

    @property
    def target_top(self) -> Contributors:
        """Targets that contribute most, with their best counterparts."""
        return self.swapped().source_top


def largest(contributions: Vector) -> NDArray[np.int64]:
    """Positions of the 16 largest contributions of one side."""
    return np.argsort(-contributions, kind="stable")[:16]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Distances between any number of sets, in units of the 99 % quantile of the costs within a set.

    Attributes
    ----------
    names, sizes : of the N sets
    pairs : the N (N - 1) / 2 pairs, in the order of the names
    biases : sampling bias of each set, for samples of any size
    scale : the unit, in the units of the metric
    labels : names of the class of each image, for each set; None where a set has none
    symmetry_tests : tests of what changed in each pair, if requested
    settings : options with defaults resolved, and facts about features and storage
    seconds : spent in each stage
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    pairs: tuple[Pair, ...] = field(repr=False)
    biases: tuple[SamplingBias, ...] = field(repr=False)
    scale: float
    labels: tuple[NDArray[Any] | None, ...] = field(repr=False)
    symmetry_tests: tuple[SymmetryTests, ...] = field(default=(), repr=False)
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    seconds: dict[str, float] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return str(self.to_frame().to_string(index=False, float_format="%.4g"))

    def _repr_html_(self) -> str:
        facts = {"sets": len(self.names), "unit": f"{self.scale:.4g} ({self.settings.get('metric', 'cost')})"}
        table = self.to_frame().head(45).to_html(index=False, float_format="%.4g")  # pairs of ten sets
        return drawing.html_panel("Comparison", facts, table)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Heat map of the distances on matplotlib axes, by default those of a new figure."""
        title = "Distances between sets"
        return drawing.draw_matrix(ax, self.distances, self.names, self.names, form=".2g", title=title)

    @property
    def distances(self) -> Vector:
        """Matrix (N, N) of debiased divergences, symmetric, exactly 0 on the diagonal, and not clipped at 0."""
        return self._matrix("distance")

    @property
    def errors(self) -> Vector:
        """Bounds (N, N) on the errors of the distances."""
        return self._matrix("error")

    @property
    def references(self) -> Vector:
        """Average distances (N, N) between samples of one population; on the diagonal, two of the size of the set."""
        own = [2 * bias.part(size) for bias, size in zip(self.biases, self.sizes, strict=True)]
        return self._matrix("reference") + np.diag(own)

    @property
    def p_values(self) -> Vector:
        """p-values (N, N) of the permutation tests; NaN without them, 1 on the diagonal."""
        return self._matrix("p_value") + np.eye(len(self.names))

    @property
    def converged(self) -> bool:
        """Whether all solves met their tolerance."""
        return all(pair.converged for pair in self.pairs)

    def pair(self, source: str, target: str) -> Pair:
        """Pair of two sets, given by their names in either order."""
        for pair in self.pairs:
            if {pair.source, pair.target} == {source, target}:
                return pair
        raise InputError(f"there is no pair {source!r} and {target!r}; the sets are {', '.join(self.names)}.")

    def class_contributions(self, source: str, target: str) -> dict[str, dict[str, float]]:
        """Contributions of the classes to the distance of a pair, by set and class; their sum is the distance."""
        pair = self.pair(source, target)
        found = {}
        for name, parts in ((pair.source, pair.source_contributions), (pair.target, pair.target_contributions)):
            labels = self.labels[self.names.index(name)]
            if labels is None:
                raise InputError(f"{name!r} has no labels; make it a Dataset(images, labels).")
            found[name] = {str(label): float(parts[labels == label].sum()) for label in np.unique(labels)}
        return found

    def table(self) -> list[dict[str, Any]]:
        """List with one row per pair: names and the figures of :data:`COLUMNS`; None where there is none."""
        return [{name: getattr(pair, name) for name in COLUMNS} for pair in self.pairs]

    @any_names
    def to_frame(self) -> DataFrame:
        """Table as a pandas DataFrame."""
        return DataFrame(self.table(), columns=list(COLUMNS))

    def _matrix(self, name: str) -> Vector:
        """Symmetric matrix (N, N) of a figure of all pairs; NaN for None."""
        matrix = np.zeros((len(self.names), len(self.names)))
        matrix[np.triu_indices(len(matrix), 1)] = np.array([getattr(pair, name) for pair in self.pairs], dtype=float)
        return matrix + matrix.T


def compare(
    sets: "Mapping[str, AnySet] | Sequence[AnySet]",
    *,
    symmetry: str | None = None,
    features: Any = None,
    metric: Metric | None = None,
    intensity: Intensity | None = None,
    frame: str | Sequence[str] = "auto",
    labels: bool = False,
    permutations: int = 0,
    bootstrap: int = 0,
    symmetry_tests: bool = False,
    level: float = 0.05,
    reg: float = CompareOptions.reg,
    normalize: bool = True,
    pca: int | None = None,
    test_images: int = 2000,
    seed: int = 0,
    working_memory: str | int | float | None = None,
    store: str | Path | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare any number of sets by content, up to a symmetry.

    The distance of two sets is the debiased Sinkhorn divergence ``OT(p, q) - OT(p, p) / 2 - OT(q, q) / 2`` with
    ``OT(p, q) = min <P, C> + epsilon KL(P | p x q)``, on one feature space, with one unit and one ``epsilon`` for all
    pairs. It is 0 between a set and itself and is not clipped at 0. The order of the sets has no effect.

    Parameters
    ----------
    sets
        Names and sets: Datasets, arrays (n, height, width), names or paths to load; in a sequence by their own names.
    symmetry, features, metric, intensity, normalize, pca : Features, as for :func:`~bispectral_ot.match`.
    frame
        Placement of images, one for all sets or one for each. ``"auto"`` cuts off margins that an editor filled if
        most images of a set have them.
    labels : Add the distance between the classes of two images to their cost; class names may differ.
    permutations, bootstrap : Permutations of a test (199 recommended, and used with symmetry tests), bootstrap samples.
    symmetry_tests : Test what explains each difference; see :func:`~bispectral_ot.comparing.symmetry_tests`.
    level, test_images, seed : Significance level; maximum number of images per set in tests and intervals; seed.
    reg : Regularization, relative to :attr:`Comparison.scale`.
    store : Folder of finished parts, kept under a hash of pixels, labels and options, for a later call to reuse.
    working_memory, client, progress : As for :func:`~bispectral_ot.match`; the stage ``"pairs"`` counts solves.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> first, second = bot.split_halves(bot.load("digits"), per_class=20)
    >>> comparison = bot.compare({"first": first, "second": second}, permutations=19)
    >>> bool(comparison.pair("first", "second").p_value > 0.05)
    True
    """
    asked: dict[str, Any] = {"symmetry": symmetry, "features": features, "metric": metric, "intensity": intensity}
    asked |= {"normalize": normalize, "pca": pca, "labels": labels, "reg": reg}
    asked |= {"permutations": permutations, "bootstrap": bootstrap, "symmetry_tests": symmetry_tests}
    options = CompareOptions(**asked, level=level, test_images=test_images, seed=seed)
    with runtime.running(progress=progress, memory=working_memory, engine=as_engine(client)):
        return compare_sets(*named_sets(sets, array_kind(symmetry, features), frame), options, Store(store))


def compare_sets(names: Sequence[str], sets: Sequence[Dataset], options: CompareOptions, store: Store) -> Comparison:
    """Comparison of named datasets; progress, memory budget and engine are those of the execution context."""
    check_repeats(options.permutations, options.bootstrap, options.level)
    if options.symmetry_tests:
        for both in combinations(sets, 2):
            check_sets(both)  # before distances are computed
        if not options.permutations:  # the distance is one of the tests
            options = replace(options, permutations=DEFAULT_PERMUTATIONS)
    asked = {name: getattr(options, name) for name in ("symmetry", "metric", "intensity")}
    choice = choose_features(options.features, **asked, kind=sets[0].kind)
    if (options.permutations or options.bootstrap) and (copies := count_copies(*sets)):
        problem = f"{copies:,} of the {sum(map(len, sets)):,} images are copies of others, in their set or another one"
        warn(f"{problem}; p-values and intervals need independent images: keep one of each.")
    # all work is done in an order that only content decides: the order of the arguments changes no digit
    hashes = [dataset_hash(dataset) for dataset in sets]
    order = sorted(range(len(names)), key=lambda place: hashes[place])
    rank = np.argsort(order)
    datasets = [sets[place] for place in order]
    stages, most = Stages(), max(map(len, datasets))
    with stages.measured("features"):
        space = FittedFeatures(
            datasets,
            choice,
            normalize=options.normalize,
            pca=options.pca,
            solver_bytes=Sinkhorn().extra_bytes((most, most)),
            within=True,
            sample=pooled_sample(datasets, choice.transformer.sample_size, seed=options.seed),
        )
    stages.split("features", "fit", space.fit_seconds)
    for statistics, dataset in zip(space.statistics, datasets, strict=True):
        if statistics.constant_images == len(dataset):
            raise InputError(f"all images of {dataset.name!r} are constant (blank); leave the set out.")
    unlabelled = ground = GroundCost(space)
    if options.labels:
        with stages.measured("classes"):
            classes = divergence.class_distances(ground, datasets, options.reg, seed=options.seed)
            ground = GroundCost(space, *classes)
    context = content_hash(
        [__version__, sorted(hashes), options.to_json(), space.storage, choice.name, repr(choice.transformer)],
        # the representation of a custom transformer need not tell what it computes
        [] if options.features is None or isinstance(options.features, str) else list(space.features),
    )
    keys = [hashes[place] for place in order]
    with stages.measured("transport"):
        pairs, biases = PairwiseSolver(ground, unlabelled, keys, context, options, store).solve_all()
    space.features.clear()  # their memory is for the tests
    named: list[Pair] = []
    changes: list[SymmetryTests] = []
    with stages.measured("symmetry tests"):
        for i, j in combinations(range(len(names)), 2):
            pair = replace(pairs[rank[i], rank[j]], source=names[i], target=names[j])
            named.append(pair)
            if options.symmetry_tests:
                call = options.permutations, options.level, options.test_images, options.seed
                parts = ["symmetry tests", __version__, hashes[i], hashes[j], call]
                result = store.result(parts, SymmetryTests, partial(test_changes, sets[i], sets[j], *call))
                changes.append(replace(result, source=names[i], target=names[j], distance=pair.p_value))
    facts = {"symmetry": choice.symmetry, "features": choice.name, "metric": choice.metric, "storage": space.storage}
    frames = {"frame": [dataset.frame for dataset in sets], "reused": store.reused}
    return Comparison(
        names=tuple(names),
        sizes=tuple(map(len, sets)),
        pairs=tuple(named),
        biases=tuple(biases[place] for place in rank),
        scale=ground.scale,
        labels=tuple(map(label_names, sets)),
        symmetry_tests=tuple(changes),
        settings=options.to_json() | space.settings | facts | frames,
        seconds=stages.seconds,
    )


def pooled_sample(datasets: Sequence[Dataset], size: int, *, seed: int) -> list[Dataset]:
    """At most ``size`` images for a fit, drawn at random from all sets together: permutation tests stay exact."""
    sizes = [len(dataset) for dataset in datasets]
    most = min(size, max(200, 2**27 // (4 * int(datasets[0].signals[0].size))))  # 2**27 bytes, 200 images at least
    chosen = np.sort(np.random.default_rng(seed).permutation(sum(sizes))[:most])
    starts = np.cumsum([0, *sizes[:-1]])
    rows = np.split(chosen, np.searchsorted(chosen, starts[1:]))
    parts = [each.select(at - start) for each, at, start in zip(datasets, rows, starts, strict=True) if len(at)]
    if len({dataset.images.shape[1:] for dataset in datasets}) > 1:  # shapes in 3-D, or an error that the fit raises
        return parts
    images = np.asarray(stacked(parts))  # volumes are a list
    mixed = images[np.random.default_rng([seed, 1]).permutation(len(images))]
    return [Dataset.from_vectors(mixed) if datasets[0].kind == "vectors" else Dataset(mixed, kind=datasets[0].kind)]


@dataclass(frozen=True)
class PairwiseSolver:
    """Solves and tests of a comparison, each made once and kept in a store under hashes."""

    ground: GroundCost  # with the distances between classes, where labels count
    unlabelled: GroundCost
    keys: list[str]  # hashes of the sets
    context: str  # hash of everything else that decides a result: all sets and options
    options: CompareOptions
    store: Store

    def solve_all(self) -> tuple[dict[tuple[int, int], Pair], list[SamplingBias]]:
        """All pairs in both orders, and the sampling bias of all sets; one cost at a time."""
        count = len(self.keys)
        tasks = [*((place, place) for place in range(count)), *combinations(range(count), 2)]
        own: list[Potentials] = []
        biases: list[SamplingBias] = []
        pairs: dict[tuple[int, int], Pair] = {}
        for number, (i, j) in enumerate(tasks):
            runtime.progress("pairs", number, len(tasks))
            parts = [self.context, [self.keys[i], self.keys[j]]]
            if i == j:
                own.append(self.store.result(["self", parts], Potentials, partial(self._solve, i, i)))
                biases.append(self.store.result(["bias", parts], SamplingBias, partial(self._bias, i)))
            else:
                pairs[i, j] = self.store.result(["pair", parts], Pair, partial(self._pair, i, j, own, biases))
                pairs[j, i] = pairs[i, j].swapped()
        runtime.progress("pairs", len(tasks), len(tasks))
        return pairs, biases

    def _solve(self, i: int, j: int) -> Potentials:
        return divergence.solve_potentials(self.ground.cost(i, j), self.options.reg, within=i == j)

    def _bias(self, place: int) -> SamplingBias:
        """Sampling bias of a set, relative to the scale."""
        at = self._draw(place, 2000)  # images that the halves are drawn from
        pool = BatchedSinkhorn(self.ground.among([(place, at)]), epsilon=self.options.reg * self.ground.scale)
        found = divergence.sampling_bias(pool, len(at), self._random("halves", place))
        return SamplingBias(found.constant / self.ground.scale, found.offset)

    def _pair(self, i: int, j: int, own: Sequence[Potentials], biases: Sequence[SamplingBias]) -> Pair:
        """Divergence of two sets as a sum over images: ``<p, f - f_own> + <q, g - g_own>``."""
        cross = self._solve(i, j)
        scale = self.ground.scale
        n, m = len(cross.source), len(cross.target)
        source = (cross.source - own[i].source) / (n * scale)
        target = (cross.target - own[j].source) / (m * scale)
        # potentials are known up to a constant that moves from one side to the other: both sides get the same sum
        shift = (source.sum() - target.sum()) / 2
        source, target = source - shift / n, target + shift / m
        distance = float(source.sum() + target.sum())
        # most mass of i goes to the j where potential - cost is largest
        costs = self.ground.block((i, largest(source)), (j, slice(None)))
        costs_back = self.ground.block((j, largest(target)), (i, slice(None)))
        p_value, low, high = self._test(i, j, distance)
        return Pair(
            source="",
            target="",
            distance=distance,
            error=(cross.error + (own[i].error + own[j].error) / 2) / scale,
            reference=biases[i].part(n) + biases[j].part(m),
            source_contributions=source,
            target_contributions=target,
            source_counterparts=(cross.target - costs).argmax(axis=1),
            target_counterparts=(cross.source - costs_back).argmax(axis=1),
            p_value=p_value,
            low=low,
            high=high,
            converged=cross.converged and own[i].converged and own[j].converged,
        )

    def _test(self, i: int, j: int, distance: float) -> tuple[float | None, float | None, float | None]:
        """P-value of a permutation test, and ends of the bootstrap interval, where asked for."""
        chosen = [(place, self._draw(place, self.options.test_images)) for place in (i, j)]
        n, m = (len(at) for _, at in chosen)
        p_value = low = high = None
        if self.options.permutations:
            # without labels, which would reveal the set of an image; with the scale of the pool: both sets count alike
            costs = self.unlabelled.among(chosen)
            pool = BatchedSinkhorn(costs, epsilon=self.options.reg * divergence.cost_scale(costs))
            random = self._random("test", i, j)
            p_value = divergence.permutation_test(costs, pool, (n, m), self.options.permutations, random)
        if self.options.bootstrap:
            pool = BatchedSinkhorn(self.ground.among(chosen), epsilon=self.options.reg * self.ground.scale)
            random = self._random("bootstrap", i, j)
            moved = divergence.bootstrap_deviations(pool, (n, m), self.options.bootstrap, random)
            # deviations of a sample of test_images are wider than those of the whole set
            sizes = [len(self.ground.space.features[place]) for place in (i, j)]
            shrink = np.sqrt((1 / sizes[0] + 1 / sizes[1]) / (1 / n + 1 / m)) / self.ground.scale
            half = self.options.level / 2
            low, high = (distance + np.quantile(moved, [half, 1 - half]) * shrink).tolist()
        return p_value, low, high

    def _draw(self, place: int, most: int) -> NDArray[np.int64]:
        """Positions of at most ``most`` images of a set, drawn at random."""
        return np.sort(self._random("draw", place).permutation(len(self.ground.space.features[place]))[:most])

    def _random(self, purpose: str, *places: int) -> np.random.Generator:
        return np.random.default_rng(int(content_hash(purpose, self.options.seed, [self.keys[i] for i in places]), 16))


def named_sets(
    sets: Mapping[str, AnySet] | Sequence[AnySet], kind: ArrayKind | None = None, frame: str | Sequence[str] = "canvas"
) -> tuple[tuple[str, ...], list[Dataset]]:
    """Names and datasets that can be compared; ``kind`` is that of sets that are loaded, ``frame`` their placement."""
    if isinstance(sets, (str, os.PathLike, Dataset)) or not isinstance(sets, (Mapping, Sequence)):
        found = f"sets must be a mapping from names to sets, or a list of them, got {type(sets).__name__}"
        raise InputError(f"{found}; write compare({{'first': one, 'second': other}}).")
    given = dict(sets) if isinstance(sets, Mapping) else {f"set {place}": each for place, each in enumerate(sets)}
    names = [str(name) for name in given]
    datasets = as_datasets(list(given.values()), names, kind=kind, frames=FrameChoice(frame))
    if not isinstance(sets, Mapping):
        names = [dataset.name for dataset in datasets]
    if len(names) < 2:
        raise InputError(f"at least two sets are needed for a comparison, got {len(names)}.")
    for name, dataset in zip(names, datasets, strict=True):
        if names.count(name) > 1:
            raise InputError(f"two sets are named {name!r}; pass a mapping with different names.")
        if len(dataset) < 2:
            raise InputError(f"{name!r} has only one image; a set needs at least two.")
        if dataset.kind != datasets[0].kind:
            kinds = f"{names[0]!r} is of the kind {datasets[0].kind!r} but {name!r} of the kind {dataset.kind!r}"
            raise InputError(f"sets of different kinds cannot be compared: {kinds}.")
    return tuple(names), [replace(dataset, name=name) for dataset, name in zip(datasets, names, strict=True)]


def check_repeats(permutations: int, bootstrap: int, level: float) -> None:
    """Refuse numbers of repeats that cannot give a result at the level."""
    fewest = int(np.ceil(1 / level - 1e-9)) - 1
    if 0 < permutations < fewest:
        found = f"{permutations} permutations cannot give a p-value of {level:g}"
        raise InputError(f"{found}; use at least {fewest}, or better {10 * (fewest + 1) - 1}.")
    if 0 < bootstrap < 2 * fewest:
        raise InputError(f"{bootstrap} bootstrap samples are too few for a level of {level:g}; use {2 * fewest}.")
