"""The paper's choices, or what one would do today (``clean``), from a dataset to features."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from bispectral_ot.datasets import Dataset, normalise, rotate_randomly, split_halves
from bispectral_ot.errors import InputError
from bispectral_ot.invariants import make_features

SETTINGS = ("rotated", "baseline")
# what decides about features of rings and is told in every result
_PARAMETERS = ("n_angles", "n_rings", "radial_weight", "sampling")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Every choice of a class-preservation experiment beside dataset, features, metric and setting.

    Attributes
    ----------
    seed : of the halves and of the angles
    per_class : images of each class in each half at most; None for all
    reg, tol : of the transport, relative to the largest cost
    n_angles, n_rings : of the polar grid; None for the features' own defaults (the paper's K = 40, R = 14)
    clean : empty corners get the background and rings are sampled bilinearly, instead of the paper's choices
    """

    seed: int = 0
    per_class: int | None = None
    reg: float = 0.01
    tol: float = 1e-4
    n_angles: int | None = None
    n_rings: int | None = None
    clean: bool = False

    def transformer(self, features: Any) -> Any:
        """The features' transformer with the parameters of this preset that it knows."""
        transformer = make_features(features)
        wanted = {"n_angles": self.n_angles, "n_rings": self.n_rings}
        if self.clean:
            wanted["sampling"] = "bilinear"  # type: ignore[assignment]
        known = transformer.get_params()
        return transformer.set_params(**{k: v for k, v in wanted.items() if v is not None and k in known})

    def halves(self, dataset: Dataset, setting: str) -> tuple[Dataset, Dataset]:
        """Normalise with the mean and deviation of the whole set, cut into A and B, turn A where asked for.

        The paper fills the empty corners with 0, which after normalising is the mean grey; ``clean`` fills
        them with the background. Normalising before or after turning is then the same: both are linear.
        """
        a, b = split_halves(normalise(dataset), seed=self.seed, per_class=self.per_class)
        if setting == "rotated":
            a = rotate_randomly(a, seed=self.seed, fill="background" if self.clean else 0.0)
        return a, b

    def cell_config(self, dataset: Dataset, features: str, metric: str, setting: str) -> dict[str, Any]:
        """Everything that decides the result of one cell: two cells of equal config have equal results."""
        parameters = self.transformer(features).get_params()
        return {
            "dataset": dataset.name,
            "checksum": checksum(dataset),
            "features": features,
            "parameters": {key: parameters[key] for key in _PARAMETERS if key in parameters},
            "metric": metric,
            "setting": setting,
            "seed": self.seed,
            "per_class": self.per_class,
            "reg": self.reg,
            "tol": self.tol,
            "clean": self.clean,
        }


def checksum(dataset: Dataset) -> str:
    """A short mark of the images and labels, so that another set of the same name is noticed."""
    mark = zlib.crc32(np.ascontiguousarray(dataset.images).data)
    if dataset.labels is not None:
        mark = zlib.crc32(np.ascontiguousarray(dataset.labels).data, mark)
    return f"{mark:08x}"


def check_names(what: str, names: list[str], known: tuple[str, ...]) -> None:
    """Raise an :class:`InputError` for an empty list, a repeated name or one that is not known."""
    if not names:
        raise InputError(f"no {what} given; choose from {', '.join(known)}.")
    for name in names:
        if name not in known:
            raise InputError(f"unknown {what} {name!r}; choose from {', '.join(known)}.")
    if len(set(names)) < len(names):
        raise InputError(f"{what} are named twice in {', '.join(names)}; name each once.")
