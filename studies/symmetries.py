"""Class preservation under symmetries other than planar rotation: D_4, SO(3) on the sphere and on 3-D shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.costs import METRICS
from bispectral_ot.datasets import Dataset, normalize, split_halves
from bispectral_ot.datasets.named_sets import place
from bispectral_ot.errors import InputError
from bispectral_ot.features import choose_features
from bispectral_ot.files import write_json, write_text
from bispectral_ot.groups.sphere import ShellBispectrum
from studies.cells import Cell, CellStore, Config
from studies.markdown import markdown_table
from studies.paper import DATASET_TITLES, METRIC_TITLES
from studies.preset import check_names, checksum, load_labelled, measure
from studies.spherical import project_to_sphere
from studies.synthetic_shapes import synthetic_shapes

SETTINGS = ("turned", "baseline")
REG, TOL = 0.01, 1e-4


@dataclass(frozen=True)
class Experiment:
    """Symmetry, its action on a set, and the features that are compared under it.

    Attributes
    ----------
    title : of the symmetry, for the table
    move : (dataset, seed or None) -> the signals that are matched; each is moved at random if a seed is given
    features : names of the features, with how the table calls them; the invariant one comes last
    normalized : whether pixels have mean 0 and deviation 1 over the whole set, as in the paper
    """

    title: str
    move: Callable[[Dataset, int | None], Dataset]
    features: dict[str, str]
    normalized: bool


def turn_and_mirror(dataset: Dataset, seed: int | None) -> Dataset:
    """Apply a random element of D_4, a quarter turn with or without a mirror, to each square image."""
    if seed is None:
        return dataset
    moved = dataset.images.copy()
    elements = np.random.default_rng(seed).integers(8, size=len(moved))
    for element in range(8):
        chosen = elements == element
        turned = np.rot90(moved[chosen], element % 4, axes=(1, 2))
        moved[chosen] = turned if element < 4 else turned[:, :, ::-1]
    return replace(dataset, images=moved)


def put_on_sphere(dataset: Dataset, seed: int | None) -> Dataset:
    """Project images on the sphere; with a seed, each is rotated at random, uniformly on SO(3)."""
    return replace(dataset, images=project_to_sphere(dataset.images, seed=seed), kind="sphere")


def turn_shapes(dataset: Dataset, seed: int | None) -> Dataset:
    """Rotate each point cloud (n_points, 3) at random, uniformly on SO(3)."""
    from scipy.spatial.transform import Rotation

    if seed is None:
        return dataset
    rotations = Rotation.random(len(dataset), rng=np.random.default_rng(seed)).as_matrix().astype(np.float32)
    return replace(dataset, images=dataset.images @ rotations.transpose(0, 2, 1))


EXPERIMENTS = {
    "d4": Experiment(
        "quarter turns and mirrors",
        turn_and_mirror,
        {"pixels": "pixels", "ring-bispectrum": "ring bispectrum", "d4-bispectrum": "D_4 bispectrum"},
        normalized=True,
    ),
    "so3": Experiment(
        "on the sphere, turned in 3-D",
        put_on_sphere,
        {"pixels": "raw samples", "sphere-bispectrum": "SO(3) bispectrum"},
        normalized=False,
    ),
    "so3-shapes": Experiment(
        "turned in 3-D",
        turn_shapes,
        {"pixels": "coordinates", "shell-densities": "shell densities", "shell-bispectrum": "shell bispectrum"},
        normalized=False,
    ),
}


def run_symmetries(
    out: str | Path,
    *,
    dataset: str | None = None,
    only: Sequence[str] = tuple(EXPERIMENTS),
    metrics: Sequence[str] = METRICS,
    per_class: int = 200,
    shapes: int = 60,
    seed: int = 0,
    root: str | Path | None = None,
) -> list[Cell]:
    """Class preservation under quarter turns and reflections, on the sphere, and of 3-D shapes.

    Raw signals are compared with bispectra: a transformed set A is matched with B (setting ``turned``), and A itself
    with B (setting ``baseline``). Writes ``results.json`` and ``table.md``.

    Parameters
    ----------
    dataset
        Square images with labels, for "d4" and "so3"; by default ``mnist`` if it is available, else ``mnist-5k``.
    only
        Symmetries: d4 (quarter turns and reflections), so3 (images on the sphere), so3-shapes (synthetic solids).
    metrics
        Distances between features, by name.
    per_class
        Number of images of each class in each half.
    shapes
        Number of synthetic shapes of each class in each half.
    seed
        Random seed of the halves, of the shapes and of their transformations.
    root
        Folder of the official IDX files; nothing is downloaded.
    """
    check_names("symmetries", only, tuple(EXPERIMENTS))
    check_names("metrics", metrics, METRICS)
    store = CellStore(out, "symmetries")
    images = _square_images(dataset, root, per_class) if set(only) - {"so3-shapes"} else None
    tasks = [
        (symmetry, setting, features, metric)
        for symmetry in only
        for setting in SETTINGS
        for features in EXPERIMENTS[symmetry].features
        for metric in metrics
    ]
    cells: list[Cell] = []
    options = {"only": only, "dataset": images and images.name, "metrics": metrics}
    with store.recorded(options | {"per_class": per_class, "shapes": shapes, "seed": seed}):
        for number, (symmetry, setting, features, metric) in enumerate(tasks):
            runtime.progress("cells", number, len(tasks))
            solids = symmetry == "so3-shapes"
            source = synthetic_shapes(2 * shapes, turned=False, seed=seed) if solids else images
            assert source is not None
            config = {
                "symmetry": symmetry,
                "dataset": source.name,
                "checksum": checksum(source),
                "setting": setting,
                "features": features,
                "parameters": _transformer(features).get_params(),
                "metric": metric,
                "seed": seed,
                "per_class": shapes if solids else per_class,
                "reg": REG,
                "tol": TOL,
            }
            cells.append(store.cell(config, partial(_measure, source, config)))
        runtime.progress("cells", len(tasks), len(tasks))
        found = store.with_earlier(cells, ("symmetry", "dataset", "setting", "features", "metric"))
        write_json(store.folder / "results.json", {"cells": found})
        write_text(store.folder / "table.md", symmetry_table(found))
    return found


def _measure(source: Dataset, config: Config) -> Cell:
    return measure(*_sides(source, config), _transformer(config["features"]), config)


def _transformer(features: str) -> Any:
    """Transformer of a name; densities are raw signals without an invariant."""
    return choose_features("pixels" if features == "shell-densities" else features).transformer


def _sides(source: Dataset, config: dict[str, Any]) -> tuple[Dataset, Dataset]:
    """Moved A and unmoved B of a group of cells, as input of the features of the config."""
    experiment = EXPERIMENTS[config["symmetry"]]
    whole = normalize(source) if experiment.normalized else source
    a, b = split_halves(whole, seed=config["seed"], per_class=config["per_class"])
    a = experiment.move(a, config["seed"] if config["setting"] == "turned" else None)
    b = experiment.move(b, None)
    if config["features"] == "shell-densities":
        return _shell_densities(a), _shell_densities(b)
    return a, b


def _shell_densities(shapes: Dataset) -> Dataset:
    """Densities on shells, the input of the shell bispectrum: not invariant, but independent of the order of points."""
    shells = ShellBispectrum().fit(shapes.images)
    return replace(shapes, images=shells.shell_coefficients(shapes.images).astype(np.float32), kind="images")


def _square_images(dataset: str | None, root: str | Path | None, per_class: int) -> Dataset:
    if dataset is None:
        dataset = "mnist" if root is not None or place("mnist") != "to fetch" else "mnist-5k"
    images = load_labelled(dataset, root=root, per_class=per_class)
    if images.images.shape[1] != images.images.shape[2]:
        raise InputError(f"{images.name!r} has images that are not square, so quarter turns do not fit; resize them.")
    return images


def symmetry_table(cells: list[dict[str, Any]]) -> str:
    """Fraction of A mapped to its own class: a row for each kind of features, columns for settings and metrics."""
    metrics = [metric for metric in METRIC_TITLES if any(cell["metric"] == metric for cell in cells)]
    header = ["dataset, features", "source x target", "columns"]
    header += [f"{setting} {METRIC_TITLES[metric]}" for setting in SETTINGS for metric in metrics]
    rows = []
    for symmetry, experiment in EXPERIMENTS.items():
        for name in dict.fromkeys(cell["dataset"] for cell in cells if cell["config"]["symmetry"] == symmetry):
            for features, title in experiment.features.items():
                wanted = (symmetry, name, features)
                found = {
                    (cell["setting"], cell["metric"]): cell
                    for cell in cells
                    if (cell["config"]["symmetry"], cell["dataset"], cell["features"]) == wanted
                }
                if not found:
                    continue
                first = next(iter(found.values()))
                entries = [_entry(found.get((setting, metric))) for setting in SETTINGS for metric in metrics]
                label = f"{DATASET_TITLES.get(name, name)}, {experiment.title}: {title}"
                rows.append(
                    [label, f"{first['n_source']:,} x {first['n_target']:,}", f"{first['columns']:,}", *entries]
                )
    text = "Fraction of A mapped to its own class. Turned: A is transformed at random, B is not; baseline: neither is."
    text += "\n\n" + markdown_table(header, rows)
    if not all(cell["converged"] for cell in cells):
        text += "\n`*`: the transport missed its tolerance.\n"
    seeds = " and ".join(map(str, sorted({cell["config"]["seed"] for cell in cells})))
    return text + f"\nSettings: seed {seeds}, reg {REG:g}, tol {TOL:g}.\n"


def _entry(cell: dict[str, Any] | None) -> str:
    return "" if cell is None else f"{cell['accuracy']:.4f}{'' if cell['converged'] else '*'}"
