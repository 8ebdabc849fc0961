from __future__ import annotations

import ast
import os
import subprocess
import sys
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bispectral_ot.datasets import load
from bispectral_ot.errors import DatasetError, DataWarning, MemoryBudgetError

RANDOM = np.random.default_rng(3)
GREY = RANDOM.integers(0, 256, (6, 5), dtype=np.uint8)
COLOUR = RANDOM.integers(0, 256, (6, 5, 3), dtype=np.uint8)
DEEP = RANDOM.integers(0, 65536, (6, 5), dtype=np.uint16)


def save(path: Path, pixels: np.ndarray, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def test_one_sub_folder_per_class(tmp_path: Path):
    for name, class_name, value in [("b", "zebra", 1), ("a", "zebra", 2), ("c", "ähre", 3), ("d", "日本", 4)]:
        save(
            tmp_path / "set" / unicodedata.normalize("NFD", class_name) / f"{name}.png",
            np.full_like(GREY, value),
        )
    (tmp_path / "set" / ".hidden").mkdir()
    (tmp_path / "set" / "zebra" / "notes.txt").write_text("not an image")
    (tmp_path / "set" / "zebra" / "._a.png").write_text("what macOS leaves behind")
    dataset = load(tmp_path / "set")
    assert dataset.name == "set"
    assert dataset.classes == ("ähre", "zebra", "日本")
    assert dataset.files == ("ähre/c.png", "zebra/a.png", "zebra/b.png", "日本/d.png")
    np.testing.assert_array_equal(dataset.labels, [0, 1, 1, 2])
    np.testing.assert_array_equal(dataset.images[:, 0, 0], [3, 2, 1, 4])


def test_flat_folder_has_no_labels(tmp_path: Path):
    for i in range(70):  # more than one block of files
        save(tmp_path / f"{i:02}.bmp", np.full_like(GREY, i))
    stages = []
    dataset = load(tmp_path, progress=lambda stage, done, total: stages.append((done, total)))
    assert dataset.labels is None
    np.testing.assert_array_equal(dataset.images[:, 0, 0], np.arange(70))
    assert stages[-1] == (70, 70)


def test_grey_and_colour_become_colour_or_grey(tmp_path: Path):
    save(tmp_path / "a.png", GREY)
    save(tmp_path / "b.png", COLOUR)
    message = r"1 images are grey \(a\.png\) and 1 in colour \(b\.png\); all become colour.*--grey"
    with pytest.warns(DataWarning, match=message):
        dataset = load(tmp_path)
    np.testing.assert_array_equal(dataset.images, [np.dstack([GREY] * 3), COLOUR])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_grey = load(tmp_path, grey=True)
    luminance = np.rint(COLOUR @ np.array([0.299, 0.587, 0.114]))
    np.testing.assert_allclose(in_grey.images, [GREY, luminance], atol=1)


def test_transparent_pixels_are_reported_once(tmp_path: Path):
    opaque = np.dstack([COLOUR, np.full((6, 5), 255, dtype=np.uint8)])
    clear = opaque.copy()
    clear[0, 0, 3] = 10
    for name, pixels in (("a.png", opaque), ("b.png", clear), ("c.png", clear)):
        save(tmp_path / name, pixels)
    with pytest.warns(DataWarning, match=r"2 of 3 images have transparent pixels \(b\.png, c\.png\), which") as caught:
        dataset = load(tmp_path)
    assert len(caught) == 1
    np.testing.assert_array_equal(dataset.images[0], COLOUR)
    np.testing.assert_array_equal(dataset.images[1, 1:], COLOUR[1:])
    assert (dataset.images[1, 0, 0] <= COLOUR[0, 0] * 10 / 255 + 1).all()


def test_eight_and_sixteen_bits_become_sixteen(tmp_path: Path):
    save(tmp_path / "a.png", GREY)
    save(tmp_path / "b.png", DEEP)
    np.testing.assert_array_equal(load(tmp_path).images, [GREY.astype(np.uint16) * 257, DEEP])


def test_whole_and_floating_point_pixels_do_not_mix(tmp_path: Path):
    save(tmp_path / "a.png", GREY)
    save(tmp_path / "b.tif", GREY.astype(np.float32))
    with pytest.raises(DatasetError, match=r"a\.png has uint8 pixels but .*b\.tif has float32"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.bmp"])
def test_truncated_and_unreadable_files_are_named(tmp_path: Path, name: str):
    path = save(tmp_path / name, RANDOM.integers(0, 256, (64, 64), dtype=np.uint8))
    save(tmp_path / "b.png", np.zeros((64, 64), dtype=np.uint8))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:20], b"", b"text"):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=f"cannot read the image .*{name}"):
            load(tmp_path)


def test_several_pages(tmp_path: Path):
    pages = [Image.fromarray(GREY), Image.fromarray(GREY)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(DatasetError, match=r"a\.tif has 2 pages.* as a file of its own"):
        load(tmp_path)


def test_folders_that_are_no_dataset(tmp_path: Path):
    with pytest.raises(DatasetError, match="has no images"):
        load(tmp_path)
    save(tmp_path / "pets" / "cat" / "a.png", GREY)
    with pytest.raises(DatasetError, match=r"Name the folder that holds the classes: .*pets"):
        load(tmp_path)
    save(tmp_path / "dog" / "a.png", GREY)
    with pytest.warns(DataWarning, match="1 sub-folders have no images, left out: pets"):
        assert load(tmp_path).classes == ("dog",)
    save(tmp_path / "loose.png", GREY)
    with pytest.raises(DatasetError, match="1 images next to 1 sub-folders"):
        load(tmp_path)


def test_more_images_than_memory_are_refused_after_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for i in range(4):
        save(tmp_path / f"{i}.png", GREY)
    monkeypatch.setattr("bispectral_ot.memory.available_memory", lambda: 100)
    with pytest.raises(MemoryBudgetError, match=r"with 4 images needs 120 B of memory, but 70 B .*--resize"):
        load(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_are_read_as_utf_8_whatever_the_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str):
    """An ASCII locale gives "é" as two odd characters; bytes that are no UTF-8 stay what they are."""
    save(tmp_path / "é" / "a.png", GREY)
    save(tmp_path / os.fsdecode(b"caf\xe9") / "b.png", GREY)
    if encoding == "ascii":
        program = (
            "import sys; from bispectral_ot import load\n"
            "assert sys.getfilesystemencoding() == 'ascii'\n"
            "print(ascii(load(sys.argv[1]).classes))"
        )
        environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        words = [sys.executable, "-c", program, tmp_path]
        classes = ast.literal_eval(subprocess.run(words, capture_output=True, env=environment, text=True).stdout)
    else:
        classes = load(tmp_path).classes
    assert classes == (os.fsdecode(b"caf\xe9"), "é")
