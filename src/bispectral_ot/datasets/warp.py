"""Resampling of images: affine maps, reduction by area, luminance, and the level of the border."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.engines import Block, fill_rows
from bispectral_ot.errors import InputError
from bispectral_ot.memory import check_fits

Size = tuple[int, int]
_BLOCK_PIXELS = 2**20
_LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601


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
    out = fill_rows(
        _warp,
        np.empty(planes.shape, dtype=np.float32),
        block_rows=_BLOCK_PIXELS // max(1, images[0].size),
        rows=(planes, np.ascontiguousarray(maps), np.array(np.broadcast_to(values, shape), dtype=np.float32)),
        stage=stage,
    )
    return out.reshape(images.shape)


def _warp(_block: Block, planes: NDArray[Any], maps: NDArray[Any], outside: NDArray[Any]) -> NDArray[np.float32]:
    from bispectral_ot.datasets.image_kernels import warp_block

    out = np.empty(planes.shape, dtype=np.float32)
    warp_block(np.ascontiguousarray(planes, dtype=np.float32), maps, outside, out)
    return out


def rotation_maps(degrees: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    """Maps (n, 2, 3) that turn an image counter-clockwise, as displayed, about ((H - 1) / 2, (W - 1) / 2)."""
    from scipy.special import cosdg, sindg

    cos, sin = cosdg(degrees), sindg(degrees)
    turns = np.moveaxis(np.array([[cos, sin], [-sin, cos]]), 2, 0)
    middle = np.array([(height - 1) / 2, (width - 1) / 2])
    return np.concatenate([turns, (middle - turns @ middle)[..., None]], axis=2)


def shift_maps(rows: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maps (n, 2, 3) that move the content of each image down by ``rows`` and right by ``columns``."""
    maps = np.zeros((len(rows), 2, 3))
    maps[:, 0, 0] = maps[:, 1, 1] = 1.0
    maps[:, 0, 2], maps[:, 1, 2] = -rows, -columns
    return maps


def as_planes(images: NDArray[Any]) -> NDArray[Any]:
    """Images with an axis of channels: (n, height, width, channels)."""
    return images.reshape(*images.shape[:3], -1)


def border_pixels(planes: NDArray[Any]) -> NDArray[Any]:
    """Pixels (n, border, channels) on the border of images (n, height, width, channels)."""
    if min(planes.shape[1:3]) == 1:
        return planes.reshape(len(planes), -1, planes.shape[3])
    return np.concatenate([planes[:, 0], planes[:, -1], planes[:, 1:-1, 0], planes[:, 1:-1, -1]], axis=1)


def border_levels(planes: NDArray[Any]) -> NDArray[np.float64]:
    """Background of each image (n, height, width, channels), the median of its border: shape (n, channels)."""
    levels: NDArray[np.float64] = np.median(border_pixels(planes), axis=1)
    return levels


def resize_images(images: NDArray[Any], size: Size) -> NDArray[Any]:
    """Scale a batch (n, height, width[, channels]) to fit into ``size``, centred; keeps the type."""
    height, width = images.shape[1:3]
    if (height, width) == size:
        return images
    scale = max(height / size[0], width / size[1])
    return resample(images, size, scale, (height / 2, width / 2))


def resample(
    images: NDArray[Any], size: Size, scale: float, centre: tuple[float, float], background: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Images on a canvas of ``size`` with ``scale`` pixels to one of the canvas, ``centre`` in its middle.

    Reduced images are area means, each pixel weighted by the part of it that a new pixel covers; enlarged ones are
    interpolated bilinearly. Beyond the images is ``background`` (n, channels), the median of their border by default.
    """
    images = images.astype(np.float32) if images.dtype == np.bool_ else images
    planes = as_planes(images)
    shape = (len(images), *size, planes.shape[3])
    exact = images.dtype in (np.uint8, np.uint16, np.float32)
    if math.prod(shape) > 2**24:
        # one block at least, in the precision of the weights, and two pixels and weights for each row and column
        needed = math.prod(shape) * images.itemsize + math.prod(shape[1:]) * (4 if exact else 8) + 64 * sum(size)
        check_fits(needed, f"resizing {len(images):,} images to {size[0]} x {size[1]}", "ask for a smaller size")
    dtype = "float32" if exact else "float64"
    weights = [_weights(*axis, scale, dtype) for axis in zip(images.shape[1:3], size, centre, strict=True)]
    if background is None and all(
        wanted * scale <= 2 * min(middle, given - middle) + 1e-9
        for given, wanted, middle in zip(images.shape[1:3], size, centre, strict=True)
    ):
        background = np.zeros((len(images), shape[3]))  # nothing of it is seen
    shared = (background, *weights[0], *weights[1])
    if len(images) == 1:
        resized = _resample(Block(0, 1), planes, *shared)
    else:
        out, block_rows = np.empty(shape, dtype=images.dtype), 4 * _BLOCK_PIXELS // planes[0].size
        resized = fill_rows(_resample, out, block_rows=block_rows, rows=(planes,), shared=shared, stage="resize")
    return resized.reshape((len(images), *size, *images.shape[3:]))


def _resample(_block: Block, planes: NDArray[Any], background: Any, *weights: NDArray[Any]) -> NDArray[Any]:
    from bispectral_ot.datasets.image_kernels import resample_block

    n, height, _, channels = planes.shape
    precision = weights[1].dtype
    levels = (border_levels(planes) if background is None else background).astype(precision)
    pixels = np.ascontiguousarray(planes, dtype=planes.dtype if precision == np.float32 else precision)
    out = np.empty((n, len(weights[0]), len(weights[2]), channels), dtype=planes.dtype)
    resample_block(pixels.reshape(n, height, -1), *weights, levels, out, planes.dtype.kind in "iu")
    return out


@lru_cache(maxsize=1024)
def _weights(given: int, wanted: int, centre: float, scale: float, dtype: str) -> tuple[NDArray[Any], NDArray[Any]]:
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
        begin = round(centre - wanted * scale / 2, 6)
        end = round(centre + wanted * scale / 2, 6)
        weights = 1 - np.abs(pixels + 0.5 - middles[:, None])
        weights *= (pixels >= math.floor(begin)) & (pixels < math.ceil(end))  # the canvas ends there
        weights /= weights.sum(axis=1, keepdims=True)
    return first[:, 0].astype(np.int64), weights.astype(dtype)


def to_grey(images: NDArray[Any]) -> NDArray[Any]:
    """Luminance ``0.299 R + 0.587 G + 0.114 B`` of a batch, shape (n, height, width); keeps the type."""
    channels = images.shape[3] if images.ndim == 4 else 1
    if channels == 1:
        return images.reshape(images.shape[:3])
    if channels not in (3, 4):
        raise InputError(f"images with {channels} channels have no luminance; grey is for RGB and RGBA.")
    out, block_rows = np.empty(images.shape[:3], dtype=images.dtype), 4 * _BLOCK_PIXELS // images[0].size
    return fill_rows(_luminance, out, block_rows=block_rows, rows=(images,), stage="grey")


def _luminance(_block: Block, images: NDArray[Any]) -> NDArray[Any]:
    single = images.itemsize < 4 or images.dtype == np.float32
    pixels: NDArray[Any] = images[..., :3].astype(np.float32 if single else np.float64)
    return as_type(pixels @ _LUMINANCE.astype(pixels.dtype), images.dtype)


def as_type(values: NDArray[np.floating[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values rounded to the nearest of an integer type, or as they are of a floating one."""
    if dtype.kind in "iu":
        values = np.rint(values).clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
    return values.astype(dtype, copy=False)
