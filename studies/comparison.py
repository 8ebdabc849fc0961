"""Distances between sets: sensitivity to changes, dependence on size, and rejection rates of the tests."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.comparing import Comparison, compare
from bispectral_ot.comparing.divergence import cost_scale, mean_embeddings, p_value, permutation_test
from bispectral_ot.datasets import Dataset, load, rotate_randomly
from bispectral_ot.features import FittedFeatures, choose_features
from bispectral_ot.files import write_json, write_text
from bispectral_ot.options import CompareOptions
from bispectral_ot.transport import BatchedSinkhorn
from studies.cells import CellStore
from studies.comparison_tables import TABLES
from studies.preset import checksum

DEFAULT_REG = CompareOptions.reg
FEATURES = ("global-bispectrum", "pixels", "ring-bispectrum")
DATASETS = ("mnist", "fashion-mnist")
PARTS = ("distances", "sets", "labels", "sizes", "rates")
SHARES = (0.1, 0.5, 1.0)
REGS = (0.05, DEFAULT_REG, 0.3)
_LEVEL, _PERMUTATIONS = 0.05, 99
# Of the noise and the blur, in standard deviations of all pixels and in pixels; factor of the brightness.
_NOISE, _BLUR, _BRIGHTNESS = 0.5, 0.7, 1.1
NEW_CLASS = "new class"
# As many kernels as the test of a comparison has statistics, around the usual one.
_MMD_WIDTHS = (0.25, 0.5, 1.0, 2.0)

Cell = dict[str, Any]


def run_comparison(
    out: str | Path,
    *,
    parts: Sequence[str] = PARTS,
    datasets: Sequence[str] = DATASETS,
    features: Sequence[str] = FEATURES,
    images: int = 2000,
    sizes: Sequence[int] = (250, 500, 1000, 2000),
    regs: Sequence[float] = REGS,
    test_images: int = 100,
    repeats: int = 200,
    skip: int = 0,
    seed: int = 0,
    root: str | Path | None = None,
) -> dict[str, list[Cell]]:
    """Distances between halves, rotated halves and other sets, halves of several sizes, and rejection rates of tests.

    Writes a cell for each figure to ``cells/``, and for each part its cells and a table, such as ``rates.json`` and
    ``rates.md``. Parts may be run one after the other into one folder.

    Parameters
    ----------
    parts
        ``"distances"``: halves, rotated halves and other sets, at several regularizations; ``"sets"``: all sets and the
        first one rotated; ``"labels"``: the same with label-aware costs; ``"sizes"``: halves of several sizes;
        ``"rates"``: how often tests find a change.
    datasets
        Names of the sets.
    features
        Feature extractors, by name.
    images
        Number of images of each half or set.
    sizes
        Numbers of images per half in the part ``"sizes"``.
    regs
        Regularizations of the part ``"distances"``; other parts use the default.
    test_images
        Number of images on each side of a test.
    repeats
        Number of tests for a rate.
    skip
        Number of images to leave out at the beginning of each set: those on which parameters were chosen.
    """
    for name, value in (("images", images), ("test_images", test_images), ("repeats", repeats)):
        check_integer(name, value, minimum=2)
    check_integer("skip", skip, minimum=0)
    parts = [check_choice("part", part, PARTS) for part in parts]
    store = CellStore(out, "compare")
    common = {"seed": seed, "skip": skip, "change": "", "share": 1.0, "reg": DEFAULT_REG}

    def configs(part: str, kind: str) -> list[Cell]:
        together = {"part": part, "datasets": "+".join(datasets), "features": kind, "size": images} | common
        single = [together | {"datasets": name} for name in datasets]
        if part == "distances":
            return [together | {"reg": reg} for reg in regs]
        if part == "sizes":
            return [each | {"size": size} for each in single for size in sizes]
        if part == "rates":
            tests = {"size": test_images, "repeats": repeats}
            changes = [(change, share) for change, shares in CHANGES.items() for share in shares]
            return [each | tests | {"change": change, "share": share} for each in single for change, share in changes]
        return [together]

    tasks = [config for part in parts for kind in features for config in configs(part, kind)]
    found: dict[str, list[Cell]] = {part: [] for part in parts}
    options = {"parts": parts, "datasets": list(datasets), "features": list(features), "images": images}
    options |= {"sizes": list(sizes), "test_images": test_images, "repeats": repeats, "skip": skip, "seed": seed}
    sets: dict[str, Dataset] = {}
    marks: dict[str, str] = {}

    def loaded(name: str) -> Dataset:
        if name not in sets:
            sets[name] = load(name, root=root)
            sets[name] = sets[name].select(slice(skip, None))
            marks[name] = checksum(sets[name])
        return sets[name]

    with store.recorded(options):
        for number, config in enumerate(tasks):
            runtime.progress("cells", number, len(tasks))
            chosen = [loaded(name) for name in config["datasets"].split("+")]
            config["checksum"] = "+".join(marks[name] for name in config["datasets"].split("+"))
            cell = store.cell(config, partial(_MEASURES[config["part"]], config, chosen))
            found[config["part"]].append(cell)
        runtime.progress("cells", len(tasks), len(tasks))
        for part, cells in found.items():
            write_json(Path(out) / f"{part}.json", cells)
            write_text(Path(out) / f"{part}.md", TABLES[part](cells))
    return found


def _distances(config: Cell, datasets: list[Dataset]) -> Cell:
    """Distances between halves, a rotated half and the other sets, in one comparison."""
    sets: dict[str, Dataset] = {}
    for place, dataset in enumerate(datasets):
        one, other = _disjoint(dataset, config["size"], seed=[config["seed"], place])
        turned = rotate_randomly(other, seed=config["seed"])
        sets |= {f"{dataset.name}": one, f"{dataset.name}, other half": other, f"{dataset.name}, turned": turned}
    return _entries(compare(sets, reg=config["reg"], **_options(config)))


def _sets(config: Cell, datasets: list[Dataset]) -> Cell:
    """Distances between all sets, and another half of the first one, rotated."""
    return _entries(compare(_drawn(config, datasets), **_options(config)))


def _labels(config: Cell, datasets: list[Dataset]) -> Cell:
    """Distances between all sets with the distance between classes in the cost."""
    return _entries(compare(_drawn(config, datasets), labels=True, **_options(config)))


def _drawn(config: Cell, datasets: list[Dataset]) -> dict[str, Dataset]:
    halves = [_disjoint(each, config["size"], seed=[config["seed"], place]) for place, each in enumerate(datasets)]
    sets = {each.name: half[0] for each, half in zip(datasets, halves, strict=True)}
    return sets | {f"{datasets[0].name}, turned": rotate_randomly(halves[0][1], seed=config["seed"])}


def _options(config: Cell) -> dict[str, Any]:
    return {name: config[name] for name in ("features", "seed")}


def _entries(found: Comparison) -> Cell:
    return {
        "names": found.names,
        "distances": found.distances,
        "references": found.references,
        "errors": found.errors,
        "converged": found.converged,
    }


def _halves(config: Cell, datasets: list[Dataset]) -> Cell:
    """Distance of two halves of some size, and the expected distance."""
    halves = _disjoint(datasets[0], config["size"], seed=[config["seed"], config["size"]])
    sets = dict(zip(("one", "other"), halves, strict=True))
    found = compare(sets, features=config["features"]).pairs[0]
    return {"distance": found.distance, "reference": found.reference}


def _rates(config: Cell, datasets: list[Dataset]) -> Cell:
    """How often our permutation test and those of MMD find a change, on the same features and draws."""
    (dataset,) = datasets
    random = np.random.default_rng([config["seed"], zlib.crc32(config["change"].encode())])
    size = config["size"]
    clean, other = _disjoint(dataset, min(3000, len(dataset) // 2), seed=[config["seed"], 7])
    if config["change"] == NEW_CLASS:
        clean, other, changed = (
            _of_class(each, here) for each, here in ((clean, False), (other, False), (other, True))
        )
    else:
        changed = _change(config["change"], other, random)
    space = FittedFeatures([clean, other, changed], choose_features(config["features"]))
    rejected = {"ours": 0, "mmd": 0, "mmd_median": 0}
    for _ in range(config["repeats"]):
        source = space.features[0][random.choice(len(clean), size, replace=False)]
        drawn = random.choice(len(changed), size, replace=False)
        is_changed = random.random(size) < config["share"]
        target = space.features[2][drawn]
        if config["share"] < 1:  # then both have the same images
            target = np.where(is_changed[:, None], target, space.features[1][drawn])
        costs = space.feature_map.distances_within(np.concatenate([source, target]), space.spec.metric)
        pool = BatchedSinkhorn(costs, epsilon=DEFAULT_REG * cost_scale(costs))
        rejected["ours"] += permutation_test(costs, pool, (size, size), _PERMUTATIONS, random) <= _LEVEL
        rejected["mmd"] += mmd_p_value(costs, size, random, _MMD_WIDTHS) <= _LEVEL
        rejected["mmd_median"] += mmd_p_value(costs, size, random) <= _LEVEL
    return {name: count / config["repeats"] for name, count in rejected.items()}


def mmd_p_value(
    costs: NDArray[np.floating], n: int, random: np.random.Generator, widths: Sequence[float] = (1.0,)
) -> float:
    """P-value of MMD with kernels ``exp(-cost / (width * median cost))``, by permutations."""
    total = len(costs)
    signs = np.where(np.arange(total) < n, 1 / n, -1 / (total - n))
    columns = np.stack([signs, *(random.permutation(signs) for _ in range(_PERMUTATIONS))], axis=1)
    return p_value(mean_embeddings(costs, columns, widths))


_MEASURES: dict[str, Callable[[Cell, list[Dataset]], Cell]] = {
    "distances": _distances,
    "sets": _sets,
    "labels": _labels,
    "sizes": _halves,
    "rates": _rates,
}

# Changes of one side, and the fractions of its images that are changed.
CHANGES: dict[str, tuple[float, ...]] = {
    "nothing": (1.0,),
    "class removed": (1.0,),
    NEW_CLASS: (0.1, 0.2),
    "noise": SHARES,
    "blur": SHARES,
    "stain": SHARES,
    "brightness": (1.0,),
    "turned": SHARES,
}


def _change(name: str, dataset: Dataset, random: np.random.Generator) -> Dataset:
    if name == "class removed":
        return _of_class(dataset, False)
    images = dataset.images.astype(np.float32)
    if name == "noise":
        return replace(dataset, images=images + random.normal(0, _NOISE * images.std(), images.shape))
    if name == "blur":
        from scipy.ndimage import gaussian_filter

        sigmas = (0, _BLUR, _BLUR) + (0,) * (images.ndim - 3)
        return replace(dataset, images=gaussian_filter(images, sigmas))
    if name == "stain":  # on a sixteenth of the pixels, at one place
        images = images.copy()
        images[:, 4:11, 4:11] = images.max()
        return replace(dataset, images=images)
    if name == "brightness":
        return replace(dataset, images=np.clip(_BRIGHTNESS * images, images.min(), images.max()))
    if name == "turned":
        return rotate_randomly(dataset, seed=int(random.integers(2**31)))
    return dataset


def _of_class(dataset: Dataset, inside: bool) -> Dataset:
    """Images of the first class, or all others."""
    return dataset.select((np.asarray(dataset.labels) == 0) == inside)


def _disjoint(dataset: Dataset, size: int, *, seed: Any) -> tuple[Dataset, Dataset]:
    order = np.random.default_rng(seed).permutation(len(dataset))
    size = min(size, len(dataset) // 2)
    return dataset.select(order[:size]), dataset.select(order[size : 2 * size])
