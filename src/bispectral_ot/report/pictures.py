"""Elements of a dataset as pictures: images scaled to what can be shown, clouds of points seen from aside."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets import Dataset


class Pictures:
    """The elements of a dataset, by position, as pixels from 0 (the smallest of the set) to 1 (the largest).

    ``pictures[i]`` is (height, width) or, in colour, (height, width, 3); where there are other channels it is their
    mean.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.limits = float(dataset.images.min()), float(dataset.images.max())

    def __getitem__(self, index: int) -> NDArray[np.float64]:
        image = self.dataset.images[index]
        return _draw_cloud(image) if self.dataset.kind == "clouds" else as_shown(image, self.limits)


def as_shown(image: NDArray[Any], limits: tuple[float, float]) -> NDArray[np.float64]:
    """Pixels brought from ``limits`` to 0 ... 1, grey or RGB; the mean of the channels where they are neither."""
    lowest, highest = limits
    shown: NDArray[np.float64] = (image.astype(np.float64) - lowest) / (highest - lowest or 1.0)
    if shown.ndim == 3 and shown.shape[2] != 3:
        shown = shown.mean(axis=2)
    return shown.clip(0.0, 1.0)


def _draw_cloud(points: NDArray[Any], *, side: int = 32) -> NDArray[np.float64]:
    """Points (n, 3) scaled to fit and seen obliquely from above: (side, side), brighter where they are dense."""
    centred = points - points.mean(axis=0, dtype=np.float64)
    reach = np.linalg.norm(centred, axis=1).max() or 1.0
    turn, tilt = np.radians((35.0, 25.0))
    x, y, z = centred.T / reach
    right, behind = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    down = -(z * np.cos(tilt) + behind * np.sin(tilt))
    counts, *_ = np.histogram2d(down, right, bins=side, range=[(-1, 1), (-1, 1)])
    brightness: NDArray[np.float64] = np.sqrt(counts / counts.max())
    return brightness
