"""Image files: PNG, JPEG, TIFF and BMP, with 8 or 16 bits a channel."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bispectral_ot.datasets.io_errors import check_announced, library
from bispectral_ot.datasets.resize import Canvas
from bispectral_ot.errors import DatasetError, InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
# Nothing else is opened, whatever the file's name: Pillow would start Ghostscript for an EPS file, for instance.
FORMATS = ("PNG", "JPEG", "TIFF", "BMP")
_AS_STORED = Canvas()
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
_HEAD = 2048  # bytes
# By type of colours, and whether it has 16 bits.
_PNG_MODES = {
    **{(0, False): "grey", (2, False): "colour", (3, False): "palette", (4, False): "grey", (6, False): "colour"},
    **dict.fromkeys(((0, True), (2, True), (4, True), (6, True)), "16 bits"),
}
_MODES = {
    **{"1": "black and white", "L": "grey", "LA": "grey", "P": "palette", "RGB": "colour", "RGBA": "colour"},
    **{"RGBX": "colour", "CMYK": "colour", "YCbCr": "colour", "LAB": "colour", "F": "floating point"},
}


class ImageInfo(NamedTuple):
    """Header of an image: its size and mode."""

    height: int
    width: int
    mode: str

    @classmethod
    def of(cls, pixels: Any) -> ImageInfo:
        """Header of an array (height, width[, channels])."""
        grey = "floating point" if pixels.dtype.kind == "f" else "grey"
        return cls(int(pixels.shape[0]), int(pixels.shape[1]), "colour" if len(pixels.shape) == 3 else grey)


def image_header(content: Path | bytes, name: str | Path) -> ImageInfo:
    """Size (as displayed) and mode of an image, from the header of its file."""
    if isinstance(content, Path) and (quick := _quick_header(content)) is not None:
        check_announced(quick.height * quick.width, os.path.getsize(content), name)
        return quick
    with _opened(content, name) as image:
        # Pillow would read a whole PNG in search of the tag
        known = image.format != "PNG" or "exif" in image.info
        turned = known and image.getexif().get(ORIENTATION, 1) >= 5
        mode = "16 bits" if is_deep_colour(image) or image.mode.startswith("I") else _MODES.get(image.mode, image.mode)
        return ImageInfo(*(image.size if turned else image.size[::-1]), mode)


def _quick_header(path: Path) -> ImageInfo | None:
    """Header of a PNG or JPEG file without EXIF data, four times as fast as by Pillow; None for all others."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(_HEAD)
    except OSError:
        return None
    if len(head) > 64 and head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        mode = _PNG_MODES.get((head[25], head[24] == 16))
        first = head.find(b"IDAT")
        if mode is None or head[24] < 8 or first < 0 or b"eXIf" in head[:first]:
            return None
        return ImageInfo(int.from_bytes(head[20:24]), int.from_bytes(head[16:20]), mode)
    at = 2
    while head.startswith(b"\xff\xd8") and at + 10 < len(head) and head[at] == 0xFF and head[at + 1] != 0xE1:
        if head[at + 1] in (0xC0, 0xC1, 0xC2):  # baseline, extended and progressive
            mode = {1: "grey", 3: "colour"}.get(head[at + 9])
            height, width = int.from_bytes(head[at + 5 : at + 7]), int.from_bytes(head[at + 7 : at + 9])
            return ImageInfo(height, width, mode) if mode and height and width and head[at + 4] == 8 else None
        at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return None


