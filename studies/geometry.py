"""The paper's pictures of geometry: turned images on a plane, by pixels and by invariants."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.costs import METRICS
from bispectral_ot.datasets import load
from bispectral_ot.drawing import save
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_json
from bispectral_ot.report.figures import scale_to_plane
from bispectral_ot.runs import new_run, run_record
from studies.baselines import STUDY_FEATURES
from studies.figures import Panel, embedding_figure
from studies.paper import FEATURE_TITLES, METRIC_TITLES
from studies.preset import Preset, check_names
from studies.turned import TurnedImages, pairwise_distances, turned_images

PAPER_SEED = 8


def run_geometry(
    out: str | Path,
    *,
    dataset: str = "mnist",
    per_class: tuple[int, ...] = (1, 10),
    step: float = 9.0,
    features: list[str] | None = None,
    metric: Any = "l2",
    preset: Preset | None = None,
    root: str | Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Lay turned images out on a plane by multidimensional scaling and draw them where they fall.

    Writes ``results.json`` (positions, stress, and how far apart the turned copies of one image are) and
    ``figures/geometry-<n>.png`` for each number of images per class.

    Parameters
    ----------
    per_class
        Images of each class, a picture for each number.
    step
        Degrees between two turns of an image.
    features, metric
        What distances are taken between, side by side, and how.
    preset
        Seed (the paper's is 8), fill and polar grid.
    """
    start = time.perf_counter()
    features = features or ["pixels", "ring-bispectrum"]
    preset = preset or Preset(seed=PAPER_SEED)
    check_names("metric", [metric], METRICS)
    if not per_class:
        raise InputError("no number of images per class given; the paper's are 1 and 10.")
    check_names("features", features, tuple(STUDY_FEATURES))
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
                title = f"{FEATURE_TITLES.get(name, name)}, {METRIC_TITLES[metric]}"
                panels.append(Panel(title, picture["positions"]))
            labels = np.repeat(np.arange(len(chosen.classes)), len(chosen.batch) // len(chosen.classes))
            figure = embedding_figure(panels, chosen.batch, labels, chosen.classes)
            save(figure, folder / "figures" / f"geometry-{count}.png")
        runtime.progress("embeddings", total, total)
        config = {"dataset": source.name, "step": step, "metric": metric, "seed": preset.seed}
        config |= {"fill": preset.fill, "per_class": list(per_class), "features": features}
        results = {"pictures": pictures, "config": config}
        write_json(folder / "results.json", results)
        record = run_record({"verb": "study geometry", **config}, seconds=time.perf_counter() - start)
        write_json(folder / "run.json", record)
    return results


def embed(turned: TurnedImages, features: str, metric: Any, preset: Preset) -> dict[str, Any]:
    """Positions on the plane (n, 2) and two figures: Kruskal's stress and the spread of turned copies.

    ``orbit_spread`` is the mean distance between two turned copies of one image divided by the mean distance
    between images of different classes: 0 for a perfect invariant, near 1 where turning is as bad as being
    another thing.
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
