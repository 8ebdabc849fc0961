"""Elements of a dataset as pictures: images scaled to what can be shown, shapes in 3-D seen from aside."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.clouds import cloud_points, volume_points
from bispectral_ot.datasets.dataset import Dataset

_SIDE = 48  # pixels of a drawn shape
_SAMPLE = 256  # images that the range of pixels is taken from


class Pictures:
    """The elements of a dataset, by position, as pixels from 0 (the smallest of a sample of the set) to 1."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.has_pixels = dataset.is_flat or dataset.kind == "vectors"
        if self.has_pixels:  # by a sample: no pass over all pixels
            some = np.asarray(dataset.images[:: -(-len(dataset) // _SAMPLE)])
            self.limits = float(some.min()), float(some.max())

    def __getitem__(self, index: int) -> NDArray[np.float64]:
        image = self.dataset.images[index]
        if self.has_pixels:
            return as_shown(image, self.limits)
        if self.dataset.kind == "clouds":
            return draw_points(cloud_points(image))
        return draw_points(*volume_points(image))


def as_shown(image: NDArray[Any], limits: tuple[float, float]) -> NDArray[np.float64]:
    """Pixels brought from ``limits`` to 0 ... 1, grey or RGB; the mean of the channels where they are neither."""
    lowest, highest = limits
    shown: NDArray[np.float64] = (image.astype(np.float64) - lowest) / (highest - lowest or 1.0)
    if shown.ndim == 3 and shown.shape[2] != 3:
        shown = shown.mean(axis=2)
    return shown.clip(0.0, 1.0)


def draw_points(
    points: NDArray[Any], weights: NDArray[Any] | None = None, *, side: int = _SIDE, finer: int = 2
) -> NDArray[np.float64]:
    """Draw points (n, 3) as small dots, scaled to fit and seen obliquely from above: (side, side)."""
    centred = points.astype(np.float64) - np.average(points, axis=0, weights=weights)
    reach = np.linalg.norm(centred, axis=1).max() or 1.0
    turn, tilt = np.radians((35.0, 25.0))
    x, y, z = centred.T / reach
    right, behind = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    down = -(z * np.cos(tilt) + behind * np.sin(tilt))
    depth = behind * np.cos(tilt) - z * np.sin(tilt)
    shade = 1 - 0.75 * (depth - depth.min()) / (np.ptp(depth) or 1.0)
    large = finer * side
    columns, rows = (np.clip((axis + 1) / 2 * large, 0, large - 1).astype(np.int64) for axis in (right, down))
    canvas = np.zeros((large + 2, large + 2))
    for row in range(3):  # a dot is 3 x 3 pixels of the larger picture
        for column in range(3):
            np.maximum.at(canvas, (rows + row, columns + column), shade)
    brightness: NDArray[np.float64] = canvas[1:-1, 1:-1].reshape(side, finer, side, finer).mean(axis=(1, 3))
    return brightness
