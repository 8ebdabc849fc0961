"""Loading: names, sizes and splits; sets that are compared have one size and are read once."""

import shutil
import warnings

import numpy as np
import pytest
from PIL import Image

from bispectral_ot import DataWarning
from bispectral_ot.datasets import load
from bispectral_ot.datasets.frames import Placement
from bispectral_ot.datasets.load import as_datasets, drawn, list_set, read_together
from bispectral_ot.datasets.sources import FileSource
from bispectral_ot.errors import DatasetError, InputError


def test_paths_that_cannot_be_loaded(tmp_path):
    for nothing in (tmp_path / "nothing", "nothing.npz"):
        with pytest.raises(DatasetError, match="there is no file or folder"):
            load(nothing)
    (tmp_path / "a.gif").write_text("1,2")
    with pytest.raises(DatasetError, match=r"unknown kind; expected a folder of images \(\.png, .*\.npz"):
        load(tmp_path / "a.gif")
    (tmp_path / "a.png").write_text("")
    with pytest.raises(DatasetError, match="single image"):
        load(tmp_path / "a.png")


def area_means(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Each pixel cut into as many parts as there are new ones along a side, and the parts of each new one averaged."""
    for axis, wanted in enumerate(size):
        parts = np.repeat(image.astype(np.float64), wanted, axis=axis)
        parts = np.moveaxis(parts, axis, 0).reshape(wanted, image.shape[axis], -1).mean(axis=1)
        image = np.moveaxis(parts.reshape(wanted, *np.delete(image.shape, axis)), 0, axis)
    return image


@pytest.mark.parametrize(("given", "size"), [((24, 36), (14, 21)), ((24, 36), (48, 72)), ((600, 90), (40, 6))])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_smaller_images_are_area_means_and_larger_ones_bilinear(given, size, dtype):
    batch = np.random.default_rng(0).integers(0, 256, (3, *given, 2)).astype(dtype)
    resized = Placement()(batch, size)
    assert resized.dtype == dtype
    for image, small in zip(batch, resized, strict=True):
        for channel in range(2):
            if size < given:
                expected = area_means(image[..., channel], size)
            else:
                plane = Image.fromarray(image[..., channel].astype(np.float32))
                expected = np.asarray(plane.resize(size[::-1], Image.Resampling.BILINEAR))
            np.testing.assert_allclose(small[..., channel], expected, atol=1e-3 if dtype == np.float32 else 0.51)


@pytest.mark.parametrize("size", [(33, 33), (20, 50), (131, 64)])
def test_resizing_keeps_the_aspect_ratio_and_the_centre(size):
    """A square stays a square in the middle, in an image that is far from one; the rest is its background."""
    image = np.empty((1, 60, 90, 2), dtype=np.float32)
    image[...] = 200, 10
    image[0, 20:40, 35:55] = 50, 90
    resized, scale = Placement()(image, size)[0], min(size[0] / 60, size[1] / 90)
    for channel, (background, ink) in enumerate([(200, 50), (10, 90)]):
        content = (resized[..., channel].astype(float) - background) / (ink - background)
        assert content.sum() == pytest.approx((20 * scale) ** 2, rel=0.02)
        rows, columns = np.indices(size) - (np.array(size)[:, None, None] - 1) / 2
        assert np.average([rows, columns], axis=(1, 2), weights=[content] * 2) == pytest.approx([0, 0], abs=1e-3)
        assert np.average(rows**2, weights=content) == pytest.approx(np.average(columns**2, weights=content), rel=0.02)
        corners = resized[[0, 0, -1, -1], [0, -1, 0, -1], channel]
        np.testing.assert_allclose(corners, background, atol=1e-4)


def test_turned_images_that_are_not_square_stay_turned_images_of_each_other(tmp_path):
    wide = np.random.default_rng(1).integers(0, 256, (40, 96), dtype=np.uint8)
    wide[[0, -1]] = 30
    wide[:, [0, -1]] = 30
    for name, image in [("a", wide), ("b", np.rot90(wide))]:
        Image.fromarray(image).save(tmp_path / f"{name}.png")
    first, second = load(tmp_path, resize=32).images
    np.testing.assert_array_equal(np.rot90(first), second)
    assert (first[:9] == 30).all()


RANDOM = np.random.default_rng(3)


def folder_of(place, *sizes, **options):
    """A folder with an image of noise of each size, called 0.png, 1.png, ..."""
    place.mkdir(parents=True, exist_ok=True)
    for number, size in enumerate(sizes):
        Image.fromarray(RANDOM.integers(0, 256, size, dtype=np.uint8)).save(place / f"{number}.png", **options)
    return place


def test_a_folder_of_mixed_sizes_is_read_at_128_pixels(tmp_path):
    folder = folder_of(tmp_path / "mixed", (90, 120), (300, 200), (80, 80))
    with pytest.warns(DataWarning, match=r"mixed 80 x 80 to 300 x 200\) and are compared at 128 x 128") as caught:
        dataset = load(folder)
    assert (len(caught), dataset.images.shape) == (1, (3, 128, 128))
    np.testing.assert_array_equal(dataset.images, load(folder, resize=128).images)
    assert load(folder, resize=(20, 30)).images.shape == (3, 20, 30)
    small = folder_of(tmp_path / "small", (6, 5), (4, 9))
    with pytest.warns(DataWarning, match="are compared at 9 x 9"):  # not enlarged
        assert load(small).images.shape == (2, 9, 9)


def test_images_of_one_size_keep_it_up_to_128_pixels(tmp_path):
    folder = folder_of(tmp_path / "small", (128, 70), (128, 70))
    with warnings.catch_warnings(action="error"):
        assert load(folder).images.shape == (2, 128, 70)
    folder = folder_of(tmp_path / "large", (400, 200), (400, 200))
    with pytest.warns(DataWarning, match=r"images \(large 400 x 200\) are reduced to 128 x 64; choose another size"):
        assert load(folder).images.shape == (2, 128, 64)
    assert load(folder, resize=(400, 200)).images.shape == (2, 400, 200)
    np.save(tmp_path / "a.npy", np.zeros((2, 200, 200), dtype=np.uint8))
    with pytest.warns(DataWarning, match="are reduced to 128 x 128"):
        assert load(tmp_path / "a.npy").images.shape == (2, 128, 128)
    assert load(np.zeros((2, 200, 200))).images.shape == (2, 200, 200)  # an array in memory


def test_both_sides_have_the_same_size(tmp_path):
    mixed, even = folder_of(tmp_path / "m", (90, 120), (70, 80)), folder_of(tmp_path / "e", (40, 50), (40, 50))
    with pytest.warns(DataWarning, match=r"m 70 x 80 to 90 x 120, e 40 x 50\) and are compared at 50 x 50"):
        sides = read_together([list_set(mixed), list_set(even)])
    assert [side.images.shape for side in sides] == [(2, 50, 50)] * 2
    array = np.zeros((3, 28, 28), dtype=np.uint8)
    with pytest.warns(DataWarning, match="source 28 x 28"):
        sides = as_datasets([array, mixed], ["source", "target"])
    assert [side.images.shape for side in sides] == [(3, 28, 28), (2, 28, 28)]


@pytest.fixture
def read_files(monkeypatch):
    """The names of the files that are decoded."""
    read: list[str] = []
    decoded = FileSource._decode

    def watched(self: FileSource, i: int, *options: object) -> object:
        read.append(self.names[i])
        return decoded(self, i, *options)

    monkeypatch.setattr(FileSource, "_decode", watched)
    return read


def test_a_limit_reads_only_what_it_keeps(tmp_path, read_files):
    folder = folder_of(tmp_path, *[(8, 8)] * 40)
    dataset = load(folder, limit=5, seed=2)
    first = dataset.files[0]  # looked at once more, for the memory that all will take
    assert (sorted(read_files), len(dataset)) == (sorted([first, *dataset.files]), 5)
    whole = load(folder)
    np.testing.assert_array_equal(dataset.images, whole.select(drawn(np.arange(40), 5, seed=2)).images)
    assert load(folder, limit=99).files == whole.files
    with pytest.raises(InputError, match="limit must be an integer of at least 1"):
        load(folder, limit=0)


def test_a_set_that_is_given_twice_is_read_once(tmp_path, read_files):
    folder = folder_of(tmp_path, *[(8, 8)] * 40)
    listing = list_set(folder)
    one, other = read_together([listing, listing], [np.array([3, 5, 9]), np.array([5, 8])])
    assert len(read_files) == 1 + 4  # the first is looked at once more
    whole = load(folder)
    np.testing.assert_array_equal(one.images, whole.select([3, 5, 9]).images)
    np.testing.assert_array_equal(other.images, whole.select([5, 8]).images)
    first, second = as_datasets([folder, str(folder)], ["source", "target"])
    assert first is second


def test_a_folder_of_splits(tmp_path):
    for split, count in (("train", 3), ("Validation", 2), ("test", 1)):
        for kind in ("cat", "dog"):
            folder_of(tmp_path / split / kind, *[(8, 8)] * count)
    (tmp_path / "README.txt").write_text("about it")
    sizes = {split: len(load(tmp_path, split=split)) for split in ("train", "val", "test")}
    assert sizes == {"train": 6, "val": 4, "test": 2}
    assert load(tmp_path, split="val").classes == ("cat", "dog")
    shutil.rmtree(tmp_path / "train")
    with pytest.raises(InputError, match="has no train split; its splits are val, test"):
        load(tmp_path)
    with pytest.raises(InputError, match="has no val split; leave the split out"):
        load(tmp_path / "test", split="val")
    with pytest.raises(InputError, match="mnist has no val split; its splits are train, test"):
        load("mnist", split="val")
