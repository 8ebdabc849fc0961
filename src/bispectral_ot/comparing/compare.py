"""The front door: any number of sets in, a comparison out."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_choice, check_integer, check_positive
from bispectral_ot.choices import Metric, Storage
from bispectral_ot.comparing.classes import ClassDistances, bures_pool, class_distances
from bispectral_ot.comparing.divergence import EntropicTransport, PlainTransport, Transport
from bispectral_ot.comparing.ground import Ground
from bispectral_ot.comparing.result import Comparison, Contributors, Pair
from bispectral_ot.comparing.sampling import SamplingLaw, bootstrap_deviations, permutation_test, sampling_law
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import as_shapes
from bispectral_ot.datasets.load import as_datasets
from bispectral_ot.engines.cluster import as_engine
from bispectral_ot.errors import InputError
from bispectral_ot.matching.result import label_names
from bispectral_ot.matching.stages import Stages
from bispectral_ot.progress import Progress, silent
from bispectral_ot.spaces import FeatureSpace, choose_features

AnySet = Dataset | ArrayLike | os.PathLike[str]
# Relative to the scale of the ground cost; why it is this is in docs/compare.md.
DEFAULT_REG = 0.13
# On marginals that differ from the weights where they are relaxed; likewise.
PENALTY = 0.13
# Random halves that a reference comes from, and the images of a set that they are taken of.
_SPLITS, _SPLIT_IMAGES = 8, 2000
# Images that are named as contributing most, on each side.
_TOP = 16


def compare(
    sets: Mapping[str, AnySet] | Sequence[AnySet],
    *,
    symmetry: str | None = None,
    features: Any = None,
    metric: Metric | None = None,
    labels: bool | Literal["gaussian"] = False,
    marginals: Literal["balanced", "relaxed"] = "balanced",
    permutations: int = 0,
    bootstrap: int = 0,
    level: float = 0.05,
    reg: float = DEFAULT_REG,
    tol: float = 1e-6,
    normalize: bool = True,
    pca: int | None = None,
    test_images: int = 2000,
    seed: int = 0,
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
    scratch: str | Path | None = None,
    done: MutableMapping[str, Any] | None = None,
    client: Any = None,
    progress: Progress = silent,
) -> Comparison:
    """Compare any number of sets by content, whatever the symmetry did to their images.

    The distance of two sets is the debiased Sinkhorn divergence ``OT(p, q) - OT(p, p) / 2 - OT(q, q) / 2`` with
    ``OT(p, q) = min <P, C> + epsilon KL(P | p x q)``: on one feature space, with one unit and one ``epsilon`` for all
    pairs. It is 0 between a set and itself, and is never clamped.

    Parameters
    ----------
    sets
        Names and what they stand for: Datasets, arrays (n, height, width), names or paths to load. In a sequence,
        datasets keep their own names.
    symmetry, features, metric, normalize, pca
        What the sets are compared by, as for :func:`~bispectral_ot.match`.
    labels
        Add the distance between the classes of two images to the cost between them; class names need not agree.
        All sets need labels. ``"gaussian"`` takes classes for Gaussian distributions (the Bures distance).
    marginals
        ``"relaxed"`` for sets that hold the same classes in other shares: mass that has no counterpart stays behind
        and is paid for, so that less of the distance is due to shares.
    permutations
        Random relabellings of a permutation test for each pair; 0 for none. 199 are enough at the 5 % level. The test
        looks at the images, not at their labels.
    bootstrap
        Resamplings for an interval of each distance; 0 for none.
    level
        Of the tests and intervals: 0.05 for 95 % intervals.
    reg
        Regularisation relative to the scale: the largest cost within a set, but for the uppermost 1 %. 0 for the exact
        transport distance, for sets of some thousands of images at most.
    tol
        Marginal error to reach; ``errors`` follow from what was reached.
    test_images
        Images of each set at most that permutations and bootstrap look at, drawn at random.
    seed
        Of everything random.
    working_memory, storage, scratch
        Byte budget for all features and one cost at a time, and how that is kept; see :class:`~bispectral_ot.Cost`.
    done
        What an earlier call with the same sets and options has computed; what is missing is added.
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
    transport = as_transport(reg, tol=tol, marginals=marginals)
    check_integer("seed", seed, minimum=0)
    check_integer("test_images", test_images, minimum=2)
    check_repeats(permutations, bootstrap, level)
    names, datasets = named_sets(sets, progress=progress)
    if features is None and datasets[0].kind == "images" and symmetry in (None, "rotation", "rotation-reflection"):
        # the combined features of a match are weighted by the sets at hand: distances of two comparisons would have
        # different units
        features, symmetry = "coupled-bispectrum", symmetry or "rotation"
    choice = choose_features(features, symmetry=symmetry, metric=metric, kind=datasets[0].kind)
    if choice.symmetry == "so3-shapes":
        datasets = [as_shapes(dataset) for dataset in datasets]
    stages = Stages()
    largest = max(map(len, datasets))
    with stages.measured("features"):
        space = FeatureSpace(
            datasets,
            choice,
            normalize=normalize,
            pca=pca,
            working_memory=working_memory,
            storage=storage,
            solver_bytes=transport.extra_bytes((largest, largest)),
            within=True,
            scratch=scratch,
            engine=as_engine(client),
            progress=progress,
        )
    _refuse_blank(space, names, datasets)
    with space:
        unlabelled = Ground(space)
        classes, ground = None, unlabelled
        if labels:
            with stages.measured("classes"):
                between = bures_pool if labels == "gaussian" else transport.pool
                classes, codes = class_distances(ground, names, datasets, between, seed=seed, progress=progress)
                ground = Ground(space, labels=codes, classes=classes.matrix)
                classes = ClassDistances(classes.matrix / ground.scale, classes.names)
        work = _Work(ground, unlabelled, names, transport, seed, test_images, {} if done is None else done, progress)
        with stages.measured("transport"):
            work.solve_all()
        with stages.measured("reference"):
            laws = [work.law(place) for place in range(len(names))]
        with stages.measured("tests"):
            tests = work.test_all(permutations, bootstrap, level)
        pairs = [work.pair(i, j, laws, tests[i, j]) for i, j in combinations(range(len(names)), 2)]
    return Comparison(
        names=names,
        sizes=tuple(map(len, datasets)),
        pairs=tuple(pairs),
        laws=tuple(laws),
        scale=ground.scale,
        labels=tuple(map(label_names, datasets)),
        class_distances=classes,
        settings={
            "symmetry": choice.symmetry,
            "features": choice.name,
            "metric": choice.metric,
            "labels": labels,
            "marginals": marginals,
            "reg": reg,
            "tol": tol,
            "normalize": normalize,
            **space.settings,
            "storage": space.storage,
            "permutations": permutations,
            "bootstrap": bootstrap,
            "level": level,
            "test_images": test_images,
            "seed": seed,
        },
        seconds=stages.seconds,
    )


