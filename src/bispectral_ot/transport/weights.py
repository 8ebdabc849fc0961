"""Weights of the two sides: how much mass each element has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.errors import InputError


def as_weights(weights: ArrayLike | None, size: int, name: str, *, normalized: bool = True) -> NDArray[np.float64]:
    """Uniform weights, or the given ones after checking: (size,), not negative, summing to one if ``normalized``."""
    if weights is None:
        return np.full(size, 1.0 / size)
    array: NDArray[Any] = np.asarray(weights)
    if array.shape != (size,):
        raise InputError(f"{name} has shape {array.shape} but there are {size} elements; give one weight for each.")
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} must be numbers, got an array of {array.dtype}.")
    # float32 weights sum to one only to about 1e-7 per element; what is left over is spread in float64
    tolerance = 1e-8 if array.dtype == np.float64 else 1e-4
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError(f"{name} has a NaN or infinite entry at {int(np.flatnonzero(~np.isfinite(array))[0])}.")
    if (array < 0).any():
        where = int(np.flatnonzero(array < 0)[0])
        raise InputError(f"{name} must not be negative, but entry {where} is {array[where]:g}.")
    total = float(array.sum())
    if not normalized:
        if total == 0.0:
            raise InputError(f"{name} are all 0; some element must have mass.")
        return array
    if abs(total - 1.0) > tolerance:
        raise InputError(f"{name} must sum to one but sums to {total:.9g}; divide it by its sum.")
    return array / total
