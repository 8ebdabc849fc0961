import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bispectral_ot.datasets import Dataset, load, split_halves
from bispectral_ot.datasets.dataset import as_dataset
from bispectral_ot.errors import InputError

IMAGES = np.zeros((6, 3, 4), dtype=np.uint8)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_non_finite_pixels_name_the_image(bad):
    images = np.zeros((5000, 2, 2))
    images[4321, 1, 0] = bad
    with pytest.raises(InputError, match="image 4321 has 1 pixels that are NaN or infinite"):
        Dataset(images)


@pytest.mark.parametrize(
    ("shape", "advice"),
    [
        ((0, 3, 3), "no images"),
        ((4, 0, 3), "no pixels"),
        ((10, 784), r"reshape\(-1, 28, 28\)"),
        ((5, 7), r"image\[None\]"),
        ((5, 3, 32, 32), "channels first"),
    ],
)
def test_wrong_shapes_are_explained(shape, advice):
    with pytest.raises(InputError, match=advice):
        Dataset(np.zeros(shape))


def test_classes_come_from_labels_of_any_kind():
    by_text = Dataset(IMAGES, np.array(["b", "a", "é", "a", "b", "b"]))
    assert by_text.classes == ("a", "b", "é")
    np.testing.assert_array_equal(by_text.labels, [1, 0, 2, 0, 1, 1])
    by_number = Dataset(IMAGES, [[7], [3], [7], [3], [3], [9]])
    assert by_number.classes == ("3", "7", "9")
    np.testing.assert_array_equal(by_number.class_counts, [3, 2, 1])


@pytest.mark.parametrize(
    ("labels", "classes", "problem"),
    [
        ([0, 1, 2, 0, 1, 5], ("a", "b", "c"), "label 5 is 5, but classes are numbered from 0 to 2"),
        ([0, 1, 0, 0, 1, 1], ("a", "a"), "'a' occurs twice"),
        ([0, 0, 0, 0, 0.5, 1], (), "label 4 is 0.5"),
        ([0, 0, np.nan, 0, 0, 1], (), "label 2 is nan"),
        (list("aabbaa"), ("a", "b"), "indices into classes"),
        (np.zeros((6, 2)), (), "one-hot"),
        (np.zeros(5), (), "labels has 5 entries but images has 6; give one label per image"),
        (None, ("a",), "no labels"),
    ],
)
def test_bad_labels_are_explained(labels, classes, problem):
    with pytest.raises(InputError, match=problem):
        Dataset(IMAGES, labels, classes=classes)


@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))), st.data())
def test_select_keeps_image_label_and_file_together(pixels, data):
    n = len(pixels)
    dataset = Dataset(pixels, np.arange(n), files=tuple(f"{i}.png" for i in range(n)))
    index = data.draw(st.lists(st.integers(-n, n - 1), min_size=1))
    chosen = dataset.select(index)
    np.testing.assert_array_equal(chosen.images, pixels[index])
    np.testing.assert_array_equal(chosen.labels, np.arange(n)[index])
    assert chosen.files == tuple(f"{i % n}.png" for i in index)
    assert chosen.classes == dataset.classes


def test_select_with_mask_slice_and_bad_index():
    dataset = Dataset(IMAGES, [0, 1, 0, 1, 0, 1])
    assert (len(dataset.select(dataset.labels == 1)), len(dataset.select(slice(1, 3)))) == (3, 2)
    for wrong in ([6], np.ones(5, dtype=bool), [], 3, [0.5]):
        with pytest.raises(InputError):
            dataset.select(wrong)


def test_whatever_stands_for_images_becomes_a_dataset(tmp_path):
    images = np.arange(24.0).reshape(2, 3, 4)
    dataset = Dataset(images, name="mine")
    np.save(tmp_path / "scans.npy", images)
    assert as_dataset(dataset) is dataset
    assert (as_dataset(images).name, as_dataset(images.tolist(), name="b").name) == ("images", "b")
    for path in (tmp_path / "scans.npy", str(tmp_path / "scans.npy")):
        assert as_dataset(path).name == "scans"
        np.testing.assert_array_equal(as_dataset(path).images, images)
    assert as_dataset("digits").name == "digits"


def test_masked_entries_are_refused():
    """np.asarray would show what is below the mask."""
    images = np.ma.masked_greater(np.arange(16.0).reshape(1, 4, 4), 13)
    for masked in (images, list(images)):
        with pytest.raises(InputError, match="images has 2 masked entries; fill them"):
            Dataset(masked)
    with pytest.raises(InputError, match="labels has 1 masked entries"):
        Dataset(np.zeros((2, 3, 3)), np.ma.array([0, 1], mask=[False, True]))
    assert len(Dataset(np.ma.array(np.zeros((2, 3, 3))))) == 2  # nothing is masked


def test_float_labels_that_cannot_be_told_apart_are_refused():
    for labels in (np.array([2.0**53, 2.0**53 + 2]), np.array([2.0**24, 2.0**24 + 2], dtype=np.float32)):
        with pytest.raises(InputError, match="labels must be integers or strings"):
            Dataset(np.zeros((2, 3, 3)), labels)
    assert len(Dataset(np.zeros((2, 3, 3)), np.array([2**62, 2**62 + 1])).classes) == 2


def test_positions_follow_every_drawing():
    whole = Dataset(np.arange(20 * 4, dtype=np.uint8).reshape(20, 2, 2), np.arange(20) % 2)
    assert whole.positions.tolist() == list(range(20))
    some = whole.select([7, 3, 11]).select([2, 0])
    assert some.positions.tolist() == [11, 7]
    np.testing.assert_array_equal(some.images, whole.images[some.positions])
    limited = load(some.select([1, 0]), limit=1, seed=3)
    np.testing.assert_array_equal(limited.images, whole.images[limited.positions])
    drawn = load(whole, limit=6, seed=1)
    np.testing.assert_array_equal(drawn.images, whole.images[drawn.positions])
    for half in split_halves(drawn):
        np.testing.assert_array_equal(half.images, whole.images[half.positions])
