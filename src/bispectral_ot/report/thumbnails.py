"""Small pictures of images, many of them on one sheet."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# Larger images are made smaller until their longer side is this many pixels.
LONGEST_SIDE = 32


def thumbnails(pictures: Iterable[NDArray[np.float64]]) -> NDArray[np.uint8]:
    """Pictures (height, width) or (height, width, 3), from 0 to 1, as small ones (n, h, w) or (n, h, w, 3)."""
    small = []
    for pixels in pictures:
        shown = (pixels * 255).round().astype(np.uint8)
        height, width = shown.shape[:2]
        scale = min(1.0, LONGEST_SIDE / max(height, width))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        picture = Image.fromarray(shown)
        small.append(np.asarray(picture if scale == 1.0 else picture.resize(size, Image.Resampling.BOX)))
    return np.stack(small)


class Sheet(NamedTuple):
    """Thumbnails side by side in one PNG file: number i is in row ``i // columns``, column ``i % columns``."""

    png: bytes
    columns: int
    width: int
    height: int


def sprite_sheet(small: NDArray[np.uint8]) -> Sheet:
    """Put thumbnails (n, h, w[, 3]) on a sheet that is about square."""
    count, height, width = small.shape[:3]
    columns = max(1, int(np.ceil(np.sqrt(count * height / width))))
    rows = -(-count // columns)
    sheet = np.zeros((rows * height, columns * width, *small.shape[3:]), dtype=np.uint8)
    for i, image in enumerate(small):
        top, left = (i // columns) * height, (i % columns) * width
        sheet[top : top + height, left : left + width] = image
    file = io.BytesIO()
    Image.fromarray(sheet).save(file, format="png", optimize=True)
    return Sheet(file.getvalue(), columns, width, height)
