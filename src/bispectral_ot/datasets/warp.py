"""Resampling of images: affine maps, area means, luminance, and the level of the border."""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.engines import Block, fill_rows
from bispectral_ot.errors import InputError

Size = tuple[int, int]
_BLOCK_PIXELS = 2**20


def warp(
    images: NDArray[Any], maps: NDArray[np.float64], *, fill: ArrayLike = 0.0, stage: str = "resample"
) -> NDArray[np.float32]:
    """Bilinear samples of ``images`` at ``maps @ (row, column, 1)``, for every output pixel (row, column)."""
    planes = as_planes(images)
    values, shape = np.asarray(fill), (len(images), planes.shape[3])
    if values.dtype.kind not in "buif" or not np.isfinite(values).all():
        raise InputError(f"fill must be a finite number (or one per channel), got {fill!r}.")
    if values.shape not in ((), shape[1:], shape):
        raise InputError(f"fill has shape {values.shape} but the images have {shape[1]} channels; give one for each.")
    rows = planes, np.ascontiguousarray(maps), np.array(np.broadcast_to(values, shape), dtype=np.float32)
    out, block_rows = np.empty(planes.shape, dtype=np.float32), _BLOCK_PIXELS // max(1, images[0].size)
    return fill_rows(_warp, out, block_rows=block_rows, rows=rows, stage=stage).reshape(images.shape)


def _warp(_block: Block, planes: NDArray[Any], maps: NDArray[Any], outside: NDArray[Any]) -> NDArray[np.float32]:
    from bispectral_ot.datasets.image_kernels import warp_block

    n, height, width, channels = planes.shape
    padded, out = np.empty((n, height + 3, width + 3, channels), np.float32), np.empty(planes.shape, np.float32)
    padded[:] = outside[:, None, None]
    padded[:, 1:-2, 1:-2] = planes
    warp_block(padded, maps, out)
    return out


