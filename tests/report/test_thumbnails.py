from __future__ import annotations

import io

import numpy as np
from PIL import Image

from bispectral_ot.report.thumbnails import sprite_sheet, thumbnails


def test_sheet_has_every_thumbnail_in_its_place() -> None:
    images = np.random.default_rng(0).integers(0, 256, (7, 5, 4, 3)).astype(np.uint8)
    small = thumbnails(images / 255)
    np.testing.assert_array_equal(small, images)
    sheet = sprite_sheet(small)
    pixels = np.asarray(Image.open(io.BytesIO(sheet.png)))
    for i, image in enumerate(images):
        top, left = 5 * (i // sheet.columns), 4 * (i % sheet.columns)
        np.testing.assert_array_equal(pixels[top : top + 5, left : left + 4], image)
    assert thumbnails(np.zeros((2, 100, 50))).shape == (2, 32, 16)
