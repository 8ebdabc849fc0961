"""Image files: PNG, JPEG, TIFF and BMP, with 8 or 16 bits a channel."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bispectral_ot.datasets.frames import Canvas
from bispectral_ot.datasets.io_errors import check_announced, library
from bispectral_ot.datasets.warp import Size
from bispectral_ot.errors import DatasetError, InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
# Nothing else is opened, whatever the file's name: Pillow would start Ghostscript for an EPS file, for instance.
FORMATS = ("PNG", "JPEG", "TIFF", "BMP")
_AS_STORED = Canvas()
_WHITE = np.iinfo(np.uint16).max
# Tags of TIFF and EXIF.
_ORIENTATION, _EXTRA_SAMPLES, _TRANSPARENCY = 0x0112, 338, 2
# Orientation of the camera: whether rows and columns are exchanged, then quarter turns.
_CAMERA_TURNS = {2: (True, -1), 3: (False, 2), 4: (True, 1), 5: (True, 0), 6: (False, -1), 7: (True, 2), 8: (False, 1)}


def image_size(content: Path | bytes, name: str) -> Size:
    """Height and width of an image (as displayed), from the header of its file."""
    with _opened(content, name) as image:
        # Pillow would read a whole PNG in search of the tag
        known = image.format != "PNG" or "exif" in image.info
        turned = known and image.getexif().get(_ORIENTATION, 1) >= 5
        return image.size if turned else image.size[::-1]


def decode_image(content: Path | bytes, name: str, canvas: Canvas = _AS_STORED) -> tuple[NDArray[Any], bool]:
    """Pixels of an image file, or of the bytes of one, and whether some are transparent."""
    with _opened(content, name) as image:
        if image.format == "TIFF" and (pages := getattr(image, "n_frames", 1)) > 1:
            raise DatasetError(
                f"{name} has {pages} pages; save the one you mean, or each, as a file of its own. (Where the pages are "
                "the images of a set, name this file instead of its folder.)"
            )
        if is_deep_colour(image):
            return _deep_pixels(image, content, name)
        if image.format == "JPEG" and (least := canvas.least_size(*image.size[::-1])):
            image.draft(None, least[::-1])
        if image.format != "JPEG" or not image.info.keys().isdisjoint(("exif", "xmp")):
            ImageOps.exif_transpose(image, in_place=True)
        return _pixels(image)


@contextmanager
def _opened(content: Path | bytes, name: str) -> Iterator[Image.Image]:
    try:
        with Image.open(io.BytesIO(content) if isinstance(content, bytes) else content, formats=FORMATS) as image:
            stored = len(content) if isinstance(content, bytes) else os.path.getsize(content)
            check_announced(image.width * image.height * len(image.getbands()), stored, name)
            yield image
    except (InputError, MemoryError):
        raise
    except Exception as error:  # decoders raise whatever they like on a damaged file
        raise DatasetError(f"cannot read the image {name} ({error}): damaged, or of an unknown kind.") from None


def _pixels(image: Image.Image) -> tuple[NDArray[Any], bool]:
    mode = image.mode
    if image.has_transparency_data and mode[0] not in "1IF":  # these would lose bits
        colours = image.convert("RGBA")
        opaque = Image.new("RGBA", image.size, (0, 0, 0, 255))
        opaque.alpha_composite(colours)
        is_transparent = bool(np.asarray(colours)[..., 3].min() < 255)
        return np.asarray(opaque.convert("L" if mode in ("L", "LA", "La") else "RGB")), is_transparent
    if mode == "I" or mode.startswith("I;16"):
        values = np.asarray(image)
        return values.astype(np.uint16) if values.min() >= 0 and values.max() <= _WHITE else values, False
    if mode in ("L", "RGB", "F"):
        return np.asarray(image), False
    return np.asarray(image.convert("L" if mode == "1" else "RGB")), False


def is_deep_colour(image: Image.Image) -> bool:
    """Whether an image has 16 bits in several channels, which Pillow would cut to 8."""
    several = image.format in ("PNG", "TIFF") and not image.mode.startswith("I")
    return several and any(";16" in str(tile[3]) for tile in image.tile)  # type: ignore[attr-defined]


def deep_colours(image: Image.Image, content: Path | bytes, name: str | Path) -> NDArray[Any]:
    """All channels of an image with 16 bits in several, (height, width, channels), upright as the camera says."""
    codecs = library("imagecodecs", extra="tiff", what=name)
    encoded = content if isinstance(content, bytes) else content.read_bytes()
    pixels = codecs.png_decode(encoded) if image.format == "PNG" else codecs.tiff_decode(encoded)
    if image.mode not in ("RGB", "RGBA", "RGBX") or pixels.shape[:-1] != image.size[::-1] or pixels.shape[-1] > 4:
        raise DatasetError(f"{name} has 16 bits in {image.mode} channels; save it as grey or RGB.")
    exchanged, turns = _CAMERA_TURNS.get(image.getexif().get(_ORIENTATION, 1), (False, 0))
    return np.rot90(pixels.swapaxes(0, 1) if exchanged else pixels, turns)


def _deep_pixels(image: Image.Image, content: Path | bytes, name: str) -> tuple[NDArray[np.uint16], bool]:
    """Colour, or grey with alpha, of 16 bits, on black: (height, width, 3) or (height, width)."""
    pixels = deep_colours(image, content, name)
    channels = pixels.shape[-1]
    extra = _TRANSPARENCY if image.format == "PNG" else image.tag_v2.get(_EXTRA_SAMPLES, (0,))[0]  # type: ignore[attr-defined]
    has_alpha = channels != 3 and extra == _TRANSPARENCY  # else no alpha, or multiplied with it already
    is_transparent = bool(has_alpha and pixels[..., -1].min() < _WHITE)
    colours = pixels[..., 0] if channels == 2 else pixels[..., :3]
    if is_transparent:
        opacity = pixels[..., -1] / _WHITE
        colours = np.rint(colours * (opacity if channels == 2 else opacity[..., None]))
    return np.ascontiguousarray(colours, dtype=np.uint16), is_transparent
