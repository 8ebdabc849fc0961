"""From images to a matching: the whole way against the paper's recipe, and how it grows with the size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from benchmarks.literal import literal_features
from benchmarks.peers import Problem, marginal_error
from benchmarks.setting import Setting, turned_halves
from benchmarks.tables import Table
from benchmarks.timing import missing, timed
from bispectral_ot.costs import Cost
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.transforms import rescale
from bispectral_ot.features import RingBispectrum
from bispectral_ot.matching import Match, class_preservation, match
from bispectral_ot.transport import Sinkhorn

_REG, _TOL, _MAX_UPDATES = 0.01, 3e-4, 10_000_000
_OURS = "bispectral-ot"
_STAGES = ("features", "cost", "transport", "summary")
_BLOCK_ROWS = 50
_FEATURES = RingBispectrum(sampling="nearest")  # the paper's
_PAPER: Any = {"marginals": "balanced", "metric_learning": "none"}  # labels by the plan alone
# Times below this are mostly overhead and say nothing about growth.
_SHORTEST = 0.1


def measure(setting: Setting) -> Iterator[Table]:
    """The recipe at a few sizes, then ours alone as far as the data go."""
    sizes = setting.sizes
    match(*turned_halves(setting.digits, 20))  # compiled code is loaded
    rows = []
    for n in sizes.recipe:
        rows += _against_recipe(*turned_halves(setting.digits, n), time_box=2 * setting.time_box)
    skipped = [f"{name} (not installed; SciPy's cdist in its place)" for name in missing(["torch"])]
    note = (
        "Seconds from images in memory to the class that gets most of each image's mass; L1, reg 0.01. The "
        "recipe: ring bispectra in a loop over images, 44,800 columns; torch.cdist(p=1); the cost copied to float64; "
        f"POT's greenkhorn, stopped by its threshold at a marginal error below {_TOL:g}. Ours has to reach the error "
        f"that the recipe reached. The recipe's cost gets {2 * setting.time_box:g} s: where that is too short, the "
        "time of the rows that were done is scaled up to all, which cost the same each, and the rest come from us."
    )
    yield Table("End to end against the paper's recipe", note, ["n", "stage", _OURS, "recipe", "ratio"], rows, skipped)
    yield _growth(setting)


def _against_recipe(source: Dataset, target: Dataset, *, time_box: float) -> list[dict[str, Any]]:
    """Ours beside the recipe, a row for each stage and each fact."""
    seconds, facts = _recipe(source, target, time_box=time_box)
    total, result = timed(
        lambda: match(
            source,
            target,
            features=_FEATURES,
            **_PAPER,
            solver=Sinkhorn(reg=_REG, tol=facts["marginal error"]),
        )
    )
    ours = _stage_seconds(result)
    rows: list[dict[str, Any]] = [
        {
            "n": len(source),
            "stage": stage,
            _OURS: ours[stage],
            "recipe": seconds[stage],
            "ratio": seconds[stage] / ours[stage],
        }
        for stage in _STAGES
    ]
    recipe_total = sum(seconds.values())
    rows.append(
        {"n": len(source), "stage": "total", _OURS: total, "recipe": recipe_total, "ratio": recipe_total / total}
    )
    our_facts = {"marginal error": result.marginal_error, "accuracy": class_preservation(result).accuracy}
    rows += [
        {"n": len(source), "stage": name, _OURS: our_facts.get(name), "recipe": fact} for name, fact in facts.items()
    ]
    return rows


def _stage_seconds(result: Match) -> dict[str, float]:
    """Seconds of the stages that both have; the fit counts as features."""
    seconds = {stage: result.seconds[stage] for stage in _STAGES}
    return seconds | {"features": seconds["features"] + result.seconds["fit"]}


def _recipe(source: Dataset, target: Dataset, *, time_box: float) -> tuple[dict[str, float], dict[str, Any]]:
    """The paper's recipe stage by stage: seconds, and facts about the result."""
    seconds: dict[str, float] = {}
    pixels = np.concatenate([source.images, target.images]).astype(np.float64)
    scale = float(pixels.mean()), float(pixels.std())
    source_images, target_images = rescale(source.images, *scale), rescale(target.images, *scale)
    seconds["features"], (x, y) = timed(lambda: (literal_features(source_images), literal_features(target_images)))
    rows_done, cost_seconds, distances = _recipe_cost(x, y, time_box=time_box)
    seconds["cost"] = cost_seconds * len(source) / rows_done
    same = _our_cost(source_images, target_images)
    difference = float(np.abs(distances[:rows_done] - same[:rows_done]).max() / same.max())
    distances[rows_done:] = same[rows_done:]
    seconds["transport"], plan = timed(lambda: _recipe_transport(distances))
    seconds["summary"], accuracy = timed(lambda: _plan_accuracy(plan, source, target))
    return seconds, {
        "marginal error": marginal_error(Problem(distances, _REG, _TOL), plan),
        "accuracy": accuracy,
        "rows of the cost that were timed": rows_done,
        "cost: largest difference from ours": difference,
    }


