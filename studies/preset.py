"""The paper's experiment, from a dataset to the accuracy of a match: its choices, or better ones (``clean``)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np

import bispectral_ot as bot
from bispectral_ot.checks import check_choice
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.runs import provenance
from bispectral_ot.store import dataset_hash
from studies.baselines import STUDY_FEATURES
from studies.cells import Cell, Config

SETTINGS = ("rotated", "baseline")
FILLS = ("zero", "background")
# Parameters of features that a preset sets.
_PARAMETERS = ("n_angles", "n_rings", "radial_weight", "sampling", "radius")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Every choice of a class-preservation experiment other than dataset, features, metric and setting.

    Attributes
    ----------
    seed : Random seed of the halves and of the angles.
    per_class : Maximum number of images of each class in each half; all by default.
    pca : Number of principal components of the features; all features by default.
    reg : Entropic regularization, relative to the largest cost.
    tol : Tolerance on the marginal error.
    normalized : Whether pixels are standardized by the mean and deviation of the whole set.
    fill : Value of empty corners after the rotation of the source: "zero" (after normalizing, the mean grey) or
        "background" (the median of the border).
    sampling : Sampling of the polar grid: "nearest", as in the paper, or "bilinear".
    n_angles : Samples per ring; 40 by default, as in the paper.
    n_rings : Number of rings; min(height, width) / 2 by default, as in the paper.
    radial_weight : Power w of the weight r^w of ring r; 1 by default, as in the paper.
    radius : Radius of global bispectra and of the best rotation; 1 is the largest disk inside the image.
    """

    seed: int = 0
    per_class: int | None = None
    pca: int | None = None
    reg: float = 0.01
    tol: float = 1e-4
    normalized: bool = True
    fill: str = "zero"
    n_angles: int | None = None
    n_rings: int | None = None
    radial_weight: float | None = None
    sampling: str = "nearest"
    radius: float | None = None

    def __post_init__(self) -> None:
        check_choice("fill", self.fill, FILLS)
        bot.Sinkhorn(reg=self.reg, tol=self.tol)  # invalid values are an error before any work

    def cleaned(self) -> Self:
        """Better choices than the paper's: background in the corners, bilinear sampling of the rings."""
        return replace(self, fill="background", sampling="bilinear")

    def transformer(self, features: Any) -> Any:
        """Transformer of the features, with the parameters of this preset that it has."""
        transformer: Any = STUDY_FEATURES[check_choice("features", features, STUDY_FEATURES)]()
        known = transformer.get_params()
        asked = {key: getattr(self, key) for key in _PARAMETERS if key in known}
        return transformer.set_params(**{key: value for key, value in asked.items() if value is not None})

    def halves(self, dataset: Dataset, setting: str) -> tuple[Dataset, Dataset]:
        """Normalize with the mean and deviation of the whole set, split it, and rotate the source if requested.

        The order of rotating and normalizing does not matter if corners get the background: both are linear.
        """
        whole = bot.normalize(dataset) if self.normalized else dataset
        a, b = bot.split_halves(whole, seed=self.seed, per_class=self.per_class)
        if setting == "rotated":
            a = bot.rotate_randomly(a, seed=self.seed, fill="background" if self.fill == "background" else 0.0)
        return a, b

    def config(self, dataset: Dataset, features: str, setting: str, metric: str, solver: str = "entropic") -> Config:
        """All inputs of a cell."""
        return {
            "dataset": dataset.name,
            "checksum": checksum(dataset),
            "features": features if self.pca is None else f"{features}, PCA {self.pca}",
            "parameters": self.transformer(features).get_params(),
            "setting": setting,
            "seed": self.seed,
            "per_class": self.per_class,
            "reg": self.reg,
            "tol": self.tol,
            "normalized": self.normalized,
            "fill": self.fill,
            "metric": metric,
            "solver": solver,
        }

    def measure(self, dataset: Dataset, features: str, config: Config) -> Cell:
        """Cell of a config."""
        sides = self.halves(dataset, config["setting"])
        return measure(*sides, self.transformer(features), config, pca=self.pca)


def measure(source: Dataset, target: Dataset, transformer: Any, config: Config, *, pca: int | None = None) -> Cell:
    """Match of two halves of a set by balanced transport without labels, and the fraction that keeps its class.

    ``accuracy`` gives each source the class with most of its mass, the paper's rule; ``best_match_accuracy`` the class
    of its best match.
    """
    exact = config.get("solver") == "exact"
    match = bot.match(
        *(replace(side, labels=None, classes=()) for side in (source, target)),
        features=transformer,
        metric=config["metric"],
        pca=pca,
        normalize=False,  # the sides come as the study wants them
        frame="canvas",
        marginals="balanced",
        solver=bot.ExactTransport() if exact else bot.Sinkhorn(reg=config["reg"], tol=config["tol"]),
    )
    assert source.labels is not None
    assert target.labels is not None
    kept = bot.class_preservation(match, source.labels, target.labels)
    best = target.labels[match.top_matches(k=1).indices[:, 0]]
    settings = match.settings
    return {
        **{name: config[name] for name in ("dataset", "features", "metric", "setting")},
        "n_source": len(source),
        "n_target": len(target),
        "columns": settings["columns"],
        "kept_variance": settings.get("kept_variance"),
        "accuracy": kept.accuracy,
        "best_match_accuracy": float((best == source.labels).mean()),
        "classes": [source.classes[label] for label in kept.classes],
        "recall": kept.recall,
        "confusion": kept.confusion,
        "converged": match.converged,
        "marginal_error": match.marginal_error,
        "iterations": match.coupling.iterations,
        "transport_cost": match.distance,
        "targets_per_source": float(np.exp(match.coupling.entropy) / len(source)),
        "storage": settings["storage"],
        "storage_error": settings["storage_error"],
        "seconds": match.seconds,
        "peak_memory": max(match.memory.values()),
        "versions": provenance(),
    }


def load_labelled(name: str, *, root: str | Path | None = None, per_class: int | None = None) -> Dataset:
    """Load a dataset with labels; warn if a class has too few images for ``per_class`` in each half."""
    dataset = bot.load(name, root=root)
    if dataset.labels is None:
        raise InputError(f"{dataset.name!r} has no labels, and class preservation is measured with them.")
    least = int(dataset.class_counts.min())
    if per_class is not None and least // 2 < per_class:
        name = dataset.classes[int(dataset.class_counts.argmin())]
        warn(
            f"{per_class} images of each class in each half are requested, but {dataset.name!r} has {least} of class "
            f"{name!r}, {least // 2} for each half: of such classes all are taken.",
            DataWarning,
        )
    return dataset


def checksum(dataset: Dataset) -> str:
    """Hash of the images and labels: a changed set of the same name is noticed."""
    return dataset_hash(dataset)


@cache
def file_checksum(path: str | Path) -> str:
    """Checksum of the names, sizes and contents of the files below a folder, or of one file or named set."""
    folder = Path(path)
    if not folder.exists():
        return checksum(bot.load(str(path)))
    mark = 0
    for file in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
        if file.is_file():
            mark = zlib.crc32(file.read_bytes(), zlib.crc32(str(file.relative_to(folder)).encode(), mark))
    return f"{mark:08x}"


def check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise an :class:`InputError` for an empty list, a repeated name or one that is not known."""
    if not names:
        raise InputError(f"no {what} given; choose from {', '.join(known)}.")
    for name in names:
        check_choice(what, name, known)
    if len(set(names)) < len(names):
        raise InputError(f"{what} are named twice in {', '.join(names)}; name each once.")
