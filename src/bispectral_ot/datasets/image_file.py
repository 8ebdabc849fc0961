"""One image file: PNG, JPEG, TIFF or BMP, with 8 or 16 bits a channel."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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


_MODES = {
    **{"1": "black and white", "L": "grey", "LA": "grey", "P": "palette", "RGB": "colour", "RGBA": "colour"},
    **{"RGBX": "colour", "CMYK": "colour", "YCbCr": "colour", "LAB": "colour", "F": "floating point"},
}


class Look(NamedTuple):
    """What the head of an image file says."""

    height: int
    width: int
    mode: str

    @classmethod
    def at(cls, pixels: NDArray[Any]) -> Look:
        """Look at an image that is in memory."""
        grey = "floating point" if pixels.dtype.kind == "f" else "grey"
        return cls(pixels.shape[0], pixels.shape[1], "colour" if pixels.ndim == 3 else grey)


def look_at_image(content: Path | bytes, name: str | Path) -> Look:
    """Size (as it is displayed) and mode of an image, from the head of its file."""
    with _opened(content, name) as image:
        # Pillow would read a whole PNG in search of the tag
        known = image.format != "PNG" or "exif" in image.info
        turned = known and image.getexif().get(ORIENTATION, 1) >= 5
        mode = "16 bits" if is_deep_colour(image) or image.mode.startswith("I") else _MODES.get(image.mode, image.mode)
        return Look(*(image.size if turned else image.size[::-1]), mode)


def decode_image(content: Path | bytes, name: str | Path) -> tuple[NDArray[Any], bool]:
    """Read an image from a file or from the bytes of one, and say whether it has transparent pixels.

    It is (height, width) or (height, width, 3); uint8, uint16 or float32. Transparent pixels become
    black as far as they are transparent.
    """
    with _opened(content, name) as opened:
        pages = getattr(opened, "n_frames", 1)
        if opened.format == "TIFF" and pages > 1:
            raise DatasetError(
                f"{name} has {pages} pages; save the one you mean, or each, as a file of its own. (Where the pages are "
                "the images of a set, name this file instead of its folder.)"
            )
        if is_deep_colour(opened):
            return _deep_pixels(opened, content, name)
        return _pixels(ImageOps.exif_transpose(opened))


@contextmanager
def _opened(content: Path | bytes, name: str | Path) -> Iterator[Image.Image]:
    try:
        with Image.open(io.BytesIO(content) if isinstance(content, bytes) else content, formats=FORMATS) as image:
            yield image
    except (DatasetError, MemoryError):
        raise
    except Exception as error:  # decoders raise whatever they like on a damaged file
        raise DatasetError(
            f"cannot read the image {name} ({error}): damaged, or of an unknown kind; repair or remove it."
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


def _deep_pixels(image: Image.Image, content: Path | bytes, name: str | Path) -> tuple[NDArray[np.uint16], bool]:
    """Colour, or grey with alpha, of 16 bits, upright and on black: (height, width, 3) or (height, width)."""
    import imagecodecs

    pixels: NDArray[Any]
    encoded = content if isinstance(content, bytes) else content.read_bytes()
    if image.format == "PNG":
        pixels, extra = imagecodecs.png_decode(encoded), _TRANSPARENCY
    else:
        pixels = imagecodecs.tiff_decode(encoded)
        extra = image.tag_v2.get(_EXTRA_SAMPLES, (0,))[0]  # type: ignore[attr-defined]
    size, channels = image.size[::-1], pixels.shape[-1]
    if image.mode not in ("RGB", "RGBA", "RGBX") or pixels.shape[:-1] != size or channels not in (2, 3, 4):
        raise DatasetError(f"{name} has 16 bits in {image.mode} channels; save it as grey or RGB.")
    colours = pixels[..., : 1 if channels == 2 else 3]
    has_alpha = channels != 3 and extra == _TRANSPARENCY  # else nothing, or multiplied with it already
    is_transparent = bool(has_alpha and pixels[..., -1].min() < _WHITE)
    if is_transparent:
        colours = np.rint(colours * (pixels[..., -1:] / _WHITE))
    colours = colours[..., 0] if channels == 2 else colours
    upright = CAMERA_TURNS.get(image.getexif().get(ORIENTATION, 1))
    return np.ascontiguousarray(upright(colours) if upright else colours, dtype=np.uint16), is_transparent
