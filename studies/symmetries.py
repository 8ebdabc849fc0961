"""Class preservation under other symmetries than turning in the plane: D_4, SO(3) on the sphere and on 3-D shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot.costs import METRICS
from bispectral_ot.datasets import Dataset, normalize, split_halves
from bispectral_ot.datasets.named_sets import place
from bispectral_ot.errors import InputError
from bispectral_ot.features import choose_features
from bispectral_ot.files import write_json, write_text
from bispectral_ot.groups.shells import ShellBispectrum
from bispectral_ot.groups.sphere import project_to_sphere
from studies.cells import CellStore, Report
from studies.experiment import CellGroup
from studies.markdown import markdown_table
from studies.paper import DATASET_TITLES, METRIC_TITLES
from studies.preset import check_names, checksum, load_labelled
from studies.synthetic_shapes import synthetic_shapes

SETTINGS = ("turned", "baseline")
REG, TOL = 0.01, 1e-4


@dataclass(frozen=True)
class Experiment:
    """A symmetry, how it moves a set, and the features that are compared under it.

    Attributes
    ----------
    title : of the symmetry, for the table
    move : (dataset, seed or None) -> the signals that are matched; each is moved at random where a seed is given
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
    """Project images on the sphere; with a seed each is turned by a random rotation, uniform on SO(3)."""
    return replace(dataset, images=project_to_sphere(dataset.images, seed=seed), kind="sphere")


def turn_shapes(dataset: Dataset, seed: int | None) -> Dataset:
    """Turn each point cloud (n_points, 3) by a random rotation, uniform on SO(3)."""
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
    symmetries: list[str] | None = None,
    metrics: list[str] | None = None,
    per_class: int = 200,
    shapes_per_class: int = 60,
    seed: int = 0,
    root: str | Path | None = None,
    client: Any = None,
    overwrite: bool = False,
    report: Report = lambda cell: None,
) -> list[dict[str, Any]]:
    """Match a moved set A with an unmoved B (``turned``), and A as it was with B (``baseline``).

    Cells are saved as they end, with ``results.json`` and ``table.md``; a run that was stopped goes on where it was.
    ``run.json`` describes the latest call.

    Parameters
    ----------
    dataset
        Square images with labels, for the digits of "d4" and "so3"; by default ``mnist`` where it is at hand, else
        ``mnist-5k``.
    symmetries, metrics
        Names in :data:`EXPERIMENTS` and in :data:`~bispectral_ot.costs.METRICS`; all by default.
    per_class, shapes_per_class
        Images and synthetic shapes of each class in each half.
    seed
        Of the halves, of the shapes and of how they are moved.
    client
        A ``distributed.Client`` to work on a Dask cluster, as for :func:`~bispectral_ot.match`.

    Returns
    -------
    list of dict
        All cells of the run, as in ``results.json``.
    """
    symmetries = list(EXPERIMENTS) if symmetries is None else symmetries
    metrics = list(METRICS) if metrics is None else metrics
    check_names("symmetries", symmetries, tuple(EXPERIMENTS))
    check_names("metrics", metrics, METRICS)
    folder = Path(out)
    names = ("symmetry", *CellStore.names)
    store = CellStore(folder, "study symmetries", ("results.json", "table.md"), names)
    images = _square_images(dataset, root, per_class) if set(symmetries) - {"so3-shapes"} else None
    groups = []
    for symmetry in symmetries:
        size = shapes_per_class if symmetry == "so3-shapes" else per_class
        source = synthetic_shapes(2 * size, turned=False, seed=seed) if symmetry == "so3-shapes" else images
        assert source is not None
        common: dict[str, Any] = {
            "symmetry": symmetry,
            "dataset": source.name,
            "checksum": checksum(source),
            "seed": seed,
            "per_class": size,
            "reg": REG,
            "tol": TOL,
            "normalized": EXPERIMENTS[symmetry].normalized,
        }
        for setting in SETTINGS:
            for features in EXPERIMENTS[symmetry].features:
                transformer = _transformer(features)
                shared = {**common, "setting": setting, "features": features, "parameters": transformer.get_params()}
                configs = [{**shared, "metric": metric} for metric in metrics]
                groups.append(CellGroup(configs, partial(_sides, source, shared), transformer))
    work = store.run(
        groups,
        overwrite=overwrite,
        client=client,
        summarise=lambda: _write_summary(folder, store.all()),
        report=report,
    )
    options: dict[str, Any] = {"symmetries": symmetries, "dataset": images and images.name, "metrics": metrics}
    options |= {"per_class": per_class, "shapes_per_class": shapes_per_class, "seed": seed, "overwrite": overwrite}
    with store.recorded(options):
        for _ in work:
            pass
        cells = store.all()
        _write_summary(folder, cells)
    return cells


def _transformer(features: str) -> Any:
    """The transformer of a name; densities are raw signals, compared as they are."""
    return choose_features("pixels" if features == "shell-densities" else features).transformer


def _sides(source: Dataset, config: dict[str, Any]) -> tuple[Dataset, Dataset]:
    """The moved A and the unmoved B of a group of cells, as the features of the config take them."""
    experiment = EXPERIMENTS[config["symmetry"]]
    whole = normalize(source) if experiment.normalized else source
    a, b = split_halves(whole, seed=config["seed"], per_class=config["per_class"])
    a = experiment.move(a, config["seed"] if config["setting"] == "turned" else None)
    b = experiment.move(b, None)
    if config["features"] == "shell-densities":
        return _shell_densities(a), _shell_densities(b)
    return a, b


def _shell_densities(shapes: Dataset) -> Dataset:
    """What the shell bispectrum is made of, before anything invariant is made: raw, but no order of points is in it."""
    shells = ShellBispectrum().fit(shapes.images)
    return replace(shapes, images=shells.shell_coefficients(shapes.images).astype(np.float32), kind="images")


def _square_images(dataset: str | None, root: str | Path | None, per_class: int) -> Dataset:
    if dataset is None:
        dataset = "mnist" if root is not None or place("mnist") != "to fetch" else "mnist-5k"
    images = load_labelled(dataset, root=root, per_class=per_class)
    if images.images.shape[1] != images.images.shape[2]:
        raise InputError(f"{images.name!r} has images that are not square, so quarter turns do not fit; resize them.")
    return images


def _write_summary(folder: Path, cells: list[dict[str, Any]]) -> None:
    write_json(folder / "results.json", {"cells": cells})
    write_text(folder / "table.md", symmetry_table(cells))


def symmetry_table(cells: list[dict[str, Any]]) -> str:
    """Share of A mapped to its own class: a row for each kind of features, columns for settings and metrics."""
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
    text = "Share of A mapped to its own class. Turned: A is moved at random, B is not; baseline: neither is.\n\n"
    text += markdown_table(header, rows)
    if not all(cell["converged"] for cell in cells):
        text += "\n`*`: the transport missed its tolerance.\n"
    seeds = " and ".join(map(str, sorted({cell["config"]["seed"] for cell in cells})))
    return text + f"\nSettings: seed {seeds}, reg {REG:g}, tol {TOL:g}.\n"


def _entry(cell: dict[str, Any] | None) -> str:
    return "" if cell is None else f"{cell['accuracy']:.4f}{'' if cell['converged'] else '*'}"
