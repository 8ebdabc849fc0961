"""The paper's choices, or what one would do today (``clean``), from a dataset to features."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from bispectral_ot.checks import check_choice
from bispectral_ot.datasets import Dataset, load, normalize, rotate_randomly, split_halves
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features.polar_spectrum import SteerableTransformer
from bispectral_ot.transport import Sinkhorn
from studies.baselines import STUDY_FEATURES
from studies.experiment import CellGroup

SETTINGS = ("rotated", "baseline")
FILLS = ("zero", "background")
# what decides about features of single rings and is reported in every result
_PARAMETERS = ("n_angles", "n_rings", "radial_weight", "sampling", "radius")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Every choice of a class-preservation experiment other than dataset, features, metric and setting.

    Attributes
    ----------
    seed : of the halves and of the angles
    per_class : images of each class in each half at most; None for all
    pca : principal components of both halves that features are reduced to; None for all of the features
    reg, tol : of the transport, relative to the largest cost
    normalized : whether images are brought to mean 0 and deviation 1 of the whole set
    fill : what empty corners get when the source is turned: ``"zero"`` (after normalizing, the mean grey) or
        ``"background"`` (the median of the border)
    sampling : of the polar grid; the nearest pixel, as in the paper
    n_angles, n_rings, radial_weight : of the polar grid; None for the features' own defaults, which are the paper's:
        K = 40, R = min(height, width) / 2, ring r times r
    radius : that coupled and aligned features see; None for their own default
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
        Sinkhorn(reg=self.reg, tol=self.tol)  # refuses what it cannot solve, before any work is done

    def cleaned(self) -> Self:
        """What one would do today: corners get the background, rings are sampled bilinearly."""
        return replace(self, fill="background", sampling="bilinear")

    def transformer(self, features: Any) -> Any:
        """The features' transformer with the parameters of this preset that it knows."""
        transformer: Any = STUDY_FEATURES[check_choice("features", features, STUDY_FEATURES)]()
        known = transformer.get_params()
        asked = {key: getattr(self, key) for key in _PARAMETERS if key in known}
        return transformer.set_params(**{key: value for key, value in asked.items() if value is not None})

    def halves(self, dataset: Dataset, setting: str) -> tuple[Dataset, Dataset]:
        """Normalize with the mean and deviation of the whole set, cut it in two, and turn the source where asked for.

        Turning before or after normalizing is the same where corners get the background: both are linear.
        """
        whole = normalize(dataset) if self.normalized else dataset
        a, b = split_halves(whole, seed=self.seed, per_class=self.per_class)
        if setting == "rotated":
            a = rotate_randomly(a, seed=self.seed, fill="background" if self.fill == "background" else 0.0)
        return a, b

    def group(self, dataset: Dataset, features: str, setting: str, configs: list[dict[str, Any]]) -> CellGroup:
        """The cells of ``configs``, which differ in metric or solver only, with how to compute them."""
        return CellGroup(configs, partial(self.halves, dataset, setting), self.transformer(features), self.pca)

    def cell_configs(self, dataset: Dataset, features: str, setting: str, metrics: list[str]) -> list[dict[str, Any]]:
        """For each metric, everything that decides the result: cells of equal config have equal results."""
        transformer = self.transformer(features)
        parameters = transformer.get_params()
        reported = parameters if isinstance(transformer, SteerableTransformer) else _PARAMETERS
        common = {
            "dataset": dataset.name,
            "checksum": checksum(dataset),
            "features": features if self.pca is None else f"{features}, PCA {self.pca}",
            "parameters": {key: parameters[key] for key in reported if key in parameters},
            "setting": setting,
            "seed": self.seed,
            "per_class": self.per_class,
            "reg": self.reg,
            "tol": self.tol,
            "normalized": self.normalized,
            "fill": self.fill,
        }
        return [{**common, "metric": metric} for metric in metrics]


def load_labelled(name: str, *, root: str | Path | None = None, per_class: int | None = None) -> Dataset:
    """Load a dataset whose classes can be followed; warn where a class has too few for ``per_class`` in each half."""
    dataset = load(name, root=root)
    if dataset.labels is None:
        raise InputError(f"{dataset.name!r} has no labels, and class preservation is measured with them.")
    least = int(dataset.class_counts.min())
    if per_class is not None and least // 2 < per_class:
        name = dataset.classes[int(dataset.class_counts.argmin())]
        warnings.warn(
            f"{per_class} images of each class in each half are asked for, but {dataset.name!r} has {least} of class "
            f"{name!r}, {least // 2} for each half: of such classes all are taken.",
            DataWarning,
            stacklevel=2,
        )
    return dataset


def checksum(dataset: Dataset) -> str:
    """Checksum of the images and labels: a changed set of the same name is noticed."""
    mark = zlib.crc32(np.ascontiguousarray(dataset.images).data)
    if dataset.labels is not None:
        mark = zlib.crc32(np.ascontiguousarray(dataset.labels).data, mark)
    return f"{mark:08x}"


@cache
def file_checksum(path: str | Path) -> str:
    """Checksum of the names, sizes and contents of the files below a folder, or of one file or named set."""
    folder = Path(path)
    if not folder.exists():
        return checksum(load(str(path)))
    mark = 0
    for file in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
        if file.is_file():
            mark = zlib.crc32(file.read_bytes(), zlib.crc32(str(file.relative_to(folder)).encode(), mark))
    return f"{mark:08x}"


def check_names(what: str, names: list[str], known: tuple[str, ...]) -> None:
    """Raise an :class:`InputError` for an empty list, a repeated name or one that is not known."""
    if not names:
        raise InputError(f"no {what} given; choose from {', '.join(known)}.")
    for name in names:
        check_choice(what, name, known)
    if len(set(names)) < len(names):
        raise InputError(f"{what} are named twice in {', '.join(names)}; name each once.")