@dataclass(frozen=True)
class _Work:
    """The solves of a comparison; each is done once, and kept in ``done``."""

    ground: Ground
    unlabelled: Ground
    names: tuple[str, ...]
    transport: Transport
    seed: int
    test_images: int
    done: MutableMapping[str, Any]
    progress: Progress

    def solve_all(self) -> None:
        """All self-terms and cross terms, one cost at a time."""
        count = len(self.names)
        tasks = [(i, i) for i in range(count)] + list(combinations(range(count), 2))
        for number, (i, j) in enumerate(tasks):
            self.progress("pairs", number, len(tasks))
            key = self._key("transport", i, j)
            if key not in self.done:
                self.done[key] = self._solve_self(i) if i == j else self._solve_cross(i, j)
        self.progress("pairs", len(tasks), len(tasks))

    def _solve_self(self, place: int) -> dict[str, Any]:
        return vars(self.transport.within(self.ground.cost(place, place), progress=self.progress))

    def _solve_cross(self, i: int, j: int) -> dict[str, Any]:
        cross = self.transport.across(self.ground.cost(i, j), progress=self.progress)
        found: dict[str, Any] = {"error": cross.error, "converged": cross.converged}
        parts = []
        for place, values in ((i, cross.source_values), (j, cross.target_values)):
            own = self.done[self._key("transport", place, place)]["values"]
            parts.append((values - own) / len(own))
        # potentials are known up to a constant that moves from one side to the other: both sides get the same sum
        shift = (parts[0].sum() - parts[1].sum()) / 2 if self.transport.floating else 0.0
        parts = [parts[0] - shift / len(parts[0]), parts[1] + shift / len(parts[1])]
        sides = ((i, j, parts[0], cross.target_potential), (j, i, parts[1], cross.source_potential))
        for side, (here, there, contributions, potential) in zip(("source", "target"), sides, strict=True):
            top = np.argsort(-contributions, kind="stable")[:_TOP]
            # the most mass goes where potential - cost is largest
            counterparts = (potential - self.ground.between(here, top, there)).argmax(axis=1)
            found |= {f"{side}_contributions": contributions / self.ground.scale}
            found |= {f"{side}_top": top, f"{side}_counterparts": counterparts}
        return found

    def law(self, place: int) -> SamplingLaw:
        """What sampling alone gives for a set, relative to the scale."""
        key = self._key("halves", place, place)
        if key not in self.done:
            at = self._draw(place, _SPLIT_IMAGES)
            if len(at) < 4:
                return SamplingLaw(np.nan, 0.0)
            pool = self.transport.pool(self.ground.among([(place, at)]), scale=self.ground.scale)
            random = np.random.default_rng([self.seed, 1, place])
            found = sampling_law(pool, len(at), splits=_SPLITS, random=random)
            self.done[key] = {"constant": found.constant / self.ground.scale, "offset": found.offset}
        return SamplingLaw(*(float(self.done[key][name]) for name in ("constant", "offset")))

    def test_all(self, permutations: int, bootstrap: int, level: float) -> dict[tuple[int, int], dict[str, Any]]:
        """Permutation tests and bootstrap deviations of all pairs."""
        tasks = list(combinations(range(len(self.names)), 2))
        if not (permutations or bootstrap):
            return {task: {} for task in tasks}
        found = {}
        for number, (i, j) in enumerate(tasks):
            self.progress("tests", number, len(tasks))
            key = self._key("test", i, j)
            if key not in self.done:
                self.done[key] = self._test(i, j, permutations, bootstrap, level)
            found[i, j] = dict(self.done[key])
        self.progress("tests", len(tasks), len(tasks))
        return found

    def _test(self, i: int, j: int, permutations: int, bootstrap: int, level: float) -> dict[str, Any]:
        chosen = [(place, self._draw(place, self.test_images)) for place in (i, j)]
        sizes = len(chosen[0][1]), len(chosen[1][1])
        random = np.random.default_rng([self.seed, 2, i, j])
        found: dict[str, Any] = {}
        if permutations:
            # classes are those of a set: with their distances in the cost, each image would say which set it is of
            costs = self.unlabelled.among(chosen)
            pool = self.transport.pool(costs, scale=self.unlabelled.scale)
            tested = permutation_test(
                costs, pool, sizes, permutations=permutations, random=random, progress=self.progress
            )
            found["p_value"] = tested.p_value
        if bootstrap:
            pool = self.transport.pool(self.ground.among(chosen), scale=self.ground.scale)
            moved = bootstrap_deviations(pool, sizes, repeats=bootstrap, random=random, progress=self.progress)
            # deviations of a sample of test_images are wider than those of the whole set
            shrink = np.sqrt((1 / self._size(i) + 1 / self._size(j)) / (1 / sizes[0] + 1 / sizes[1]))
            found["deviations"] = np.quantile(moved, [level / 2, 1 - level / 2]) * shrink / self.ground.scale
        return found

    def pair(self, i: int, j: int, laws: Sequence[SamplingLaw], test: dict[str, Any]) -> Pair:
        """Everything about a pair, relative to the scale."""
        cross = self.done[self._key("transport", i, j)]
        terms = [self.done[self._key("transport", place, place)] for place in (i, j)]
        parts = cross["source_contributions"], cross["target_contributions"]
        distance = float(parts[0].sum() + parts[1].sum())
        error = float(cross["error"]) + sum(float(term["error"]) for term in terms) / 2
        p_value, deviations = test.get("p_value"), test.get("deviations")
        tops = [
            Contributors(cross[f"{side}_top"], values[cross[f"{side}_top"]], cross[f"{side}_counterparts"])
            for side, values in zip(("source", "target"), parts, strict=True)
        ]
        return Pair(
            self.names[i],
            self.names[j],
            distance=distance,
            error=error / self.ground.scale,
            reference=laws[i].part(self._size(i)) + laws[j].part(self._size(j)),
            source_contributions=parts[0],
            target_contributions=parts[1],
            source_top=tops[0],
            target_top=tops[1],
            p_value=None if p_value is None else float(p_value),
            interval=None if deviations is None else (distance + float(deviations[0]), distance + float(deviations[1])),
            converged=bool(cross["converged"]) and all(bool(term["converged"]) for term in terms),
        )

    def _size(self, place: int) -> int:
        return len(self.ground.space.features[place])

    def _draw(self, place: int, most: int) -> NDArray[np.int64]:
        """Positions of at most so many images of a set, drawn at random."""
        size = self._size(place)
        random = np.random.default_rng([self.seed, 0, place])
        return np.arange(size) if size <= most else np.sort(random.choice(size, most, replace=False))

    def _key(self, what: str, i: int, j: int) -> str:
        return f"{what}-{i}-{j}"


