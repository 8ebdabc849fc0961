"""Size and colour of images: resampling to one size by area, and luminance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import parse_size as parse_size
from bispectral_ot.datasets.frames import Placement
from bispectral_ot.datasets.transforms import BLOCK_BYTES, border_levels
from bispectral_ot.engines import Block, fill_rows
from bispectral_ot.errors import InputError
from bispectral_ot.memory import check_fits

Size = tuple[int, int]
_LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601
_DRAFT = 2  # pixels that a JPEG decoder must leave along a side, for each of the canvas


@dataclass(frozen=True)
class Canvas:
    """Map from decoded images to the images of a dataset: ``canvas(images)`` of a batch (n, height, width[, channels]).

    Attributes
    ----------
    size : (height, width) that images are scaled to fit into, the content in the middle; None leaves them as they are
    grey : whether colours become luminance
    placement : frame by which images are placed; None for their whole canvas
    """

    size: Size | None = None
    grey: bool = False
    placement: Placement | None = None

    def __call__(self, images: NDArray[Any]) -> NDArray[Any]:
        """Images of the canvas, of the same type."""
        images = to_grey(images) if self.grey else images
        if self.placement is not None and self.placement.frame != "canvas":
            return self.placement(images, self.size or (images.shape[1], images.shape[2]))
        return images if self.size is None else resize_images(images, self.size)

    def least_size(self, height: int, width: int) -> Size | None:
        """Size at which a decoder may deliver an image of ``height`` x ``width`` pixels; None for that size itself."""
        if self.size is None or self.placement is not None:
            return None
        scale = max(height / self.size[0], width / self.size[1])
        return (math.ceil(_DRAFT * height / scale), math.ceil(_DRAFT * width / scale)) if scale > 1 else None


def resize_images(images: NDArray[Any], size: Size) -> NDArray[Any]:
    """Scale a batch (n, height, width[, channels]) to fit into ``size``, the content in the middle; keeps the type.

    The aspect ratio stays, because stretched shapes are not rotations of each other; the rest of ``size`` is filled
    with each image's own background, the median of its border per channel. Smaller images are area means, each pixel
    weighted by the part of it that a new pixel covers; larger ones are interpolated bilinearly.
    """
    height, width = images.shape[1:3]
    if (height, width) == size:
        return images
    images = images.astype(np.float32) if images.dtype == np.bool_ else images
    planes = images.reshape(*images.shape[:3], -1)
    shape = (len(images), *size, planes.shape[3])
    exact = images.dtype in (np.uint8, np.uint16, np.float32)
    if math.prod(shape) > 2**24:
        block = math.prod(shape[1:]) * (4 if exact else 8)  # one image at least, in the precision of the weights
        weights_bytes = 64 * sum(size)  # two pixels and weights for each row and column, and what they are made of
        needed = math.prod(shape) * images.itemsize + block + weights_bytes
        check_fits(needed, f"resizing {len(images):,} images to {size[0]} x {size[1]}", "ask for a smaller size")
    weights = _weights_of(height, width, size, "float32" if exact else "float64")
    if len(images) == 1:
        resized = _resize(Block(0, 1), planes, *weights)
    else:
        resized = fill_rows(
            _resize,
            np.empty(shape, dtype=images.dtype),
            block_rows=max(1, BLOCK_BYTES // (8 * planes[0].size)),
            rows=(planes,),
            shared=weights,
            stage="resize",
        )
    return resized.reshape((len(images), *size, *images.shape[3:]))


def _resize(_block: Block, planes: NDArray[Any], *weights: NDArray[Any]) -> NDArray[Any]:
    from bispectral_ot.datasets.image_kernels import resample_block

    n, height, _, channels = planes.shape
    precision = weights[1].dtype
    pixels = np.ascontiguousarray(planes, dtype=planes.dtype if precision == np.float32 else precision)
    out = np.empty((n, len(weights[0]), len(weights[2]), channels), dtype=precision)
    resample_block(pixels.reshape(n, height, -1), *weights, border_levels(planes).astype(precision), out)
    if planes.dtype in (np.uint8, np.uint16):  # means are in the range of the type
        np.add(out, 0.5, out=out)
        return out.astype(planes.dtype)
    return as_type(out, planes.dtype)


@lru_cache(maxsize=1024)
def _weights_of(height: int, width: int, size: Size, dtype: str) -> tuple[NDArray[Any], ...]:
    """First pixel and weights of rows and of columns."""
    scale = max(Fraction(height, size[0]), Fraction(width, size[1]))
    (rows, row_weights), (columns, column_weights) = _weights(height, size[0], scale), _weights(width, size[1], scale)
    return rows, row_weights.astype(dtype), columns, column_weights.astype(dtype)


def _weights(given: int, wanted: int, scale: Fraction) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """First pixel (wanted,) and weights (wanted, taps) along one axis; pixels beyond the image have weights as well."""
    step = float(scale)
    centres = given / 2 + (np.arange(wanted) + 0.5 - wanted / 2) * step
    if scale > 1:
        left = centres - step / 2
        first = np.floor(left)
        pixels = first[:, None] + np.arange(math.ceil(scale) + 1)
        covered = np.minimum(pixels + 1, left[:, None] + step) - np.maximum(pixels, left[:, None])
        weights = np.maximum(0.0, covered) / step
    else:
        first = np.floor(centres - 0.5)
        right = (centres - 0.5 - first)[:, None]
        pixels = first[:, None] + [0, 1]
        around = math.ceil((wanted * scale - given) / 2)  # pixels of background on each side
        weights = np.concatenate([1 - right, right], axis=1) * ((pixels >= -around) & (pixels < given + around))
        weights /= weights.sum(axis=1, keepdims=True)
    return first.astype(np.int64), weights


def to_grey(images: NDArray[Any]) -> NDArray[Any]:
    """Luminance ``0.299 R + 0.587 G + 0.114 B`` of a batch, shape (n, height, width); keeps the type.

    Grey images stay as they are, but for an axis of one channel; of four channels, the opacity is left out.
    """
    channels = images.shape[3] if images.ndim == 4 else 1
    if channels == 1:
        return images.reshape(images.shape[:3])
    if channels not in (3, 4):
        raise InputError(f"images with {channels} channels have no luminance; grey is for RGB and RGBA.")
    return fill_rows(
        _luminance,
        np.empty(images.shape[:3], dtype=images.dtype),
        block_rows=max(1, BLOCK_BYTES // (8 * images[0].size)),
        rows=(images,),
        stage="grey",
    )


def _luminance(_block: Block, images: NDArray[Any]) -> NDArray[Any]:
    pixels: NDArray[Any] = images[..., :3].astype(
        np.float32 if images.itemsize < 4 or images.dtype == np.float32 else np.float64
    )
    return as_type(pixels @ _LUMINANCE.astype(pixels.dtype), images.dtype)


def as_type(values: NDArray[np.floating[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values rounded to the nearest of an integer type, or as they are of a floating one."""
    if dtype.kind in "iu":
        values = np.rint(values).clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
    return values.astype(dtype, copy=False)