def decode_image(content: Path | bytes, name: str | Path, canvas: Canvas = _AS_STORED) -> tuple[NDArray[Any], bool]:
    """Pixels of an image file, or of the bytes of one, and whether some are transparent.

    They are (height, width) or (height, width, 3); uint8, uint16, int32 or float32. Transparent pixels become black as
    far as they are transparent. JPEG files are decoded at a half, a quarter or an eighth where ``canvas`` allows it.
    """
    with _opened(content, name) as opened:
        pages = getattr(opened, "n_frames", 1) if opened.format == "TIFF" else 1
        if pages > 1:
            raise DatasetError(
                f"{name} has {pages} pages; save the one you mean, or each, as a file of its own. (Where the pages are "
                "the images of a set, name this file instead of its folder.)"
            )
        if is_deep_colour(opened):
            return _deep_pixels(opened, content, name)
        if opened.format == "JPEG" and (least := canvas.least_size(*opened.size[::-1])):
            opened.draft(None, least[::-1])
        ImageOps.exif_transpose(opened, in_place=True)
        return _pixels(opened)


@contextmanager
def _opened(content: Path | bytes, name: str | Path) -> Iterator[Image.Image]:
    try:
        with Image.open(io.BytesIO(content) if isinstance(content, bytes) else content, formats=FORMATS) as image:
            announced = image.width * image.height * len(image.getbands())
            stored = len(content) if isinstance(content, bytes) else os.path.getsize(content)
            check_announced(announced, stored, name)
            yield image
    except (InputError, MemoryError):
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
    if image.mode in ("L", "RGB"):
        return np.asarray(image), False
    if image.mode == "1":
        return np.asarray(image.convert("L")), False
    if image.mode == "F":
        return np.asarray(image, dtype=np.float32), False
    if image.mode == "I" or image.mode.startswith("I;16"):
        values = np.asarray(image)
        return values.astype(np.uint16) if values.min() >= 0 and values.max() <= _WHITE else values, False
    return np.asarray(image.convert("RGB")), False


def is_deep_colour(image: Image.Image) -> bool:
    """Whether an image has 16 bits in several channels, which Pillow would cut to 8."""
    several = image.format in ("PNG", "TIFF") and not image.mode.startswith("I")
    return several and any(";16" in str(tile[3]) for tile in image.tile)  # type: ignore[attr-defined]


def deep_colours(image: Image.Image, content: Path | bytes, name: str | Path) -> NDArray[Any]:
    """All channels of an image with 16 bits in several, (height, width, channels), upright as the camera says."""
    codecs = library("imagecodecs", extra="tiff", what=name)
    encoded = content if isinstance(content, bytes) else content.read_bytes()
    pixels = codecs.png_decode(encoded) if image.format == "PNG" else codecs.tiff_decode(encoded)
    if image.mode not in ("RGB", "RGBA", "RGBX") or pixels.shape[:-1] != image.size[::-1]:
        raise DatasetError(f"{name} has 16 bits in {image.mode} channels; save it as grey or RGB.")
    upright = CAMERA_TURNS.get(image.getexif().get(ORIENTATION, 1))
    return np.asarray(upright(pixels) if upright else pixels)


def _deep_pixels(image: Image.Image, content: Path | bytes, name: str | Path) -> tuple[NDArray[np.uint16], bool]:
    """Colour, or grey with alpha, of 16 bits, on black: (height, width, 3) or (height, width)."""
    pixels = deep_colours(image, content, name)
    channels = pixels.shape[-1]
    if channels not in (2, 3, 4):
        raise DatasetError(f"{name} has 16 bits in {channels} channels; save it as grey or RGB.")
    extra = _TRANSPARENCY if image.format == "PNG" else image.tag_v2.get(_EXTRA_SAMPLES, (0,))[0]  # type: ignore[attr-defined]
    has_alpha = channels != 3 and extra == _TRANSPARENCY  # else no alpha, or multiplied with it already
    is_transparent = bool(has_alpha and pixels[..., -1].min() < _WHITE)
    colours = pixels[..., 0] if channels == 2 else pixels[..., :3]
    if is_transparent:
        opacity = pixels[..., -1] / _WHITE
        colours = np.rint(colours * (opacity if channels == 2 else opacity[..., None]))
    return np.ascontiguousarray(colours, dtype=np.uint16), is_transparent
