"""How far distances between sets can be trusted: what they see, what size does to them, how often tests are right."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.comparing import compare
from bispectral_ot.comparing.compare import DEFAULT_REG
from bispectral_ot.comparing.ground import Ground
from bispectral_ot.comparing.pooled import PooledKernel
from bispectral_ot.comparing.sampling import permutation_test
from bispectral_ot.datasets import Dataset, load, rotate_randomly
from bispectral_ot.engines.cluster import as_engine
from bispectral_ot.files import write_json, write_text
from bispectral_ot.progress import Progress, silent
from bispectral_ot.spaces import FeatureSpace, choose_features
from bispectral_ot.studies.cells import CellStore
from bispectral_ot.studies.markdown import markdown_table

VERB = "study compare"
FEATURES = ("coupled-bispectrum", "pixels", "ring-bispectrum")
DATASETS = ("mnist", "fashion-mnist")
SHARES = (0.1, 0.5, 1.0)
REGS = (0.05, DEFAULT_REG, 0.3)
_LEVEL, _PERMUTATIONS = 0.05, 99
# Of the noise and the blur, in standard deviations of all pixels and in pixels.
_NOISE, _BLUR = 0.5, 0.7

Change = Callable[[Dataset, np.random.Generator], Dataset]


def run_comparison(
    out: str | Path,
    *,
    datasets: Sequence[str] = DATASETS,
    features: Sequence[str] = FEATURES,
    images: int = 2000,
    sizes: Sequence[int] = (250, 500, 1000, 2000),
    regs: Sequence[float] = REGS,
    test_images: int = 100,
    repeats: int = 200,
    first: int | None = None,
    seed: int = 0,
    root: str | Path | None = None,
    client: Any = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> dict[str, list[dict[str, Any]]]:
    """Compare halves, turned halves and other sets; halves of several sizes; and count how often tests reject.

    Writes a cell for each figure to ``cells/``, all of them to ``results.json`` and three tables: ``distances.md``,
    ``sizes.md`` and ``rates.md``.

    Parameters
    ----------
    datasets
        Names of the sets; each is drawn from at random.
    images
        Images of each half.
    sizes
        Images of each half, for the dependence on size.
    regs
        Regularisations that halves and other sets are compared with; everything else has the default.
    test_images, repeats
        Images of each side of a test, and how many tests a rate is counted from.
    first
        Use only so many images at the beginning of each set.
    client
        A ``distributed.Client`` to work on a Dask cluster, as for :func:`~bispectral_ot.match`. Tests stay here.
    """
    for name, value in (("images", images), ("test_images", test_images), ("repeats", repeats)):
        check_integer(name, value, minimum=2)
    store = CellStore(
        Path(out),
        VERB,
        ("results.json", "distances.md", "sizes.md", "rates.md"),
        names=("part", "datasets", "features", "reg", "size", "change", "share"),
        entries={"seconds": (int, float)},
    )
    common = {"seed": seed, "first": first, "reg": DEFAULT_REG}
    blank = {"part": "", "datasets": "", "features": "", "size": 0, "change": "", "share": 1.0}
    tasks: list[tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]] = []
    for kind in features:
        for reg in regs:
            what = {"part": "distances", "datasets": "+".join(datasets), "features": kind, "size": images}
            tasks.append((blank | what | common | {"reg": reg}, _distances))
        for name in datasets:
            for size in sizes:
                what = {"part": "sizes", "datasets": name, "features": kind, "size": size}
                tasks.append((blank | what | common, _halves))
            for change, shares in CHANGES.items():
                for share in shares:
                    what = {"part": "rates", "datasets": name, "features": kind, "size": test_images}
                    what |= {"change": change, "share": share, "repeats": repeats}
                    tasks.append((blank | what | common, _rates))
    found: dict[str, list[dict[str, Any]]] = {"distances": [], "sizes": [], "rates": []}
    options = {"datasets": list(datasets), "features": list(features), "images": images, "repeats": repeats, **common}
    sets: dict[str, Dataset] = {}
    engine = as_engine(client)

    def loaded(name: str) -> Dataset:
        if name not in sets:
            sets[name] = load(name, root=root) if first is None else load(name, root=root).select(slice(0, first))
        return sets[name]

    with store.recorded(options):
        for number, (config, measure) in enumerate(tasks):
            progress("cells", number, len(tasks))
            cell = store.find(config, overwrite=overwrite)
            if cell is None:
                start = time.perf_counter()
                chosen = [loaded(name) for name in config["datasets"].split("+")]
                cell = {"config": config, **measure({**config, "sets": chosen, "client": engine})}
                cell["seconds"] = time.perf_counter() - start
                store.save(cell)
            found[config["part"]].append(cell)
        progress("cells", len(tasks), len(tasks))
        write_json(Path(out) / "results.json", found)
        for part, table in (("distances", distance_table), ("sizes", size_table), ("rates", rate_table)):
            write_text(Path(out) / f"{part}.md", table(found[part]))
    return found


def _distances(config: dict[str, Any]) -> dict[str, Any]:
    """Distances between halves, a turned half and the other sets, in one comparison."""
    sets: dict[str, Dataset] = {}
    for place, dataset in enumerate(config["sets"]):
        one, other = _disjoint(dataset, config["size"], seed=[config["seed"], place])
        turned = rotate_randomly(other, seed=config["seed"])
        sets |= {f"{dataset.name}": one, f"{dataset.name}, other half": other, f"{dataset.name}, turned": turned}
    choices = {name: config[name] for name in ("features", "reg", "seed", "client")}
    found = compare(sets, **choices)
    return {"names": found.names, "distances": found.distances, "references": found.references, "errors": found.errors}


def _halves(config: dict[str, Any]) -> dict[str, Any]:
    """The distance of two halves of some size, and what was expected."""
    halves = _disjoint(config["sets"][0], config["size"], seed=[config["seed"], config["size"]])
    sets = dict(zip(("one", "other"), halves, strict=True))
    found = compare(sets, features=config["features"], client=config["client"]).pairs[0]
    return {"distance": found.distance, "reference": found.reference}


def _rates(config: dict[str, Any]) -> dict[str, Any]:
    """How often permutation tests of the divergence and of MMD find a change, on the same features and draws."""
    (dataset,) = config["sets"]
    random = np.random.default_rng([config["seed"], len(config["change"])])
    size = config["size"]
    clean, other = _disjoint(dataset, min(1000, len(dataset) // 2), seed=[config["seed"], 7])
    changed = _change(config["change"], other, random)
    sides = [clean, other, changed]
    with FeatureSpace(sides, choose_features(config["features"])) as space:
        scale = Ground(space).scale
        rejected = {"divergence": 0, "mmd": 0}
        for _ in range(config["repeats"]):
            source = space.features[0][random.choice(len(clean), size, replace=False)]
            drawn = random.choice(len(changed), size, replace=False)
            is_changed = random.random(size) < config["share"]
            target = space.features[2][drawn]
            if config["share"] < 1:  # then both have the same images
                target = np.where(is_changed[:, None], target, space.features[1][drawn])
            costs = space.feature_map.distances_within(np.concatenate([source, target]), space.choice.metric)
            kernel = PooledKernel(costs, epsilon=DEFAULT_REG * scale)
            test = permutation_test(kernel, (size, size), permutations=_PERMUTATIONS, random=random)
            rejected["divergence"] += test.p_value <= _LEVEL
            rejected["mmd"] += mmd_p_value(costs, size, random) <= _LEVEL
    return {name: count / config["repeats"] for name, count in rejected.items()}


def mmd_p_value(costs: NDArray[np.float64], n: int, random: np.random.Generator) -> float:
    """The p-value of MMD with a Gaussian-like kernel ``exp(-cost / median cost)``, by permutations as well."""
    total = len(costs)
    kernel = np.exp(-costs / np.median(costs[~np.eye(total, dtype=bool)]))
    signs = np.where(np.arange(total) < n, 1 / n, -1 / (total - n))
    rows = np.stack([signs, *(random.permutation(signs) for _ in range(_PERMUTATIONS))])
    found = np.einsum("ij,ij->i", rows @ kernel, rows)
    return float(((found[1:] >= found[0] - 1e-12).sum() + 1) / (_PERMUTATIONS + 1))


# What is done to one side, and to which shares of its images.
CHANGES: dict[str, tuple[float, ...]] = {
    "nothing": (1.0,),
    "class removed": (1.0,),
    "noise": SHARES,
    "blur": SHARES,
    "turned": SHARES,
}


def _change(name: str, dataset: Dataset, random: np.random.Generator) -> Dataset:
    if name == "class removed" and dataset.labels is not None:
        return dataset.select(dataset.labels != 0)
    images = dataset.images.astype(np.float32)
    if name == "noise":
        return replace(dataset, images=images + random.normal(0, _NOISE * images.std(), images.shape))
    if name == "blur":
        from scipy.ndimage import gaussian_filter

        sigmas = (0, _BLUR, _BLUR) + (0,) * (images.ndim - 3)
        return replace(dataset, images=gaussian_filter(images, sigmas))
    if name == "turned":
        return rotate_randomly(dataset, seed=int(random.integers(2**31)))
    return dataset


def _disjoint(dataset: Dataset, size: int, *, seed: Any) -> tuple[Dataset, Dataset]:
    order = np.random.default_rng(seed).permutation(len(dataset))
    size = min(size, len(dataset) // 2)
    return dataset.select(order[:size]), dataset.select(order[size : 2 * size])


def distance_table(cells: list[dict[str, Any]]) -> str:
    """Halves, turned halves and other sets, in multiples of the distance of two halves."""
    rows = []
    for cell in cells:
        names, distances = list(cell["names"]), np.asarray(cell["distances"])
        wholes = names[::3]
        for name in wholes:
            place = names.index(name)
            halves = distances[place, place + 1]
            others = [distances[place, names.index(other)] / halves for other in wholes if other != name]
            reference = np.asarray(cell["references"])[place, place + 1]
            figures = [f"{halves:.5f}", f"{reference:.5f}", f"{distances[place, place + 2] / halves:.2f}"]
            rows.append(
                [
                    name,
                    cell["config"]["features"],
                    f"{cell['config']['reg']:g}",
                    *figures,
                    f"{min(others):.1f}" if others else "",
                ]
            )
    header = ["set", "features", "reg", "two halves", "expected", "turned half / halves", "nearest other set / halves"]
    return markdown_table(header, rows)


def size_table(cells: list[dict[str, Any]]) -> str:
    """Distances of halves of several sizes, and what was expected from halves and quarters of each."""
    sizes = sorted({cell["config"]["size"] for cell in cells})
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for cell in cells:
        key = cell["config"]["datasets"], cell["config"]["features"]
        rows.setdefault(key, {})[cell["config"]["size"]] = f"{cell['distance']:.5f} ({cell['reference']:.5f})"
    header = ["set", "features", *(f"{size:,} images" for size in sizes)]
    return markdown_table(header, [[*key, *(row.get(size, "") for size in sizes)] for key, row in rows.items()])


def rate_table(cells: list[dict[str, Any]]) -> str:
    """How often each test rejects, the divergence before MMD."""
    columns = list(dict.fromkeys((cell["config"]["datasets"], cell["config"]["features"]) for cell in cells))
    rows: dict[tuple[str, float], dict[tuple[str, str], str]] = {}
    for cell in cells:
        config = cell["config"]
        entry = f"{cell['divergence']:.0%} / {cell['mmd']:.0%}"
        row = rows.setdefault((config["change"], config["share"]), {})
        row[config["datasets"], config["features"]] = entry
    header = ["change", "share of images", *(f"{name}, {kind}" for name, kind in columns)]
    body = [[change, f"{share:.0%}", *(row.get(c, "") for c in columns)] for (change, share), row in rows.items()]
    return markdown_table(header, body)
