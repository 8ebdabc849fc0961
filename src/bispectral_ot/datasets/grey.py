"""Colours to grey."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.resize import as_type
from bispectral_ot.datasets.transforms import BLOCK_BYTES
from bispectral_ot.engines import Block, fill_rows
from bispectral_ot.errors import InputError
from bispectral_ot.progress import Progress, silent

_LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601, as image programs have it


def to_grey(images: NDArray[Any], *, progress: Progress = silent) -> NDArray[Any]:
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
        progress=progress,
    )


def _luminance(block: Block, images: NDArray[Any]) -> NDArray[Any]:
    return as_type(images[..., :3].astype(np.float32) @ _LUMINANCE, images.dtype)
