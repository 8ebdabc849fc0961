"""Image files: PNG, JPEG, TIFF and BMP, with 8 or 16 bits a channel."""

import io
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bispectral_ot.datasets.frames import Canvas
from bispectral_ot.datasets.io_errors import check_announced, library, reading
from bispectral_ot.datasets.warp import Size
from bispectral_ot.errors import DatasetError

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
# Other formats are never opened: Pillow would start Ghostscript for an EPS file, for instance.
FORMATS = ("PNG", "JPEG", "TIFF", "BMP")
_WHITE = np.iinfo(np.uint16).max
_ORIENTATION, _EXTRA_SAMPLES, _TRANSPARENCY = 0x0112, 338, 2  # tags of TIFF and EXIF
# Orientation of the camera: whether rows and columns are exchanged, then quarter turns.
_CAMERA_TURNS = {2: (True, -1), 3: (False, 2), 4: (True, 1), 5: (True, 0), 6: (False, -1), 7: (True, 2), 8: (False, 1)}


def image_size(content: Path | bytes, name: str) -> Size:
    """Height and width of an image (as displayed), from the header of its file."""
    with _opened(content, name) as image:
        # Pillow would read a whole PNG in search of the tag
        has_tags = image.format == "TIFF" or not image.info.keys().isdisjoint(("exif", "xmp"))
        turned = has_tags and image.getexif().get(_ORIENTATION, 1) >= 5
        return image.size if turned else image.size[::-1]


def decode_image(content: Path | bytes, name: str, canvas: Canvas) -> tuple[NDArray[Any], bool]:
    """Pixels of an image file, or of the bytes of one, and whether some are transparent."""
    with _opened(content, name) as image:
        if image.format == "TIFF" and (pages := getattr(image, "n_frames", 1)) > 1:
            advice = "save the one you mean, or each, as a file of its own"
            other = "If the pages are the images of a set, name this file instead of its folder"
            raise DatasetError(f"{name} has {pages} pages; {advice}. ({other}.)")
        if is_deep_colour(image):
            pixels = deep_colours(image, content, name)
            colours, alpha = np.split(pixels, [1 if pixels.shape[-1] == 2 else 3], axis=-1)
            extra = _TRANSPARENCY if image.format == "PNG" else image.tag_v2.get(_EXTRA_SAMPLES, (0,))[0]  # type: ignore[attr-defined]
            # else there is no alpha, or colours were multiplied with it
            is_transparent = bool(alpha.size and extra == _TRANSPARENCY and alpha.min() < _WHITE)
            if is_transparent:
                colours = np.rint(colours * (alpha / _WHITE))
            colours = colours if colours.shape[-1] == 3 else colours[..., 0]
            return np.ascontiguousarray(colours, dtype=np.uint16), is_transparent
        if image.format == "JPEG" and canvas.size is not None and canvas.placement is None:
            scale = max(image.height / canvas.size[0], image.width / canvas.size[1])
            if scale > 1:  # the decoder may leave 1.5 pixels along a side for each of the canvas
                image.draft(None, (math.ceil(1.5 * image.width / scale), math.ceil(1.5 * image.height / scale)))
        if image.format != "JPEG" or not image.info.keys().isdisjoint(("exif", "xmp")):
            ImageOps.exif_transpose(image, in_place=True)
        mode = image.mode
        if image.has_transparency_data and mode[0] not in "1IF":  # these would lose bits
            rgba = image.convert("RGBA")
            for backdrop in ("black", "white"):  # white if the visible part is black
                opaque = Image.new("RGBA", image.size, backdrop)
                opaque.alpha_composite(rgba)
                pixels = np.asarray(opaque.convert("L" if mode in ("L", "LA", "La") else "RGB"))
                if pixels.any():
                    break
            return pixels, bool(np.asarray(rgba)[..., 3].min() < 255)
        if mode == "I" or mode.startswith("I;16"):
            values = np.asarray(image)
            return values.astype(np.uint16) if values.min() >= 0 and values.max() <= _WHITE else values, False
        if mode not in ("L", "RGB", "F"):
            image = image.convert("L" if mode == "1" else "RGB")
        return np.asarray(image), False


@contextmanager
def _opened(content: Path | bytes, name: str) -> Iterator[Image.Image]:
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    with reading(f"the image {name}"), Image.open(file, formats=FORMATS) as image:
        stored = len(content) if isinstance(content, bytes) else os.path.getsize(content)
        check_announced(image.width * image.height * len(image.getbands()), stored, name)
        yield image


def is_deep_colour(image: Image.Image) -> bool:
    """Whether an image has 16 bits in several channels, which Pillow would cut to 8."""
    several = image.format in ("PNG", "TIFF") and not image.mode.startswith("I")
    return several and any(";16" in str(tile[3]) for tile in image.tile)  # type: ignore[attr-defined]


def deep_colours(image: Image.Image, content: Path | bytes, name: str | Path) -> NDArray[Any]:
    """All channels of an image with 16 bits in several, (height, width, channels), in the orientation of the camera."""
    codecs = library("imagecodecs", extra="tiff", what=name)
    encoded = content if isinstance(content, bytes) else content.read_bytes()
    pixels = codecs.png_decode(encoded) if image.format == "PNG" else codecs.tiff_decode(encoded)
    if image.mode not in ("RGB", "RGBA", "RGBX") or pixels.shape[:-1] != image.size[::-1] or pixels.shape[-1] > 4:
        raise DatasetError(f"{name} has 16 bits in {image.mode} channels; save it as grey or RGB.")
    exchanged, turns = _CAMERA_TURNS.get(image.getexif().get(_ORIENTATION, 1), (False, 0))
    return np.rot90(pixels.swapaxes(0, 1) if exchanged else pixels, turns)