def _recipe_cost(
    x: NDArray[np.float32], y: NDArray[np.float32], *, time_box: float
) -> tuple[int, float, NDArray[np.float32]]:
    """L1 distances row block by row block until time is up: rows done, seconds, distances."""
    distance = _cityblock()
    distances = np.empty((len(x), len(y)), dtype=np.float32)
    start, done = time.perf_counter(), 0
    while done < len(x) and time.perf_counter() - start < time_box:
        distances[done : done + _BLOCK_ROWS] = distance(x[done : done + _BLOCK_ROWS], y)
        done = min(done + _BLOCK_ROWS, len(x))
    return done, time.perf_counter() - start, distances


def _cityblock() -> Callable[[NDArray[np.float32], NDArray[np.float32]], Any]:
    if missing(["torch"]):
        from scipy.spatial.distance import cdist

        return lambda x, y: cdist(x, y, "cityblock")
    torch = import_module("torch")
    return lambda x, y: torch.cdist(torch.from_numpy(x), torch.from_numpy(y), p=1.0).numpy()


def _recipe_transport(distances: NDArray[np.float32]) -> NDArray[np.float64]:
    import ot

    cost = distances.astype(np.float64)
    cost /= cost.max()
    n, m = cost.shape
    # its threshold is the largest violation of one row or column
    threshold = _TOL / (n + m)
    plan: NDArray[np.float64] = ot.bregman.greenkhorn(
        np.full(n, 1 / n), np.full(m, 1 / m), cost, _REG, numItermax=_MAX_UPDATES, stopThr=threshold
    )
    return plan


def _our_cost(source_images: NDArray[np.float32], target_images: NDArray[np.float32]) -> NDArray[np.float32]:
    transformer = clone(_FEATURES).fit(source_images)
    x, y = transformer.transform(source_images), transformer.transform(target_images)
    return Cost(x, y, "l1", weights=transformer.feature_weights_, storage="float32").block(0, len(x))


def _plan_accuracy(plan: NDArray[np.float64], source: Dataset, target: Dataset) -> float:
    mass = plan @ np.eye(len(target.classes))[target.labels]
    return float((mass.argmax(axis=1) == source.labels).mean())


def _growth(setting: Setting) -> Table:
    """Ours from files to accuracy at rising sizes, with the exponent of each stage."""
    stages = ("load", *_STAGES, "total")
    rows: list[dict[str, Any]] = []
    storage = ""
    for n in setting.sizes.growth:
        start = time.perf_counter()
        source, target = turned_halves(setting.load_digits(), n)
        loaded = time.perf_counter() - start
        if rows and len(source) <= rows[-1]["n"]:
            break  # there are no more digits
        result = match(source, target, features=_FEATURES, **_PAPER, solver=Sinkhorn(reg=_REG))
        accuracy = class_preservation(result).accuracy
        rows.append(
            {"n": len(source), "load": loaded, **_stage_seconds(result)}
            | {"total": time.perf_counter() - start, "accuracy": accuracy}
        )
        storage = result.settings["storage"]
    exponents = {stage: growth_exponent([(row["n"], row[stage]) for row in rows]) for stage in stages}
    note = (
        "Ours from files to accuracy: load, halve and turn; features; L1 cost; Sinkhorn (reg 0.01, error 1e-4); best "
        "matches and classes. Last row: the exponent k of seconds ~ n^k, fitted where a stage takes "
        f"at least {_SHORTEST:g} s. Cost of the last size: {storage}."
    )
    # as text, so that an exponent is not read as a number of seconds
    last: dict[str, Any] = {s: None if k is None else f"n^{k:.2f}" for s, k in exponents.items()}
    columns = ["n", *stages, "accuracy"]
    return Table("Growth with the number of images on each side", note, columns, [*rows, {"n": "exponent", **last}])


def growth_exponent(points: list[tuple[int, float]]) -> float | None:
    """Slope of log(seconds) over log(n) through the points long enough to mean something; None below two."""
    kept = [(n, seconds) for n, seconds in points if seconds >= _SHORTEST]
    if len(kept) < 2:
        return None
    logs = np.log(kept)
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
