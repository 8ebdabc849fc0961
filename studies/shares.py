"""Sets that do not have their classes in the same shares: transport against nearest neighbours, regime by regime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import check_integer
from bispectral_ot.costs import Cost, Distance
from bispectral_ot.datasets import Dataset, load, rotate_randomly, split_halves
from bispectral_ot.errors import InputError
from bispectral_ot.features import FittedFeatures, choose_features
from bispectral_ot.matching.outliers import rank, relaxed_plan, soft_distances
from bispectral_ot.matching.target_marginal import solve_marginals
from bispectral_ot.transport import Coupling, Sinkhorn
from studies.cells import CellStore
from studies.kernel_proportions import estimate_shares
from studies.preset import checksum
from studies.share_tables import write_tables

RATES = (0.95, 0.9, 0.8, 0.7, 0.5)
# The rate of the four regimes.
RATE = 0.7
_LEVEL, _UNMATCHED = 0.9, 0.05
_AMONG = " among "
Index = NDArray[np.int64]
Vector = NDArray[np.float64]


class Regime(NamedTuple):
    """Which sources and targets are kept, by position; class c keeps ``rate ** c`` of its images where it is skewed."""

    name: str
    rate: float
    sources: Index
    targets: Index


@dataclass(frozen=True, eq=False)
class Task:
    """Distances and labels of one pair of sets; labels are classes 0, 1, 2, ..., of which the target may lack some."""

    costs: NDArray[np.float32]
    within: NDArray[np.float32]
    source_labels: Index
    target_labels: Index

    def cut(self, regime: Regime) -> Task:
        """The same for some sources and targets."""
        i, j = regime.sources, regime.targets
        return Task(
            np.ascontiguousarray(self.costs[np.ix_(i, j)]),
            np.ascontiguousarray(self.within[np.ix_(j, j)]),
            self.source_labels[i],
            self.target_labels[j],
        )


class _Known(Distance):
    """Distances that were computed before."""

    def __init__(self, matrix: NDArray[np.float32], metric: str) -> None:
        self.matrix, self.metric, self.shape = matrix, metric, (matrix.shape[0], matrix.shape[1])

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        return self.matrix[start:stop]


def run_shares(
    out: str | Path,
    datasets: Sequence[str] = ("mnist", "fashion-mnist"),
    *,
    features: Sequence[str] = ("global-bispectrum",),
    per_class: int = 200,
    seeds: int = 5,
    rates: Sequence[float] = RATES,
    strangers: bool = False,
    first: int | None = None,
    resize: int = 64,
    root: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Match turned halves whose classes were cut to different shares, in several ways.

    Writes a cell for each set, features and seed to ``cells/``, all of them to ``results.json``, ``table.md`` (the four
    regimes), ``sweep.md`` (by strength of the skew), ``shares.md`` (errors and intervals of estimated shares),
    ``passes.md``, ``unmatched.md``, and ``figures/``.

    Parameters
    ----------
    datasets
        Names or folders of sets with labels.
    features
        Names of features.
    per_class
        Images of each class in each half, before they are cut.
    seeds
        Splits and turns to average over.
    rates
        Skews: of ten classes, class c keeps ``rate ** c`` of its images; with other numbers of classes the last one
        keeps as much as the last of ten.
    strangers
        Look for images of each set among those of each other instead, by the plan that shows what has a counterpart.
    first
        Use so many images at the start of each set only: those that choices were made on.
    resize
        Side that images of folders are brought to, in grey.
    """
    for name, value in (("per_class", per_class), ("seeds", seeds)):
        check_integer(name, value, minimum=1)
    store = CellStore(out, "shares")
    common = {"per_class": per_class, "rates": list(rates), "first": first}
    paths = {Path(name).name: name for name in datasets}
    pairs = [f"{one}{_AMONG}{other}" for other in paths for one in paths if one != other]
    configs: list[dict[str, Any]] = [
        {"dataset": name, "features": kind, "seed": seed, **common}
        for name in (pairs if strangers else paths)
        for kind in features
        for seed in range(seeds)
    ]

    @lru_cache(maxsize=None if strangers else 1)
    def loaded(name: str) -> Dataset:
        return _read(paths[name], first=first, resize=resize, root=root)

    cells: list[dict[str, Any]] = []
    with store.recorded({"datasets": list(paths), "features": list(features), "seeds": seeds, **common}):
        for number, config in enumerate(configs):
            runtime.progress("cells", number, len(configs))
            sets = [loaded(name) for name in reversed(config["dataset"].split(_AMONG))]
            config["checksum"] = "+".join(map(checksum, sets))

            def measured() -> dict[str, Any]:
                whole = prepare(*sets, features=config["features"], per_class=per_class, seed=config["seed"])  # noqa: B023
                return {"regimes": measure_strangers(whole) if strangers else measure(whole, rates)}

            cells.append(store.cell(config, measured))
        runtime.progress("cells", len(configs), len(configs))
        cells = store.with_earlier(cells, ("dataset", "features", "seed"))
        write_tables(Path(out), cells)
    return cells


