"""Image files and folders of them, with all their bits."""

import unicodedata
import warnings

import imagecodecs
import numpy as np
import pytest
from PIL import Image

from bispectral_ot.datasets import Dataset, load
from bispectral_ot.datasets.frames import Canvas, FrameChoice
from bispectral_ot.datasets.image_file import decode_image
from bispectral_ot.datasets.load import as_datasets
from bispectral_ot.errors import DatasetError, DataWarning, MemoryBudgetError

RANDOM = np.random.default_rng(3)
GREY = RANDOM.integers(0, 256, (6, 5), dtype=np.uint8)
COLOUR = RANDOM.integers(0, 256, (6, 5, 3), dtype=np.uint8)
DEEP = RANDOM.integers(0, 65536, (6, 5), dtype=np.uint16)
DEEP_COLOUR = RANDOM.integers(0, 65536, (6, 5, 3), dtype=np.uint16)


def read_image(path):
    return decode_image(path, path, Canvas())[0]


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def save_deep(path, pixels, **options):
    encode = imagecodecs.png_encode if path.suffix == ".png" else imagecodecs.tiff_encode
    path.write_bytes(encode(pixels, **options))
    return path


@pytest.mark.parametrize("suffix", ["png", "tif", "TIFF", "bmp"])
@pytest.mark.parametrize("pixels", [GREY, COLOUR], ids=["grey", "colour"])
def test_lossless_formats(tmp_path, suffix, pixels):
    np.testing.assert_array_equal(read_image(save(tmp_path / f"a.{suffix}", pixels)), pixels)


def test_palette_and_one_bit(tmp_path):
    Image.fromarray(COLOUR).convert("P").save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").shape == (6, 5, 3)
    Image.fromarray(GREY > 100).save(tmp_path / "b.png")
    np.testing.assert_array_equal(read_image(tmp_path / "b.png"), (GREY > 100) * 255)


def test_a_camera_s_orientation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees clockwise
    path = save(tmp_path / "a.png", GREY, exif=exif)
    np.testing.assert_array_equal(read_image(path), np.rot90(GREY, -1))


@pytest.mark.parametrize("name", ["a.png", "a.tif", "lzw.tif"])
def test_sixteen_bits_of_colour(tmp_path, name):
    """Pillow alone would give 8 of them."""
    options = {"compression": "lzw"} if name == "lzw.tif" else {}
    read = read_image(save_deep(tmp_path / name, DEEP_COLOUR, **options))
    assert read.dtype == np.uint16
    np.testing.assert_array_equal(read, DEEP_COLOUR)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_with_alpha_are_black_where_transparent(tmp_path, suffix):
    alpha = np.full((6, 5, 1), 65535, dtype=np.uint16)
    alpha[0, 0], alpha[1, 1] = 0, 32768
    expected = np.rint(DEEP_COLOUR * (alpha / 65535)).astype(np.uint16)
    read = read_image(save_deep(tmp_path / f"a.{suffix}", np.dstack([DEEP_COLOUR, alpha])))
    np.testing.assert_array_equal(read, expected)
    if suffix == "png":
        grey = read_image(save_deep(tmp_path / "b.png", np.dstack([DEEP, alpha])))
        np.testing.assert_array_equal(grey, np.rint(DEEP * (alpha[..., 0] / 65535)).astype(np.uint16))


def test_other_formats_are_not_opened_whatever_their_name(tmp_path, monkeypatch):
    """Pillow starts Ghostscript for EPS."""
    monkeypatch.setattr("subprocess.Popen", None)
    for content in (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"GIF89a" + bytes(30), b"P5 2 2 255 aaaa"):
        (tmp_path / "a.png").write_bytes(content)
        with pytest.raises(DatasetError, match="cannot identify image file"):
            read_image(tmp_path / "a.png")


def test_large_jpegs_are_decoded_at_a_fraction_of_their_size(tmp_path):
    y, x = np.mgrid[:960, :1280] / 64
    path = save(tmp_path / "a.jpg", (127 + 100 * np.sin(x) * np.cos(y)).astype(np.uint8), quality=95)
    canvas = Canvas((96, 128))
    small, whole = decode_image(path, path, canvas)[0], decode_image(path, path, Canvas())[0]
    assert (small.shape, whole.shape) == ((240, 320), (960, 1280))
    difference = canvas(small[None]).astype(int) - canvas(whole[None])
    assert np.abs(difference).max() <= 3


def test_one_sub_folder_per_class(tmp_path):
    for name, class_name, value in [("b", "zebra", 1), ("a", "zebra", 2), ("c", "ähre", 3), ("d", "日本", 4)]:
        folder = tmp_path / "set" / unicodedata.normalize("NFD", class_name)
        save(folder / f"{name}.png", np.full_like(GREY, value))
    (tmp_path / "set" / ".hidden").mkdir()
    (tmp_path / "set" / "zebra" / "notes.txt").write_text("not an image")
    (tmp_path / "set" / "zebra" / "._a.png").write_text("what macOS leaves behind")
    (tmp_path / "set" / "zebra" / "e.webp").write_bytes(b"a format that is not read")
    save(tmp_path / "set" / "zebra" / "more" / "f.png", GREY)
    with pytest.warns(DataWarning, match=r"left out: zebra/e\.webp, zebra/more$"):
        dataset = load(tmp_path / "set")
    assert (dataset.name, dataset.classes) == ("set", ("ähre", "zebra", "日本"))
    assert dataset.files == ("ähre/c.png", "zebra/a.png", "zebra/b.png", "日本/d.png")
    np.testing.assert_array_equal(dataset.labels, [0, 1, 1, 2])
    np.testing.assert_array_equal(dataset.images[:, 0, 0], [3, 2, 1, 4])


