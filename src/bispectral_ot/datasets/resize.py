"""Bring images to one size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bispectral_ot.engines import run_blocks, split_rows
from bispectral_ot.errors import InputError
from bispectral_ot.progress import Progress, silent

Size = tuple[int, int]


def parse_size(size: int | Size | str) -> Size:
    """Read a size: one side, (height, width), or a text such as ``"32"`` or ``"32x48"``; both at least 1."""
    parts = size.lower().split("x") if isinstance(size, str) else np.ravel(np.asarray(size)).tolist()
    try:
        sides = [int(part) for part in parts if float(part) == int(part)]
    except (ValueError, TypeError, OverflowError):
        sides = []
    if len(sides) != len(parts) or len(sides) not in (1, 2) or min(sides) < 1:
        raise InputError(f"resize must be one side or (height, width) in whole pixels, got {size!r}.")
    return sides[0], sides[-1]


def resize_image(image: NDArray[Any], size: Size) -> NDArray[Any]:
    """Resample one (height, width[, channels]) image to ``size``, bilinear with antialiasing; keeps the type.

    The whole image is stretched: where the aspect ratio differs, so does the content.
    """
    if image.shape[:2] == size:
        return image
    planes = image[..., None] if image.ndim == 2 else image
    resized = np.stack(
        [
            # float32 planes, because pillow cannot resample 16-bit ones
            np.asarray(
                Image.fromarray(np.ascontiguousarray(planes[..., channel], dtype=np.float32)).resize(
                    (size[1], size[0]), Image.Resampling.BILINEAR
                )
            )
            for channel in range(planes.shape[-1])
        ],
        axis=-1,
    )
    return _as_type(resized, image.dtype).reshape((*size, *image.shape[2:]))


def resize_images(images: NDArray[Any], size: Size, *, progress: Progress = silent) -> NDArray[Any]:
    """Resample a batch (n, height, width[, channels]) to ``size``, as :func:`resize_image` does.

    Resampling is linear in each axis, ``rows @ image @ columns.T``: an identity matrix sent through
    :func:`resize_image` gives the two factors, and one matrix product does the whole batch.
    """
    height, width = images.shape[1:3]
    if (height, width) == size:
        return images
    rows = resize_image(np.eye(height, dtype=np.float32), (size[0], height))
    columns = resize_image(np.eye(width, dtype=np.float32), (size[1], width))
    planes = images.reshape(*images.shape[:3], -1)
    resized = np.empty((len(images), *size, planes.shape[3]), dtype=images.dtype)

    def work(start: int, stop: int) -> None:
        for channel in range(planes.shape[3]):
            block = rows @ planes[start:stop, :, :, channel].astype(np.float32) @ columns.T
            resized[start:stop, :, :, channel] = _as_type(block, images.dtype)

    run_blocks(work, split_rows(len(images), block_rows=512), stage="resize", progress=progress)
    return resized.reshape((len(images), *size, *images.shape[3:]))


def _as_type(values: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round to the nearest grey value where the type has whole ones only."""
    if dtype.kind == "u":
        values = np.rint(values).clip(0, np.iinfo(dtype).max)
    return values.astype(dtype, copy=False)
