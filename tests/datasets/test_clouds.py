"""Clouds of different sizes in one array, and volumes: what a Dataset holds, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.clouds import cloud_points
from bispectral_ot.datasets.dataset import as_dataset, as_shapes
from bispectral_ot.errors import InputError


def clouds(sizes, seed=0):
    random = np.random.default_rng(seed)
    return [random.random((size, 3)).astype(np.float32) for size in sizes]


def test_a_dataset_of_clouds_of_different_sizes():
    parts = clouds([5, 9, 7, 3, 8, 6])
    dataset = Dataset(parts, list("aabbcc"), kind="clouds")
    assert repr(dataset) == "Dataset('images': 6 clouds of up to 9x3 float32, 3 classes)"
    assert dataset.images.dtype == np.float32
    chosen = dataset.select([3, 0])
    assert repr(chosen) == "Dataset('images': 2 clouds of up to 9x3 float32, 2 classes)".replace(
        "2 classes", "3 classes"
    )
    np.testing.assert_array_equal(cloud_points(chosen.images[0]), parts[3])
    source, target = bot.split_halves(dataset)
    assert (len(source), source.kind, len(target)) == (3, "clouds", 3)
    again = Dataset(dataset.images, kind="clouds")  # as it is kept, an .npz for example
    np.testing.assert_array_equal(again.images, dataset.images)


def test_a_list_of_clouds_needs_no_kind():
    parts = clouds([5, 9])
    assert as_dataset(parts).kind == "clouds"
    assert as_dataset(clouds([5, 5])).kind == "images"  # could be images that are three pixels wide
    with pytest.raises(InputError, match="do not form one array"):
        as_dataset([np.zeros((4, 5)), np.zeros((6, 5))])


def test_arrays_become_the_shapes_that_they_can_be():
    assert as_shapes(Dataset(np.zeros((2, 50, 3)))).kind == "clouds"
    assert as_shapes(Dataset(np.zeros((2, 9, 8, 7)))).kind == "volumes"
    assert as_shapes(Dataset(np.zeros((2, 9, 8)), kind="sphere")).kind == "sphere"
    with pytest.raises(InputError, match=r"clouds must have shape \(n, points, 3\), got \(2, 9, 8\)"):
        as_shapes(Dataset(np.zeros((2, 9, 8))))
    with pytest.raises(InputError, match="images with channels are no volumes"):
        as_shapes(Dataset(np.zeros((2, 9, 8, 3))))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "has no clouds"),
        (np.zeros((0, 5, 3)), "has no clouds"),
        (np.zeros((5, 3)), r"shape \(n, points, 3\), got \(5, 3\); use cloud\[None\]"),
        ([np.zeros((5, 3)), np.zeros((5, 2))], r"cloud 1 has shape \(5, 2\)"),
        ([np.zeros((5, 3)), np.zeros((0, 3))], r"cloud 1 has shape \(0, 3\)"),
        ([np.zeros((5, 3)), np.array([[1, np.nan, 1]])], "cloud 1 has 1 points that are NaN"),
        (np.array([[[1.0, 1, 1], [1, 1, np.inf], [1, 2, 3]]]), "cloud 0 has 1 points that are NaN or infinite"),
        (np.array([[[1.0, 1, 1], [np.nan] * 3, [1, 2, 3]]]), "cloud 0 has 1 points that are NaN or infinite"),
        (np.full((1, 4, 3), np.nan), r"cloud 0 has shape \(0, 3\)"),
        ([np.full((2, 3), 1e300)], "beyond float32"),
        ([np.array([["a", "b", "c"]])], "type <U1"),
        ([[[1, 2, 3], [4, 5]]], "no array of points"),
        ([np.ma.masked_array(np.zeros((2, 3)))], "masked"),
        (7, "expected clouds"),
    ],
)
def test_bad_clouds_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Dataset(wrong, kind="clouds")


def test_volumes():
    volumes = Dataset(np.zeros((3, 2, 8, 9), dtype=np.uint8), kind="volumes")  # thin, but no channels first
    assert repr(volumes) == "Dataset('images': 3 volumes of 2x8x9 uint8, no labels)"
    with pytest.raises(InputError, match=r"volumes must have shape \(n, depth, height, width\), got \(3, 8, 9\)"):
        Dataset(np.zeros((3, 8, 9)), kind="volumes")
    with pytest.raises(InputError, match="for flat images only, but 'images' has volumes"):
        bot.rotate_randomly(volumes)
