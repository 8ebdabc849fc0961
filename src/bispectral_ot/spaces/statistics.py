"""What is known of the pixels of a dataset, measured once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets import Dataset
from bispectral_ot.engines import Block, Engine, Threads, row_blocks
from bispectral_ot.errors import DataWarning, warn

# Images that are looked at together.
_BLOCK_ROWS = 2048


class PixelStatistics(NamedTuple):
    """Number, mean and standard deviation of all pixels, and how many images have only one value."""

    pixels: int
    mean: float
    std: float
    constant_images: int


def measure_pixels(dataset: Dataset, engine: Engine | None = None) -> PixelStatistics:
    """Measure a dataset, on this machine by default; warns of constant images. Shapes in 3-D have no pixels."""
    if not dataset.is_flat:
        return PixelStatistics(0, 0.0, 1.0, 0)
    blocks = row_blocks(len(dataset), block_rows=_BLOCK_ROWS)
    found = np.array(list((engine or Threads()).map(_measure, blocks, rows=(dataset.images,))))
    means, squares = found[:, 0], found[:, 1]
    shares = np.array([block.stop - block.start for block in blocks]) / len(dataset)
    mean = float(shares @ means)
    std = float(np.sqrt(shares @ (squares + (means - mean) ** 2)))
    constant = int(found[:, 2].sum())
    if constant:
        warn(
            f"{constant} of the {len(dataset)} images of {dataset.name!r} are constant (blank): they have "
            "no shape to match by.",
            DataWarning,
        )
    return PixelStatistics(math.prod(dataset.images.shape), mean, std, constant)


def _measure(block: Block, images: NDArray[Any]) -> tuple[float, float, int]:
    """Mean and variance of the pixels of some images, and how many of these are constant."""
    pixels = np.asarray(images).reshape(block.stop - block.start, -1)
    mean = float(pixels.mean(dtype=np.float64))
    variance = float(np.square(pixels - np.float64(mean)).mean())
    return mean, variance, int((pixels.max(axis=1) == pixels.min(axis=1)).sum())


def common_scale(statistics: Sequence[PixelStatistics]) -> tuple[float, float]:
    """Mean and standard deviation of the pixels of all sets together; the latter is 1 where all pixels are equal."""
    counts, means, deviations, _ = (np.array(column) for column in zip(*statistics, strict=True))
    shares = counts / counts.sum()
    mean = float(shares @ means)
    variance = float(shares @ (deviations**2 + (means - mean) ** 2))
    return mean, float(np.sqrt(variance)) or 1.0
