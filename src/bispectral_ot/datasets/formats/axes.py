"""Axes with names, as microscopes write them: which are the image, its channels, and the number of the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.errors import DatasetError

_MOST_CHANNELS = 4  # more are planes of their own


def arranged(axes: str, shape: tuple[int, ...], what: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A function that turns an array with these axes into (n, height, width[, channels]).

    ``y`` and ``x`` are the image, ``s`` (samples) its channels, and ``c`` where there are four at most; all other axes
    count images.
    """
    axes = axes.lower()
    if len(axes) != len(shape) or axes.count("y") != 1 or axes.count("x") != 1:
        raise DatasetError(f"{what} has axes {axes!r} and shape {shape}; expected y and x, and others such as t, z, c.")
    if 0 in shape:
        raise DatasetError(f"{what} has shape {shape}, and so no pixels.")
    sizes = dict(zip(axes, shape, strict=False))
    channels = "s" if "s" in axes else "c" if 1 < sizes.get("c", 1) <= _MOST_CHANNELS else ""
    places = [axes.index("y"), axes.index("x"), *(axes.index(axis) for axis in channels)]
    others = [place for place in range(len(axes)) if place not in places]

    def arrange(array: NDArray[Any]) -> NDArray[Any]:
        moved = np.transpose(array, [*others, *places])
        return moved.reshape(-1, *moved.shape[len(others) :])

    return arrange