def rotation_maps(degrees: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    """Maps (n, 2, 3) that rotate an image counter-clockwise, as displayed, about ((H - 1) / 2, (W - 1) / 2)."""
    from scipy.special import cosdg, sindg

    cos, sin = cosdg(degrees), sindg(degrees)
    turns = np.moveaxis(np.array([[cos, sin], [-sin, cos]]), 2, 0)
    middle = np.array([(height - 1) / 2, (width - 1) / 2])
    return np.concatenate([turns, (middle - turns @ middle)[..., None]], axis=2)


def shift_maps(rows: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maps (n, 2, 3) that move the content of each image down by ``rows`` and right by ``columns``."""
    maps = np.tile(np.eye(2, 3), (len(rows), 1, 1))
    maps[:, 0, 2], maps[:, 1, 2] = -rows, -columns
    return maps


def as_pixels(batch: NDArray[Any], what: str = "images") -> NDArray[Any]:
    """Images as uint8, uint16 or finite float32; refuses images whose content float32 cannot represent."""
    if batch.dtype in (np.bool_, np.uint8, np.uint16):
        return batch.astype(np.uint8) if batch.dtype == np.bool_ else batch
    pixels = np.empty(batch.shape, dtype=np.float32) if batch.dtype != np.float32 else batch
    extents, step = [], max(1, 2 * _BLOCK_PIXELS // batch[0].size)
    for start in range(0, len(batch), step):
        block = batch[start : start + step]
        part = pixels[start : start + step].reshape(len(block), -1)
        block = block.reshape(part.shape)
        if part.dtype != block.dtype:
            with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite and is refused below
                part[...] = block
        wrong = (~np.isfinite(part)).sum(axis=1)
        if wrong.any():
            first = int(np.argmax(wrong > 0))
            count = f"image {start + first} has {wrong[first]} pixels"
            raise InputError(f"{what}: {count} that are NaN or infinite (or beyond float32); replace them.")
        if block.dtype.itemsize > 2 and part.dtype != block.dtype:
            low, high = block.min(axis=1).astype(np.float64), block.max(axis=1).astype(np.float64)
            steps = np.spacing(np.maximum(abs(low), abs(high)).astype(np.float32))
            extents.append([high - low, steps, np.abs(part.astype(np.float64) - block).max(axis=1)])
    if extents:
        # content needs 64 steps of float32; images with much less contrast than the others lose noise only
        spread, steps, error = np.concatenate(extents, axis=1)
        lost = (error > 0) & (spread > 0) & (spread < 64 * steps) & (spread >= np.median(spread) / 16)
        if lost.any():
            first = int(np.argmax(lost))
            lost_one = f"the pixels of image {first} differ by only {spread[first]:g}, which float32 cannot resolve"
            advice = f"subtract an offset from the {batch.dtype} images first, as with images - images.min()"
            raise InputError(f"{what}: {lost_one} at their size (steps of {steps[first]:g}); {advice}.")
    return pixels


def as_planes(images: NDArray[Any]) -> NDArray[Any]:
    """Images with an axis of channels: (n, height, width, channels)."""
    return images.reshape(*images.shape[:3], -1)


def border_pixels(planes: NDArray[Any]) -> NDArray[Any]:
    """Pixels (n, border, channels) on the border of images (n, height, width, channels)."""
    if min(planes.shape[1:3]) == 1:
        return planes.reshape(len(planes), -1, planes.shape[3])
    return np.concatenate([planes[:, 0], planes[:, -1], planes[:, 1:-1, 0], planes[:, 1:-1, -1]], axis=1)


def radii(height: int, width: int) -> NDArray[np.float64]:
    """Distances of the pixels (height, width) from the centre of the image."""
    y, x = np.ogrid[:height, :width]
    return np.hypot(y - (height - 1) / 2, x - (width - 1) / 2)


def border_levels(planes: NDArray[Any]) -> NDArray[np.float64]:
    """Background of each image (n, height, width, channels), the median of its border: shape (n, channels)."""
    return np.asarray(np.median(border_pixels(planes), axis=1))


def resample(
    planes: NDArray[Any], size: Size, scale: float, centre: tuple[float, float], background: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Images (n, height, width, channels) on a canvas of ``size``, ``scale`` pixels to one, ``centre`` in its middle.

    Reduced images are area means, each pixel weighted by the part of it that a new pixel covers; enlarged ones are
    interpolated bilinearly. Beyond them is ``background`` (n, channels), the median of their border by default.
    """
    from bispectral_ot.datasets.image_kernels import resample_block

    n, height, _, channels = planes.shape
    if background is None:
        axes = zip(planes.shape[1:3], size, centre, strict=True)
        inside = all(wanted * scale <= 2 * min(middle, given - middle) + 1e-9 for given, wanted, middle in axes)
        background = np.zeros((n, channels)) if inside else border_levels(planes)
    rows, columns = (_weights(wanted, middle, scale) for wanted, middle in zip(size, centre, strict=True))
    pixels, out = np.ascontiguousarray(planes).reshape(n, height, -1), np.empty((n, *size, channels), planes.dtype)
    resample_block(pixels, rows, columns, background.astype(np.float32), out, planes.dtype.kind == "u")
    return out


@lru_cache(maxsize=1024)
def _weights(wanted: int, centre: float, scale: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """First pixel (wanted,) and weights (wanted, taps) along one axis; pixels beyond the image have weights as well."""
    middles = centre + (np.arange(wanted) + 0.5 - wanted / 2) * scale
    if scale > 1:
        left = (middles - scale / 2)[:, None]
        first = np.floor(left)
        pixels = first + np.arange(math.ceil(scale) + 1)
        weights = np.maximum(0.0, np.minimum(pixels + 1, left + scale) - np.maximum(pixels, left)) / scale
    else:
        first = np.floor(middles - 0.5)[:, None]
        pixels = first + np.arange(2)
        weights = 1 - np.abs(pixels + 0.5 - middles[:, None])
        begin, end = round(centre - wanted * scale / 2, 6), round(centre + wanted * scale / 2, 6)
        weights *= (pixels >= math.floor(begin)) & (pixels < math.ceil(end))  # the canvas ends there
        weights /= weights.sum(axis=1, keepdims=True)
    return first[:, 0].astype(np.int64), weights.astype(np.float32)


def to_grey(images: NDArray[Any]) -> NDArray[Any]:
    """Luminance ``0.299 R + 0.587 G + 0.114 B`` (ITU-R BT.601) of a batch, shape (n, height, width); keeps the type."""
    channels = images.shape[3] if images.ndim == 4 else 1
    if channels == 1:
        return images.reshape(images.shape[:3])
    if channels not in (3, 4):
        raise InputError(f"images with {channels} channels have no luminance; grey is for RGB and RGBA.")
    out, weights = np.empty(images.shape[:3], dtype=images.dtype), np.array([0.299, 0.587, 0.114], dtype=np.float32)

    def luminance(_block: Block, part: NDArray[Any]) -> NDArray[Any]:
        return as_type(part[..., :3].astype(np.float32) @ weights, images.dtype)

    return fill_rows(luminance, out, block_rows=4 * _BLOCK_PIXELS // images[0].size, rows=(images,), stage="grey")


def are_grey(images: Iterable[NDArray[Any]]) -> bool:
    """Whether the channels of each image (height, width[, channels]) are equal; stops at the first colour image."""
    return all(image.ndim == 2 or bool((image == image[..., :1]).all()) for image in images)


def as_type(values: NDArray[np.floating[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values rounded to an integer type; unchanged for a floating-point type."""
    if dtype.kind in "iu":
        values = np.rint(values).clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
    return values.astype(dtype, copy=False)
