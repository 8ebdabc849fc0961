"""Means over cells: against the literal sums, and that turns and mirrors pass through."""

from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.invariants.area_means import AreaMeans
from coupled_oracles import area_means


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64, np.int16, np.bool_, np.float16])
@pytest.mark.parametrize(
    ("shape", "cell"), [((12, 9), 3), ((12, 9), 2), ((7, 10), 3), ((8, 8), 5), ((5, 11), 4), ((4, 4), 1)]
)
def test_means_are_the_literal_ones(shape: tuple[int, int], cell: int, dtype: type) -> None:
    images = (np.random.default_rng(0).uniform(size=(2, *shape, 3)) * 100).astype(dtype)
    reduction = AreaMeans(*shape, cell)
    means = reduction.means(images.reshape(2, -1), 3)
    for n in range(2):
        for channel in range(3):
            expected, inside = area_means(images[n, :, :, channel].astype(float), cell)
            assert reduction.shape == expected.shape
            np.testing.assert_allclose(means[n, channel], expected.ravel(), rtol=1e-12)
            np.testing.assert_allclose(reduction.inside, inside.ravel(), rtol=1e-6)


@pytest.mark.parametrize("cell", [2, 3, 4])
@pytest.mark.parametrize("shape", [(10, 10), (11, 11), (13, 8)])
def test_turns_and_mirrors_pass_through(shape: tuple[int, int], cell: int) -> None:
    image = np.random.default_rng(0).uniform(size=shape)

    def means(picture: np.ndarray) -> np.ndarray:
        reduction = AreaMeans(*picture.shape, cell)
        return reduction.means(picture.reshape(1, -1), 1).reshape(reduction.shape)

    for turn in range(4):
        np.testing.assert_allclose(means(np.rot90(image, turn)), np.rot90(means(image), turn), rtol=1e-12)
    np.testing.assert_allclose(means(image[:, ::-1]), means(image)[:, ::-1], rtol=1e-12)


def test_values_near_the_largest_float_do_not_overflow() -> None:
    image = np.full((1, 36), 1.7e308)
    np.testing.assert_allclose(AreaMeans(6, 6, 3).means(image, 1), 1.7e308, rtol=1e-12)


def test_a_constant_image_is_its_own_mean() -> None:
    np.testing.assert_allclose(AreaMeans(10, 13, 4).means(np.full((2, 130), 7, np.uint8), 1), 7, rtol=1e-12)
