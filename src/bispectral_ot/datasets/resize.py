"""Bring images to one size."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.transforms import BLOCK_BYTES, border_levels
from bispectral_ot.engines import Block, fill_rows
from bispectral_ot.errors import InputError
from bispectral_ot.memory import check_fits
from bispectral_ot.progress import Progress, silent

Size = tuple[int, int]
_STRIP = 256  # rows at a time, so that a large photograph needs no float32 copy of itself


def parse_size(size: int | Size | str) -> Size:
    """Read a size: one side, (height, width), or a string such as ``"32"`` or ``"32x48"``; both at least 1."""
    parts = size.lower().split("x") if isinstance(size, str) else np.ravel(np.asarray(size)).tolist()
    try:
        sides = [int(part) for part in parts if float(part) == int(part)]
    except (ValueError, TypeError, OverflowError):
        sides = []
    if len(sides) != len(parts) or len(sides) not in (1, 2) or min(sides) < 1:
        raise InputError(f"resize must be one side or (height, width) in whole pixels, got {size!r}.")
    return sides[0], sides[-1]


def resize_images(images: NDArray[Any], size: Size, *, progress: Progress = silent) -> NDArray[Any]:
    """Scale a batch (n, height, width[, channels]) to fit into ``size``, the content in the middle; keeps the type.

    The aspect ratio stays, because stretched shapes are no longer rotations of each other; what is left of ``size``
    is filled with each image's own background, the median of its border per channel. Bilinear with antialiasing,
    which is linear in each axis: ``rows @ image @ columns.T``, and where these weights sum to less than one,
    background for the rest. (Pillow would round the scaled size to whole pixels, and the aspect ratio with it.)
    """
    height, width = images.shape[1:3]
    if (height, width) == size:
        return images
    scale = max(Fraction(height, size[0]), Fraction(width, size[1]))
    tables = sum(8 * wanted * math.ceil(wanted * scale) for wanted in size)
    needed = images[0].size // (height * width) * len(images) * math.prod(size) * images.itemsize + tables
    check_fits(needed, f"resizing {len(images):,} images to {size[0]} x {size[1]}", "ask for a smaller size")
    rows, columns = (_weights(given, wanted, scale) for given, wanted in zip((height, width), size, strict=True))
    beyond = 1 - np.outer(rows.sum(axis=1), columns.sum(axis=1))
    planes = images.reshape(*images.shape[:3], -1)
    resized = fill_rows(
        _resize,
        np.empty((len(images), *size, planes.shape[3]), dtype=images.dtype),
        block_rows=max(1, BLOCK_BYTES // (8 * planes[0].size)),
        rows=(planes,),
        shared=(rows, columns, beyond),
        stage="resize",
        progress=progress,
    )
    return resized.reshape((len(images), *size, *images.shape[3:]))


def _resize(
    block: Block,
    planes: NDArray[Any],
    rows: NDArray[np.float32],
    columns: NDArray[np.float32],
    beyond: NDArray[np.float32],
) -> NDArray[Any]:
    n, height, width, channels = planes.shape
    background = border_levels(planes).astype(np.float32)
    strips = np.zeros((n, len(rows), width * channels), dtype=np.float32)
    for top in range(0, height, _STRIP):
        strip = planes[:, top : top + _STRIP].astype(np.float32)
        strips += rows[:, top : top + _STRIP] @ strip.reshape(n, -1, width * channels)
    strips = strips.reshape(n, len(rows), width, channels)
    resized = np.empty((n, len(rows), len(columns), channels), dtype=planes.dtype)
    for channel in range(channels):
        content = strips[..., channel] @ columns.T + background[:, channel, None, None] * beyond
        resized[..., channel] = as_type(content, planes.dtype)
    return resized


def _weights(given: int, wanted: int, scale: Fraction) -> NDArray[np.float32]:
    """Resampling along one axis, (wanted, given): a triangle over ``scale`` pixels, but at least one.

    Pixels beyond the image that ``wanted`` reaches take their share of the weight: a row may sum to less than one.
    """
    beyond = math.ceil((wanted * scale - given) / 2)
    pixels = np.arange(-beyond, given + beyond) + 0.5
    centres = given / 2 + (np.arange(wanted) + 0.5 - wanted / 2) * float(scale)
    weights = np.maximum(0.0, 1.0 - np.abs(pixels - centres[:, None]) / max(1.0, float(scale)))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights[:, beyond : beyond + given].astype(np.float32)


def as_type(values: NDArray[np.floating[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round to the nearest value that the type has, where it has integers only."""
    if dtype.kind in "iu":
        values = np.rint(values).clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
    return values.astype(dtype, copy=False)
