from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from bispectral_ot.datasets import Dataset, center, load, normalize, rotate, rotate_randomly, split_halves
from bispectral_ot.datasets.transforms import count_copies, warn_of_copies
from bispectral_ot.errors import DataWarning, InputError


def rotate_slowly(image: np.ndarray, degrees: float, fill: float) -> np.ndarray:
    """One grey image turned counter-clockwise as displayed, by scipy; neighbours outside are ``fill``."""
    cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    backward = np.array([[cos, sin], [-sin, cos]])  # output (row, column) about the centre to input
    middle = (np.array(image.shape) - 1) / 2
    shift = middle - backward @ middle
    return ndimage.affine_transform(image.astype(float), backward, shift, order=1, mode="grid-constant", cval=fill)


@given(st.integers(1, 9), st.integers(1, 9), st.floats(-720, 720), st.floats(-5, 5), st.integers(0, 2**32 - 1))
def test_rotation_against_scipy(height: int, width: int, degrees: float, fill: float, seed: int):
    images = np.random.default_rng(seed).normal(size=(2, height, width)).astype(np.float32)
    turned = rotate(images, [degrees, degrees / 3], fill=fill).images
    np.testing.assert_allclose(turned[0], rotate_slowly(images[0], degrees, fill), atol=2e-5)
    np.testing.assert_allclose(turned[1], rotate_slowly(images[1], degrees / 3, fill), atol=2e-5)


@pytest.mark.parametrize("side", [1, 2, 7, 28])
@pytest.mark.parametrize("quarter_turns", [-3, 2, 41])
def test_quarter_turns_are_exact(side: int, quarter_turns: int):
    images = np.random.default_rng(side).normal(size=(3, side, side)).astype(np.float32)
    turned = rotate(images, 90.0 * quarter_turns, fill=100.0).images
    np.testing.assert_array_equal(turned, np.rot90(images, quarter_turns, axes=(1, 2)))


@pytest.mark.parametrize(
    ("degrees", "fill", "problem"),
    [
        ([1.0, 2.0], 0.0, r"degrees has shape \(2,\) but there are 3 images"),
        (np.nan, 0.0, "NaN or infinite"),
        (0.0, np.nan, "finite number"),
        (0.0, "black", "'background' or a number"),
        (0.0, [1.0, 2.0], "shape \\(2,\\) but the images have 1 channels"),
    ],
)
def test_bad_rotations(degrees: object, fill: object, problem: str):
    with pytest.raises(InputError, match=problem):
        rotate(np.zeros((3, 4, 4)), degrees, fill=fill)


