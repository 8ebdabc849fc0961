"""A few images of every class, each turned by all multiples of an angle, and distances between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Metric
from bispectral_ot.datasets import Dataset, normalize, rotate
from bispectral_ot.datasets.transforms import background_level
from bispectral_ot.errors import InputError
from bispectral_ot.features import FittedFeatures, choose_features
from studies.preset import Preset


@dataclass(frozen=True)
class TurnedImages:
    """Turned copies of some images of every class.

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
    """Draw ``per_class`` images of every class at random and turn each by all multiples of ``step`` degrees.

    ``preset`` gives the seed, and what the empty corners are filled with.
    """
    if dataset.labels is None:
        raise InputError(f"{dataset.name!r} has no labels, and this study draws images of every class.")
    angles = 360.0 / step if step > 0 else 0.0
    if angles < 1 or abs(angles - round(angles)) > 1e-9:
        raise InputError(f"the step between angles must divide 360 degrees, got {step:g}.")
    counts = dataset.class_counts
    if per_class < 1 or counts.min() < per_class:
        smallest = f"{counts.min()} of class {dataset.classes[int(counts.argmin())]!r}"
        raise InputError(f"{per_class} images of every class are asked for; {dataset.name!r} has {smallest}.")
    random = np.random.default_rng(preset.seed)
    chosen = [random.permutation(np.flatnonzero(dataset.labels == c))[:per_class] for c in range(len(counts))]
    images = normalize(dataset).images
    degrees = step * np.arange(round(angles), dtype=np.float64)
    upright = images[np.concatenate(chosen)]
    corner = background_level(images) if preset.fill == "background" else 0.0
    turned = rotate(
        np.repeat(upright, len(degrees), axis=0),
        np.tile(degrees, len(upright)),
        fill=corner,
    ).images
    shape = (len(counts), per_class, len(degrees), *upright.shape[1:])
    return TurnedImages(turned.reshape(shape), dataset.classes, degrees)


def pairwise_distances(
    batch: NDArray[Any], features: str, metrics: list[Metric], preset: Preset
) -> dict[str, NDArray[np.float64]]:
    """Distances (n, n) between the features of all images of a batch, for each metric; 0 on the diagonal."""
    choice = choose_features(preset.transformer(features), metric=metrics[0])
    with FittedFeatures([Dataset(batch)], choice, normalize=False) as space:
        return {metric: space.distances_within(0, metric=metric) for metric in metrics}