def _read(name: str, *, first: int | None, resize: int, root: str | Path | None) -> Dataset:
    folder = Path(name).is_dir()
    dataset = load(name, root=root, resize=resize if folder else None, grey=folder)
    if dataset.labels is None:
        raise InputError(f"{dataset.name!r} has no labels, and this study cuts its classes to different shares.")
    return dataset if first is None else dataset.select(slice(0, first))


def prepare(dataset: Dataset, *strangers: Dataset, features: str, per_class: int, seed: int) -> Task:
    """Distances between a turned half and an upright one, and within the upright one.

    As many turned ``strangers`` come after the sources, with the label -1.
    """
    source, target = split_halves(dataset, seed=seed, per_class=per_class)
    assert source.labels is not None
    assert target.labels is not None
    random = np.random.default_rng(seed)
    others = [other.select(random.permutation(len(other))[: len(source)]) for other in strangers]
    turned = [rotate_randomly(side, seed=seed + number) for number, side in enumerate([source, *others])]
    labels = np.concatenate([source.labels, *(np.full(len(other), -1) for other in others)])
    choice = choose_features(features, symmetry="rotation")
    with FittedFeatures([*turned, target], choice, storage="float32") as space:
        last = len(turned)
        *costs, within = (space.cost(place, last).block(0, len(space.features[place])) for place in range(last + 1))
    return Task(np.concatenate(costs), within, labels, target.labels)


def find_regimes(whole: Task, rates: Sequence[float]) -> list[Regime]:
    """Equal shares; half of the classes in the source, or in the target; skews of the target, and of both sides."""
    n_classes = int(whole.target_labels.max()) + 1
    classes = np.arange(n_classes)
    all_of = np.ones(n_classes)

    def keep(labels: Index, shares: Vector) -> Index:
        kept = []
        for c, share in zip(classes, shares, strict=True):
            members = np.flatnonzero(labels == c)
            kept.append(members[: max(1, int(share * len(members) + 1e-9)) if share else 0])
        return np.concatenate(kept)

    def regime(name: str, rate: float, source: Vector, target: Vector) -> Regime:
        return Regime(name, rate, keep(whole.source_labels, source), keep(whole.target_labels, target))

    half = (classes < n_classes / 2).astype(np.float64)
    found = [regime("same", 1.0, all_of, all_of), regime("half source", 1.0, half, all_of)]
    found.append(regime("half target", 1.0, all_of, half))
    for rate in sorted({RATE, *rates}, reverse=True):
        skewed = (rate ** (9 / max(n_classes - 1, 1))) ** classes
        found.append(regime("target skewed", rate, all_of, skewed))
        found.append(regime("opposite", rate, skewed[::-1], skewed))
    return found


def measure(whole: Task, rates: Sequence[float]) -> list[dict[str, Any]]:
    """All regimes of one pair of sets."""
    regimes = []
    for regime in find_regimes(whole, rates):
        task = whole.cut(regime)
        found: dict[str, Any] = {"regime": regime.name, "rate": regime.rate, "n": len(task.source_labels)}
        found["m"] = len(task.target_labels)
        if regime.name == "half target":
            found["unmatched"] = find_unmatched(task)
        else:
            found |= compare_ways(task, intervals=regime.rate in (RATE, 1.0))
        regimes.append(found)
    return regimes