def test_fill_with_background_or_number():
    images = np.full((20, 9, 9, 3), (50, 60, 70), dtype=np.uint8)
    images[:, 3:6, 3:6] = 255
    images[0] = 0  # one odd image does not move the median
    background = rotate_randomly(Dataset(images), seed=1).images
    np.testing.assert_array_equal(background[1:, 0, 0], np.broadcast_to([50, 60, 70], (19, 3)))
    assert (rotate_randomly(Dataset(np.zeros((9, 5, 5))), seed=1, fill=7).images.max(axis=(1, 2)) > 3).any()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_normalize(dtype: type):
    images = np.random.default_rng(2).integers(0, 200, (3000, 3, 4)).astype(dtype)
    normal = normalize(Dataset(images)).images
    assert normal.dtype == np.float32
    expected = (images.astype(np.float64) - images.astype(np.float64).mean()) / images.astype(np.float64).std()
    np.testing.assert_allclose(normal, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(normalize(Dataset(images), mean=100, std=2).images, (images - 100.0) / 2, rtol=1e-6)
    with pytest.raises(InputError, match="cannot normalize"):
        normalize(Dataset(np.full((2, 3, 3), 7)))


@settings(max_examples=30)
@given(st.integers(-6, 6), st.integers(-6, 6), st.floats(0, 9))
def test_centring_undoes_a_shift(down: int, right: int, background: float):
    rows, columns = np.mgrid[:25, :31]
    blob = 5 * np.exp(-((rows - 12.0) ** 2 + 0.5 * (columns - 15.0) ** 2) / 2)
    blob[blob < 1e-3] = 0  # so that nothing is cut off by the shift
    shifted = (np.roll(blob, (down, right), axis=(0, 1)) + background).astype(np.float32)
    centred = center(Dataset(shifted[None])).images[0]
    np.testing.assert_allclose(centred, blob + background, atol=1e-3)


@pytest.mark.parametrize("noise", [0.0, 20.0])
def test_neither_noise_nor_the_level_of_an_image_moves_its_centre(noise: float):
    random = np.random.default_rng(3)
    rows, columns = np.mgrid[:64, :64]
    blob, levels = 150 * (np.hypot(rows - 16, columns - 20) < 8), np.array([20.0, 90.0, 40.0])
    images = levels[:, None, None] + blob + noise * random.normal(size=(3, 64, 64))
    content = center(Dataset(images)).images - levels[:, None, None]
    for image in content:
        np.testing.assert_allclose(ndimage.center_of_mass(image > 75), (31.5, 31.5), atol=0.6)
    assert abs(np.median(content[:, -10:])) < 0.1 * max(1.0, noise)  # from outside: its own level


def test_halves_follow_the_paper():
    labels = np.array([0] * 7 + [1] * 4 + [2] * 1)[np.random.default_rng(9).permutation(12)]
    dataset = Dataset(np.arange(12).reshape(12, 1, 1), labels, name="numbers", classes=("a", "b", "c"))
    a, b = split_halves(dataset, seed=3)
    random, expected_a, expected_b = np.random.default_rng(3), [], []
    for label in range(3):
        permuted = random.permutation(np.flatnonzero(labels == label))
        half = len(permuted) // 2
        expected_a += list(permuted[:half])
        expected_b += list(permuted[half : 2 * half])
    np.testing.assert_array_equal(a.images.ravel(), expected_a)
    np.testing.assert_array_equal(b.images.ravel(), expected_b)
    np.testing.assert_array_equal([a.class_counts, b.class_counts], [[3, 2, 0]] * 2)
    assert (a.name, b.name) == ("numbers/source", "numbers/target")


@given(st.lists(st.integers(0, 3), min_size=8, max_size=40), st.integers(0, 99), st.integers(1, 12))
def test_halves_are_disjoint_balanced_and_nested(labels: list[int], seed: int, per_class: int):
    dataset = Dataset(np.arange(len(labels)).reshape(-1, 1, 1), labels)
    a, b = split_halves(dataset, seed=seed)
    chosen = np.concatenate([a.images.ravel(), b.images.ravel()])
    assert len(set(chosen)) == len(chosen)
    np.testing.assert_array_equal(a.class_counts, b.class_counts)
    np.testing.assert_array_equal(a.class_counts, dataset.class_counts // 2)
    few_a, few_b = split_halves(dataset, seed=seed, per_class=per_class)
    np.testing.assert_array_equal(few_a.class_counts, np.minimum(per_class, dataset.class_counts // 2))
    assert set(few_a.images.ravel()) <= set(a.images.ravel())
    assert set(few_b.images.ravel()) <= set(b.images.ravel())


def test_halves_that_cannot_be():
    for dataset in (Dataset(np.zeros((1, 2, 2))), Dataset(np.zeros((2, 2, 2)), ["a", "b"])):
        with pytest.raises(InputError, match="no class with two images"):
            split_halves(dataset)
    with pytest.raises(InputError, match="per_class must be an integer of at least 1"):
        split_halves(load("digits"), per_class=0)


def test_images_on_both_sides_are_counted():
    digits = load("digits")
    source, target = split_halves(digits)
    assert count_copies(source, target) == 0
    assert count_copies(digits, target) == len(target)
    both = Dataset(np.concatenate([source.images[:5], target.images[:3]]))
    assert count_copies(both, replace(target, images=target.images.astype(np.float32))) == 3
    blank = Dataset(np.zeros((4, 8, 8), np.uint8))
    assert (count_copies(blank, blank), count_copies(blank, Dataset(np.ones((4, 8, 9))))) == (0, 0)


def test_copies_of_an_image_in_its_class_are_found():
    images, blank = np.arange(4 * 9).reshape(4, 3, 3), np.zeros((2, 3, 3), int)
    dataset = Dataset(np.concatenate([images, images[:2], blank]), ["a", "b", "a", "b", "a", "a", "a", "a"])
    with pytest.warns(DataWarning, match="1 of the 8 target images are copies of others"):
        labelled = warn_of_copies(Dataset(blank), dataset)[1]
    with pytest.warns(DataWarning, match="2 of the 8 target images"):
        unlabelled = warn_of_copies(Dataset(blank), Dataset(dataset.images))[1]
    assert labelled.tolist() == [0, 1, 2, 3, 5, 6, 7]  # the copy of the second has another label
    assert unlabelled.tolist() == [0, 1, 2, 3, 6, 7]
