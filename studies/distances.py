"""The paper's statistics of distances: between classes, and between the angles of one class."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.costs import METRICS
from bispectral_ot.datasets import load
from bispectral_ot.drawing import save
from bispectral_ot.files import write_json
from bispectral_ot.runs import new_run, run_record
from studies.baselines import STUDY_FEATURES
from studies.figures import angle_distance_figure, class_distance_figure
from studies.geometry import PAPER_SEED
from studies.paper import FEATURE_TITLES, METRIC_TITLES
from studies.preset import Preset, check_names
from studies.turned import pairwise_distances, turned_images


def run_distances(
    out: str | Path,
    *,
    dataset: str = "mnist",
    per_class: int = 10,
    step: float = 15.0,
    features: list[str] | None = None,
    metrics: list[Any] | None = None,
    preset: Preset | None = None,
    root: str | Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Average the distances between turned images, by class and by angle.

    For each kind of features and each metric: ``figures/classes-<features>-<metric>.png``, a heat map of the
    mean distance between two classes, and ``figures/angles-<features>-<metric>.png``, for every class a heat
    map of the mean distance between two angles. ``results.json`` has the same numbers.

    Parameters
    ----------
    per_class, step
        Images of each class, each turned by all multiples of ``step`` degrees.
    """
    start = time.perf_counter()
    features = features or ["pixels", "ring-bispectrum"]
    metrics = metrics or list(METRICS)
    preset = preset or Preset(seed=PAPER_SEED)
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
                title = f"{FEATURE_TITLES.get(name, name)}, {METRIC_TITLES[metric]}"
                file = f"{name}-{metric}.png"
                save(
                    class_distance_figure(classes, turned.classes, title=title),
                    folder / "figures" / f"classes-{file}",
                )
                save(
                    angle_distance_figure(angles, turned.classes, turned.degrees, title=title),
                    folder / "figures" / f"angles-{file}",
                )
                maps.append(
                    {
                        "features": name,
                        "metric": metric,
                        "classes": classes.astype(np.float32),  # as exact as the distances themselves
                        "angles": angles.astype(np.float32),
                    }
                )
        runtime.progress("heat maps", 1, 1)
        config = {"dataset": source.name, "per_class": per_class, "step": step, "seed": preset.seed}
        config |= {"fill": preset.fill, "features": features, "metrics": metrics}
        results = {"maps": maps, "class_names": turned.classes, "degrees": turned.degrees, "config": config}
        write_json(folder / "results.json", results)
        record = run_record({"verb": "study distances", **config}, seconds=time.perf_counter() - start)
        write_json(folder / "run.json", record)
    return results


def class_means(distances: NDArray[np.float64], shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """Mean distance (classes, classes) over all pairs of turned images of two classes."""
    n_classes = shape[0]
    size = len(distances) // n_classes
    means: NDArray[np.float64] = distances.reshape(n_classes, size, n_classes, size).mean(axis=(1, 3))
    return means


def angle_means(distances: NDArray[np.float64], shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """For every class the mean distance (classes, angles, angles) over all pairs of its images at two angles.

    Pairs of an image with itself count at every pair of angles, equal ones too: an exact invariant gives a flat map.
    """
    n_classes, n_images, n_angles = shape
    blocks = distances.reshape(n_classes, n_images, n_angles, n_classes, n_images, n_angles)
    return np.stack([blocks[c, :, :, c].mean(axis=(0, 2)) for c in range(n_classes)])