def test_grey_and_colour_become_colour_or_grey_and_8_and_16_bits_become_16(tmp_path):
    save(tmp_path / "a.png", GREY)
    save(tmp_path / "b.png", COLOUR)
    message = r"has grey images, 1 \(a\.png\), and colour images, 1 \(b\.png\); all become colour.*--grey"
    with pytest.warns(DataWarning, match=message):
        dataset = load(tmp_path)
    np.testing.assert_array_equal(dataset.images, [np.dstack([GREY] * 3), COLOUR])
    with warnings.catch_warnings(action="error"):
        in_grey = load(tmp_path, grey=True)
    np.testing.assert_allclose(in_grey.images, [GREY, np.rint(COLOUR @ [0.299, 0.587, 0.114])], atol=1)
    save(tmp_path / "b.png", DEEP)
    np.testing.assert_array_equal(load(tmp_path).images, [GREY.astype(np.uint16) * 257, DEEP])


def test_images_with_equal_channels_are_grey_beside_grey_ones(tmp_path):
    grey, colour = np.dstack([GREY] * 3), np.dstack([GREY, GREY, GREY[::-1]])
    save(tmp_path / "plain" / "a.png", GREY)
    save(tmp_path / "mixed" / "a.png", GREY)
    save(tmp_path / "mixed" / "b.png", grey)
    save(tmp_path / "rgba" / "a.png", np.dstack([grey, np.full_like(GREY, 255)]))
    Image.fromarray(GREY).convert("P").save(tmp_path / "rgba" / "b.png")
    with warnings.catch_warnings(action="error"):
        assert [each.images.shape for each in as_datasets([tmp_path / "mixed"], ["mixed"])] == [(2, 6, 5)]
        sets = as_datasets([tmp_path / "rgba", tmp_path / "plain"], ["rgba", "plain"], frames=FrameChoice())
    np.testing.assert_array_equal(sets[0].images, [GREY, GREY])
    arrays = [Dataset(images[None]) for images in (GREY, grey, colour)]
    assert [each.images.ndim for each in as_datasets(arrays[:2], ["a", "b"])] == [3, 3]
    assert [each.images.ndim for each in as_datasets(arrays, ["a", "b", "c"])] == [3, 4, 4]


def test_transparent_pixels_are_reported_once(tmp_path):
    opaque = np.dstack([COLOUR, np.full((6, 5), 255, dtype=np.uint8)])
    clear = opaque.copy()
    clear[0, 0, 3] = 10
    for name, pixels in (("a.png", opaque), ("b.png", clear), ("c.png", clear * np.uint8([0, 0, 0, 1]))):
        save(tmp_path / name, pixels)
    with pytest.warns(DataWarning, match=r"2 of 3 images have transparent pixels \(b\.png, c\.png\), which") as caught:
        dataset = load(tmp_path)
    assert len(caught) == 1
    np.testing.assert_array_equal(dataset.images[0], COLOUR)
    np.testing.assert_array_equal(dataset.images[1, 1:], COLOUR[1:])
    assert (dataset.images[1, 0, 0] <= COLOUR[0, 0] * 10 / 255 + 1).all()
    assert dataset.images[2, :2, 0].tolist() == [[245] * 3, [0] * 3]  # black content on white


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.bmp"])
def test_truncated_and_unreadable_files_are_named(tmp_path, name):
    path = save(tmp_path / name, RANDOM.integers(0, 256, (64, 64), dtype=np.uint8))
    save(tmp_path / "b.png", np.zeros((64, 64), dtype=np.uint8))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:20], b"", b"text"):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=f"cannot read the image .*{name}"):
            load(tmp_path)


def test_several_pages(tmp_path):
    pages = [Image.fromarray(GREY), Image.fromarray(GREY)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(DatasetError, match=r"a\.tif has 2 pages.* as a file of its own"):
        load(tmp_path)


def test_folders_that_are_no_dataset(tmp_path):
    with pytest.raises(DatasetError, match="has no images"):
        load(tmp_path)
    save(tmp_path / "pets" / "cat" / "a.png", GREY)
    with pytest.raises(DatasetError, match=r"Name the folder that holds the classes: .*pets"):
        load(tmp_path)
    save(tmp_path / "dog" / "a.png", GREY)
    with pytest.warns(DataWarning, match="not deeper; left out: pets, pets/cat$"):
        assert load(tmp_path).classes == ("dog",)
    save(tmp_path / "loose.png", GREY)
    with pytest.raises(DatasetError, match="1 images next to 1 sub-folders"):
        load(tmp_path)


def test_more_images_than_memory_are_refused_after_the_first(tmp_path, monkeypatch):
    for i in range(4):
        save(tmp_path / f"{i}.png", GREY)
    monkeypatch.setattr("bispectral_ot.memory.available_memory", lambda: 100)
    with pytest.raises(MemoryBudgetError, match=r"with 4 images needs 120 B of memory, but 70 B .*--resize"):
        load(tmp_path)
