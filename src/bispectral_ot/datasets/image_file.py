"""One image file: PNG, JPEG, TIFF or BMP, with 8 or 16 bits a channel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bispectral_ot.errors import DatasetError

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
# Nothing else is opened, whatever the file's name: Pillow would start Ghostscript for an EPS file, for instance.
FORMATS = ("PNG", "JPEG", "TIFF", "BMP")
_WHITE = np.iinfo(np.uint16).max
# Tags of TIFF and EXIF.
ORIENTATION, _EXTRA_SAMPLES, _TRANSPARENCY = 0x0112, 338, 2
CAMERA_TURNS: dict[int, Callable[[NDArray[Any]], NDArray[Any]]] = {
    2: np.fliplr,
    3: lambda pixels: np.rot90(pixels, 2),
    4: np.flipud,
    5: lambda pixels: pixels.swapaxes(0, 1),
    6: lambda pixels: np.rot90(pixels, -1),
    7: lambda pixels: np.rot90(pixels, 2).swapaxes(0, 1),
    8: np.rot90,
}


def read_image(path: Path) -> NDArray[Any]:
    """Read one image file as (height, width) or (height, width, 3); uint8, uint16 or float32."""
    return read_image_and_alpha(path)[0]


def read_image_and_alpha(path: Path) -> tuple[NDArray[Any], bool]:
    """Read one image file, and say whether it has transparent pixels, which become black as far as they are that."""
    try:
        with Image.open(path, formats=FORMATS) as opened:
            pages = getattr(opened, "n_frames", 1)
            if opened.format == "TIFF" and pages > 1:
                raise DatasetError(f"{path} has {pages} pages; save the one you mean, or each, as a file of its own.")
            if is_deep_colour(opened):
                return _deep_pixels(opened, path)
            return _pixels(ImageOps.exif_transpose(opened))
    except (DatasetError, MemoryError):
        raise
    except Exception as error:  # decoders raise whatever they like on a damaged file
        raise DatasetError(
            f"cannot read the image {path} ({error}): damaged, or of an unknown kind; repair or remove it."
        ) from None


def _pixels(image: Image.Image) -> tuple[NDArray[Any], bool]:
    if image.has_transparency_data and image.mode[0] not in "1IF":  # these would lose bits
        grey = image.mode in ("L", "LA", "La")
        colours = image.convert("RGBA")
        opaque = Image.new("RGBA", image.size, (0, 0, 0, 255))
        opaque.alpha_composite(colours)
        is_transparent = bool(np.asarray(colours)[..., 3].min() < 255)
        return np.asarray(opaque.convert("L" if grey else "RGB")), is_transparent
    return _opaque_pixels(image), False


def _opaque_pixels(image: Image.Image) -> NDArray[Any]:
    if image.mode in ("1", "L"):
        return np.asarray(image.convert("L"))
    if image.mode == "F":
        return np.asarray(image, dtype=np.float32)
    if image.mode == "I" or image.mode.startswith("I;16"):
        values = np.asarray(image)
        fits = values.min() >= 0 and values.max() <= _WHITE
        return values.astype(np.uint16 if fits else np.float32)
    return np.asarray(image.convert("RGB"))


def is_deep_colour(image: Image.Image) -> bool:
    """Whether it has 16 bits in several channels, which Pillow would cut to 8."""
    several = image.format in ("PNG", "TIFF") and not image.mode.startswith("I")
    return several and any(";16" in str(tile[3]) for tile in image.tile)  # type: ignore[attr-defined]


def _deep_pixels(image: Image.Image, path: Path) -> tuple[NDArray[np.uint16], bool]:
    """Colour, or grey with alpha, of 16 bits, upright and on black: (height, width, 3) or (height, width)."""
    import imagecodecs

    pixels: NDArray[Any]
    if image.format == "PNG":
        pixels, extra = imagecodecs.png_decode(path.read_bytes()), _TRANSPARENCY
    else:
        pixels = imagecodecs.tiff_decode(path.read_bytes())
        extra = image.tag_v2.get(_EXTRA_SAMPLES, (0,))[0]  # type: ignore[attr-defined]
    size, channels = image.size[::-1], pixels.shape[-1]
    if image.mode not in ("RGB", "RGBA", "RGBX") or pixels.shape[:-1] != size or channels not in (2, 3, 4):
        raise DatasetError(f"{path} has 16 bits in {image.mode} channels; save it as grey or RGB.")
    colours = pixels[..., : 1 if channels == 2 else 3]
    has_alpha = channels != 3 and extra == _TRANSPARENCY  # else nothing, or multiplied with it already
    is_transparent = bool(has_alpha and pixels[..., -1].min() < _WHITE)
    if is_transparent:
        colours = np.rint(colours * (pixels[..., -1:] / _WHITE))
    colours = colours[..., 0] if channels == 2 else colours
    upright = CAMERA_TURNS.get(image.getexif().get(ORIENTATION, 1))
    return np.ascontiguousarray(upright(colours) if upright else colours, dtype=np.uint16), is_transparent
