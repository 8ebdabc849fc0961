"""Distances between rotated images, as in the paper: maps in the plane, means between classes and angles."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.costs import METRICS, Metric
from bispectral_ot.datasets import Dataset, load, normalize, rotate
from bispectral_ot.datasets.warp import as_planes, border_pixels
from bispectral_ot.drawing import save
from bispectral_ot.errors import InputError
from bispectral_ot.features import FittedFeatures, choose_features
from bispectral_ot.files import write_json
from bispectral_ot.report.page_data import scale_to_plane
from bispectral_ot.runs import new_run, run_record
from studies.baselines import STUDY_FEATURES
from studies.figures import Panel, angle_distance_figure, class_distance_figure, embedding_figure
from studies.paper import FEATURE_TITLES, METRIC_TITLES
from studies.preset import Preset, check_names

PAPER_SEED = 8
_FEATURES = ("pixels", "ring-bispectrum")


def run_geometry(
    out: str | Path,
    dataset: str = "mnist",
    *,
    per_class: Sequence[int] = (1, 10),
    step: float = 9.0,
    features: Sequence[str] = _FEATURES,
    metric: str = "l2",
    seed: int = PAPER_SEED,
    fill: str = "zero",
    root: str | Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Maps of rotated images in the plane, by pixels and by bispectra.

    Writes ``results.json`` (positions, stress, and the spread of the rotated copies of an image) and
    ``figures/geometry-<n>.png`` for each number of images per class.

    Parameters
    ----------
    dataset
        Name or path of a set with labels.
    per_class
        Numbers of images per class; a picture for each.
    step
        Degrees between two rotations of an image.
    features
        Feature extractors, by name; one map for each.
    metric
        Distance between features.
    seed
        Random seed of the images; the paper's is 8.
    fill
        Value of empty corners: "zero" or "background".
    root
        Folder of the official IDX files; nothing is downloaded.
    overwrite
        Replace an earlier run in the output folder.
    """
    start, preset = time.perf_counter(), Preset(seed=seed, fill=fill)
    check_names("metric", [metric], METRICS)
    check_names("features", features, tuple(STUDY_FEATURES))
    if not per_class:
        raise InputError("no number of images per class given; the paper's are 1 and 10.")
    with new_run(out, verb="study geometry", inputs=(dataset, root), overwrite=overwrite) as folder:
        source = load(dataset, root=root)
        turned = turned_images(source, per_class=max(per_class), step=step, preset=preset)
        pictures: list[dict[str, Any]] = []
        total = len(per_class) * len(features)
        for count in per_class:
            chosen, panels = turned.first(count), []
            for name in features:
                runtime.progress("embeddings", len(pictures), total)
                picture = embed(chosen, name, metric, preset)
                pictures.append({"per_class": count, **picture})
                panels.append(Panel(_title(name, metric), picture["positions"]))
            labels = np.repeat(np.arange(len(chosen.classes)), len(chosen.batch) // len(chosen.classes))
            figure = embedding_figure(panels, chosen.batch, labels, chosen.classes)
            save(figure, folder / "figures" / f"geometry-{count}.png")
        runtime.progress("embeddings", total, total)
        config = {"dataset": source.name, "step": step, "metric": metric, "seed": seed, "fill": fill}
        config |= {"per_class": list(per_class), "features": list(features)}
        results = {"pictures": pictures, "config": config}
        write_json(folder / "results.json", results)
        record = run_record({"verb": "study geometry", **config}, seconds=time.perf_counter() - start)
        write_json(folder / "run.json", record)
    return results


def run_distances(
    out: str | Path,
    dataset: str = "mnist",
    *,
    per_class: int = 10,
    step: float = 15.0,
    features: Sequence[str] = _FEATURES,
    metrics: Sequence[Metric] = METRICS,
    seed: int = PAPER_SEED,
    fill: str = "zero",
    root: str | Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Heat maps of the mean distance between classes, and between the angles of each class.

    Writes ``results.json`` and, for each kind of features and metric, ``figures/classes-*.png`` and
    ``figures/angles-*.png``.

    Parameters
    ----------
    dataset
        Name or path of a set with labels.
    per_class
        Number of images per class.
    step
        Degrees between two rotations of an image; it must divide 360.
    features
        Feature extractors, by name.
    metrics
        Distances between features, by name.
    seed
        Random seed of the images; the paper's is 8.
    fill
        Value of empty corners: "zero" or "background".
    root
        Folder of the official IDX files; nothing is downloaded.
    overwrite
        Replace an earlier run in the output folder.
    """
    start, preset = time.perf_counter(), Preset(seed=seed, fill=fill)
    check_names("metrics", metrics, METRICS)
    check_names("features", features, tuple(STUDY_FEATURES))
    with new_run(out, verb="study distances", inputs=(dataset, root), overwrite=overwrite) as folder:
        source = load(dataset, root=root)
        turned = turned_images(source, per_class=per_class, step=step, preset=preset)
        maps = []
        for done, name in enumerate(features):
            runtime.progress("heat maps", done * len(metrics), len(features) * len(metrics))
            for metric, matrix in pairwise_distances(turned.batch, name, metrics, preset).items():
                classes, angles = class_means(matrix, turned.shape), angle_means(matrix, turned.shape)
                title, file = _title(name, metric), f"{name}-{metric}.png"
                drawn = class_distance_figure(classes, turned.classes, title=title)
                save(drawn, folder / "figures" / f"classes-{file}")
                drawn = angle_distance_figure(angles, turned.classes, turned.degrees, title=title)
                save(drawn, folder / "figures" / f"angles-{file}")
                # as exact as the distances themselves
                exact = {"classes": classes.astype(np.float32), "angles": angles.astype(np.float32)}
                maps.append({"features": name, "metric": metric, **exact})
        runtime.progress("heat maps", 1, 1)
        config = {"dataset": source.name, "per_class": per_class, "step": step, "seed": seed, "fill": fill}
        config |= {"features": list(features), "metrics": list(metrics)}
        results = {"maps": maps, "class_names": turned.classes, "degrees": turned.degrees, "config": config}
        write_json(folder / "results.json", results)
        record = run_record({"verb": "study distances", **config}, seconds=time.perf_counter() - start)
        write_json(folder / "run.json", record)
    return results


def _title(features: str, metric: str) -> str:
    return f"{FEATURE_TITLES.get(features, features)}, {METRIC_TITLES[metric]}"


@dataclass(frozen=True)
class TurnedImages:
    """Rotated copies of some images of every class.

    Attributes
    ----------
    images : (classes, images, angles, height, width[, channels]) float32, normalized
    classes : names of the classes
    degrees : (angles,)
    """

    images: NDArray[np.float32]
    classes: tuple[str, ...]
    degrees: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(classes, images, angles)."""
        return self.images.shape[0], self.images.shape[1], self.images.shape[2]

    @property
    def batch(self) -> NDArray[np.float32]:
        """All of them in one batch (n, height, width[, channels]); classes, images, angles in C order."""
        return self.images.reshape(-1, *self.images.shape[3:])

    def first(self, per_class: int) -> TurnedImages:
        """Only the first images of every class."""
        return TurnedImages(self.images[:, :per_class], self.classes, self.degrees)


def turned_images(dataset: Dataset, *, per_class: int, step: float, preset: Preset) -> TurnedImages:
    """Draw ``per_class`` images of every class at random and rotate each by all multiples of ``step`` degrees."""
    if dataset.labels is None:
        raise InputError(f"{dataset.name!r} has no labels, and this study draws images of every class.")
    angles = 360.0 / step if step > 0 else 0.0
    if angles < 1 or abs(angles - round(angles)) > 1e-9:
        raise InputError(f"the step between angles must divide 360 degrees, got {step:g}.")
    counts = dataset.class_counts
    if per_class < 1 or counts.min() < per_class:
        smallest = f"{counts.min()} of class {dataset.classes[int(counts.argmin())]!r}"
        raise InputError(f"{per_class} images of every class are needed; {dataset.name!r} has {smallest}.")
    random = np.random.default_rng(preset.seed)
    chosen = [random.permutation(np.flatnonzero(dataset.labels == c))[:per_class] for c in range(len(counts))]
    images = normalize(dataset).images
    degrees = step * np.arange(round(angles), dtype=np.float64)
    upright = images[np.concatenate(chosen)]
    corner = np.median(border_pixels(as_planes(images)), axis=(0, 1)) if preset.fill == "background" else 0.0
    copies = np.repeat(upright, len(degrees), axis=0)
    turned = rotate(copies, np.tile(degrees, len(upright)), fill=corner).images
    shape = (len(counts), per_class, len(degrees), *upright.shape[1:])
    return TurnedImages(turned.reshape(shape), dataset.classes, degrees)


def pairwise_distances(
    batch: NDArray[Any], features: str, metrics: Sequence[Any], preset: Preset
) -> dict[str, NDArray[np.float64]]:
    """Distances (n, n) between the features of all images of a batch, for each metric; 0 on the diagonal."""
    choice = choose_features(preset.transformer(features), metric=metrics[0])
    space = FittedFeatures([Dataset(batch)], choice, normalize=False)
    return {metric: space.feature_map.distances_within(space.features[0], metric) for metric in metrics}


def embed(turned: TurnedImages, features: str, metric: str, preset: Preset) -> dict[str, Any]:
    """Positions in the plane (n, 2) and two figures: Kruskal's stress and the spread of rotated copies.

    ``orbit_spread`` is the mean distance between two rotated copies of one image divided by the mean distance
    between images of different classes: 0 for an exact invariant, near 1 if a rotation changes an image as much as
    another class.
    """
    start = time.perf_counter()
    distances = pairwise_distances(turned.batch, features, [metric], preset)[metric]
    positions, stress = scale_to_plane(distances)
    n_classes, n_images, n_angles = turned.shape
    orbit = np.repeat(np.arange(n_classes * n_images), n_angles)
    same_orbit = (orbit[:, None] == orbit) & ~np.eye(len(orbit), dtype=bool)
    other_class = (orbit[:, None] // n_images) != (orbit // n_images)
    return {
        "features": features,
        "points": len(distances),
        "stress": stress,
        "orbit_spread": float(distances[same_orbit].mean() / distances[other_class].mean()),
        "seconds": time.perf_counter() - start,
        "positions": positions,
    }


def class_means(distances: NDArray[np.float64], shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """Mean distance (classes, classes) over all pairs of rotated images of two classes."""
    n_classes = shape[0]
    size = len(distances) // n_classes
    means: NDArray[np.float64] = distances.reshape(n_classes, size, n_classes, size).mean(axis=(1, 3))
    return means


def angle_means(distances: NDArray[np.float64], shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """For every class the mean distance (classes, angles, angles) over all pairs of its images at two angles.

    Pairs of an image with itself count at all pairs of angles, also equal ones: an exact invariant gives a flat map.
    """
    n_classes, n_images, n_angles = shape
    blocks = distances.reshape(n_classes, n_images, n_angles, n_classes, n_images, n_angles)
    return np.stack([blocks[c, :, :, c].mean(axis=(0, 2)) for c in range(n_classes)])
