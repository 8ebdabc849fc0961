"""What is known of the pixels of a dataset, measured once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.transforms import mean_and_std
from bispectral_ot.errors import DataWarning, warn


class PixelStatistics(NamedTuple):
    """Number, mean and standard deviation of all pixels, and how many images have only one value."""

    pixels: int
    mean: float
    std: float
    constant_images: int


def measure_pixels(dataset: Dataset) -> PixelStatistics:
    """Measure a dataset; warns of images that are constant. Shapes in 3-D have no pixels."""
    if not dataset.is_flat:
        return PixelStatistics(0, 0.0, 1.0, 0)
    pixels = dataset.images.reshape(len(dataset), -1)
    constant = int((pixels.max(axis=1) == pixels.min(axis=1)).sum())
    if constant:
        warn(
            f"{constant} of the {len(dataset)} images of {dataset.name!r} are constant (blank): they have "
            "no shape to match by.",
            DataWarning,
        )
    return PixelStatistics(pixels.size, *mean_and_std(dataset.images), constant)


def common_scale(statistics: Sequence[PixelStatistics]) -> tuple[float, float]:
    """Mean and standard deviation of the pixels of all sets together; the latter is 1 where all pixels are equal."""
    counts, means, deviations, _ = (np.array(column) for column in zip(*statistics, strict=True))
    shares = counts / counts.sum()
    mean = float(shares @ means)
    variance = float(shares @ (deviations**2 + (means - mean) ** 2))
    return mean, float(np.sqrt(variance)) or 1.0