def as_transport(reg: float, *, tol: float = 1e-6, marginals: str = "balanced") -> Transport:
    """The transport that a regularisation asks for: exact where it is 0."""
    check_choice("marginals", marginals, ("balanced", "relaxed"))
    check_positive("tol", tol, "give the marginal error to reach, such as 1e-6")
    if isinstance(reg, (int, float)) and not isinstance(reg, bool) and reg == 0:
        if marginals == "relaxed":
            raise InputError("relaxed marginals need a regularisation; give reg above 0, such as 0.13.")
        return PlainTransport()
    check_positive("reg", reg, "it is relative to the largest cost within a set; 0 is exact transport")
    return EntropicTransport(reg=reg, tol=tol, penalty=PENALTY if marginals == "relaxed" else None)


def named_sets(
    sets: Mapping[str, AnySet] | Sequence[AnySet], *, progress: Progress = silent
) -> tuple[tuple[str, ...], list[Dataset]]:
    """Names and datasets, or an :class:`InputError` that says why they cannot be compared."""
    if isinstance(sets, (str, os.PathLike, Dataset)) or not isinstance(sets, (Mapping, Sequence)):
        raise InputError(
            f"sets must be a mapping from names to sets, or a list of them, got {type(sets).__name__}; "
            "write compare({'first': one, 'second': other})."
        )
    if isinstance(sets, Mapping):
        names = [str(name) for name in sets]
        datasets = as_datasets(list(sets.values()), names, progress=progress)
    else:
        datasets = as_datasets(sets, [f"set {place}" for place in range(len(sets))], progress=progress)
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
    check_integer("permutations", permutations, minimum=0)
    check_integer("bootstrap", bootstrap, minimum=0)
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise InputError(f"level must be between 0 and 1, such as 0.05, got {level!r}.")
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


def _refuse_blank(space: FeatureSpace, names: Sequence[str], datasets: Sequence[Dataset]) -> None:
    blank = [
        name
        for name, each, dataset in zip(names, space.statistics, datasets, strict=True)
        if each.constant_images == len(dataset)
    ]
    if blank:
        raise InputError(f"all images of {', '.join(map(repr, blank))} are constant (blank); leave the set out.")