def measure_strangers(whole: Task) -> list[dict[str, Any]]:
    """Sources of which half are of another set."""
    n, m = whole.costs.shape
    return [{"regime": "strangers", "rate": 1.0, "n": n, "m": m, "unmatched": find_unmatched(whole)}]


def compare_ways(task: Task, *, intervals: bool = True) -> dict[str, Any]:
    """Share of sources that get their own class, way by way, and how the shares were found."""
    cost = Cost.from_matrix(task.costs)
    codes = np.unique(task.target_labels, return_inverse=True)[1].astype(np.int64)
    classes = np.unique(task.target_labels)
    counts = np.bincount(codes).astype(np.float64)
    between = _Known(task.costs, "known")
    estimate = estimate_shares(between, task.within, codes, counts, scale=cost.scale)
    true = np.equal.outer(classes, task.source_labels).mean(axis=1)
    weights = np.full(cost.shape[0], 1 / cost.shape[0]), np.full(cost.shape[1], 1 / cost.shape[1])
    oracle = replace(estimate, proportions=true, firmness=1 - 0.5 / counts)
    accuracy = {f"{k}-NN": _accuracy(nearest_labels(task, k), task) for k in (1, 5)}
    passes = {}
    ways: list[tuple[str, Any, Any]] = [
        ("balanced", "balanced", None),
        ("relaxed", "relaxed", None),
        ("estimated", "estimated", estimate),
        ("oracle", "estimated", oracle),
    ]
    for name, way, shares in ways:
        coupling = solve_marginals(way, Sinkhorn(), cost, weights, task.target_labels, shares)
        accuracy[name] = _accuracy(classes[_class_mass(coupling, codes).argmax(axis=1)], task)
        passes[name] = coupling.iterations
    found: dict[str, Any] = {"accuracy": accuracy, "passes": passes, "evidence": estimate.evidence}
    found["error"] = float(np.abs(estimate.proportions - true).sum() / 2)
    if intervals:
        low, high = estimate.intervals(level=_LEVEL)
        found["covered"] = float(((low <= true) & (true <= high)).mean())
        found["width"] = float((high - low).mean())
    return found


def find_unmatched(task: Task) -> dict[str, float]:
    """How well sources of classes that the target lacks are found, by the relaxed plan and by the nearest target."""
    from sklearn.metrics import roc_auc_score

    unknown = ~np.isin(task.source_labels, task.target_labels)
    plan = relaxed_plan(Cost.from_matrix(task.costs))
    between, within = _Known(task.costs, "known"), _Known(task.within, "known")
    distances = soft_distances(between, plan.target_potential, plan.epsilon)
    scores = rank(distances, soft_distances(within, plan.target_potential, plan.epsilon, leave_out=True))
    low = scores < _UNMATCHED
    return {
        "auc": float(roc_auc_score(unknown, distances)),
        "nearest_auc": float(roc_auc_score(unknown, task.costs.min(axis=1))),
        "known_found": float(low[~unknown].mean()),
        "unknown_found": float(low[unknown].mean()),
        "passes": plan.iterations,
    }


def nearest_labels(task: Task, k: int) -> Index:
    """The most frequent label among the k nearest targets; of several, that of the nearer ones."""
    k = min(k, task.costs.shape[1])
    near = np.argpartition(task.costs, k - 1, axis=1)[:, :k]
    near = np.take_along_axis(near, np.argsort(np.take_along_axis(task.costs, near, axis=1), axis=1), axis=1)
    votes = np.zeros((len(near), int(task.target_labels.max()) + 1))
    for place in range(k):
        np.add.at(votes, (np.arange(len(near)), task.target_labels[near[:, place]]), 1 + 1e-3 * (k - place) / k)
    best: Index = votes.argmax(axis=1)
    return best


def _class_mass(coupling: Coupling, codes: Index) -> Vector:
    mass = coupling.summary(k=0, target_labels=codes).source_class_mass
    assert mass is not None
    return mass


def _accuracy(labels: Index, task: Task) -> float:
    return float((labels == task.source_labels).mean())
