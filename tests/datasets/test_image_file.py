"""One image file becomes the array that it holds, with all its bits."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from PIL import Image, ImageOps

from bispectral_ot.datasets.frames import Canvas
from bispectral_ot.datasets.image_file import decode_image, image_header
from bispectral_ot.errors import DatasetError

RANDOM = np.random.default_rng(3)
GREY = RANDOM.integers(0, 256, (6, 5), dtype=np.uint8)
COLOUR = RANDOM.integers(0, 256, (6, 5, 3), dtype=np.uint8)
DEEP = RANDOM.integers(0, 65536, (6, 5), dtype=np.uint16)
DEEP_COLOUR = RANDOM.integers(0, 65536, (6, 5, 3), dtype=np.uint16)


def read_image(path):
    return decode_image(path, path)[0]


def save(path: Path, pixels: np.ndarray, **options: object) -> Path:
    Image.fromarray(pixels).save(path, **options)
    return path


def save_deep(path: Path, pixels: np.ndarray, **options: object) -> Path:
    encode = imagecodecs.png_encode if path.suffix == ".png" else imagecodecs.tiff_encode
    path.write_bytes(encode(pixels, **options))
    return path


def add_chunk(path: Path, kind: bytes, content: bytes) -> None:
    """Put a chunk before the pixels of a PNG file."""
    whole = path.read_bytes()
    place = whole.index(b"IDAT") - 4
    chunk = struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    path.write_bytes(whole[:place] + chunk + whole[place:])


@pytest.mark.parametrize("suffix", ["png", "tif", "TIFF", "bmp"])
@pytest.mark.parametrize("pixels", [GREY, COLOUR], ids=["grey", "colour"])
def test_lossless_formats(tmp_path: Path, suffix: str, pixels: np.ndarray):
    np.testing.assert_array_equal(read_image(save(tmp_path / f"a.{suffix}", pixels)), pixels)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits(tmp_path: Path, suffix: str):
    read = read_image(save(tmp_path / f"a.{suffix}", DEEP))
    assert read.dtype == np.uint16
    np.testing.assert_array_equal(read, DEEP)


def test_transparent_pixels_are_black(tmp_path: Path):
    pixels = np.dstack([COLOUR, np.full((6, 5), 255, dtype=np.uint8)])
    pixels[0, 0, 3] = 0
    pixels[1, 1] = (200, 100, 50, 128)
    read = read_image(save(tmp_path / "a.png", pixels))
    assert read.shape == (6, 5, 3)
    np.testing.assert_array_equal(read[0, 0], 0)
    np.testing.assert_array_equal(read[2:], COLOUR[2:])
    assert np.abs(read[1, 1].astype(int) - (100, 50, 25)).max() <= 1
    grey = read_image(save(tmp_path / "b.png", np.dstack([GREY, np.full_like(GREY, 255)])))
    np.testing.assert_array_equal(grey, GREY)


def test_palette_and_one_bit(tmp_path: Path):
    Image.fromarray(COLOUR).convert("P").save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").shape == (6, 5, 3)
    Image.fromarray(GREY > 100).save(tmp_path / "b.png")
    np.testing.assert_array_equal(read_image(tmp_path / "b.png"), (GREY > 100) * 255)


def test_a_camera_s_orientation_is_applied(tmp_path: Path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees clockwise
    path = save(tmp_path / "a.png", GREY, exif=exif)
    np.testing.assert_array_equal(read_image(path), np.rot90(GREY, -1))


@pytest.mark.parametrize("name", ["a.png", "a.tif", "lzw.tif"])
def test_sixteen_bits_of_colour(tmp_path: Path, name: str):
    """Pillow alone would give 8 of them."""
    options = {"compression": "lzw"} if name == "lzw.tif" else {}
    read = read_image(save_deep(tmp_path / name, DEEP_COLOUR, **options))
    assert read.dtype == np.uint16
    np.testing.assert_array_equal(read, DEEP_COLOUR)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_with_alpha_are_black_where_transparent(tmp_path: Path, suffix: str):
    alpha = np.full((6, 5, 1), 65535, dtype=np.uint16)
    alpha[0, 0], alpha[1, 1] = 0, 32768
    expected = np.rint(DEEP_COLOUR * (alpha / 65535)).astype(np.uint16)
    read = read_image(save_deep(tmp_path / f"a.{suffix}", np.dstack([DEEP_COLOUR, alpha])))
    np.testing.assert_array_equal(read, expected)
    if suffix == "png":
        grey = read_image(save_deep(tmp_path / "b.png", np.dstack([DEEP, alpha])))
        np.testing.assert_array_equal(grey, np.rint(DEEP * (alpha[..., 0] / 65535)).astype(np.uint16))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_with_sixteen_bits_is_that_of_eight(tmp_path: Path, orientation: int):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save_deep(tmp_path / "a.png", COLOUR.astype(np.uint16) * 257)
    add_chunk(path, b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0"))
    eight = save(tmp_path / "b.png", COLOUR, exif=exif)
    with Image.open(eight) as opened:
        np.testing.assert_array_equal(read_image(path), np.asarray(ImageOps.exif_transpose(opened)).astype(int) * 257)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.jpg", "a.bmp"])
@pytest.mark.parametrize(
    "content",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        b"GIF89a" + bytes(30),
        b"P5 2 2 255 aaaa",
        b"8BPS" + bytes(40),
    ],
    ids=["eps", "gif", "pgm", "psd"],
)
def test_other_formats_are_not_opened_whatever_their_name(tmp_path: Path, monkeypatch, name: str, content: bytes):
    """Pillow starts Ghostscript for EPS."""
    monkeypatch.setattr("subprocess.Popen", None)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetError, match="cannot identify image file"):
        read_image(tmp_path / name)


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "bmp"])
def test_quick_headers_are_those_of_pillow(tmp_path: Path, suffix: str):
    for number, pixels in enumerate((GREY, COLOUR, DEEP, np.dstack([COLOUR, GREY]))):
        if (suffix == "jpg" and number > 1) or (suffix == "bmp" and number == 2):
            continue
        path = save(tmp_path / f"{number}.{suffix}", pixels)
        assert image_header(path, path) == image_header(path.read_bytes(), path)


def test_large_jpegs_are_decoded_at_a_fraction_of_their_size(tmp_path: Path):
    y, x = np.mgrid[:960, :1280] / 64
    path = save(tmp_path / "a.jpg", (127 + 100 * np.sin(x) * np.cos(y)).astype(np.uint8), quality=95)
    canvas = Canvas((96, 128))
    small, whole = decode_image(path, path, canvas)[0], decode_image(path, path)[0]
    assert (small.shape, whole.shape) == ((240, 320), (960, 1280))
    difference = canvas(small[None]).astype(int) - canvas(whole[None])
    assert np.abs(difference).max() <= 3
