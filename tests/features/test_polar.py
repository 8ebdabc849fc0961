"""Polar grid and area means against their literal formulas."""

from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.features import PolarSampler
from bispectral_ot.features.polar import area_means, cell_edges
from coupled_oracles import area_means as slow_means
from oracles import ring_samples


def sampler(height: int, width: int, *, n_rings: int, n_angles: int, sampling: str, radial_weight: float = 1.0):
    weights = np.arange(n_rings) ** radial_weight
    return PolarSampler.build(
        height, width, radii=np.arange(n_rings), n_angles=n_angles, sampling=sampling, ring_weights=weights
    )


@pytest.mark.parametrize("sampling", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("size", "n_angles", "extra_rings"),  # rings that leave the image see zeros
    [((28, 28), 40, 0), ((9, 12), 7, 3), ((7, 5), 1, 0), ((2, 3), 7, 3)],
)
def test_matches_the_formula(sampling: str, size: tuple[int, int], n_angles: int, extra_rings: int) -> None:
    images = np.random.default_rng(0).normal(size=(3, *size)).astype(np.float32)
    n_rings = min(size) // 2 + extra_rings
    grid = sampler(*size, n_rings=n_rings, n_angles=n_angles, sampling=sampling, radial_weight=0.5)
    options = {"n_angles": n_angles, "n_rings": n_rings, "radial_weight": 0.5, "sampling": sampling}
    expected = [ring_samples(image, **options) for image in images]
    np.testing.assert_allclose(grid.sample(images.reshape(3, -1)), expected, atol=1e-5)


def means(image, cell):
    height, width = image.shape[:2]
    return area_means(image.reshape(1, -1), cell_edges(height, cell), cell_edges(width, cell), image[0, 0].size)[0]


@pytest.mark.parametrize(
    ("shape", "cell", "dtype"), [((10, 10), 2, "uint8"), ((11, 8), 3, "float32"), ((9, 13), 4, "int64")]
)
def test_area_means_are_the_literal_formula(shape, cell, dtype):
    image = (255 * np.random.default_rng(0).uniform(size=(*shape, 2))).astype(dtype)
    for channel in range(2):
        expected, _ = slow_means(image[:, :, channel].astype(float), cell)
        np.testing.assert_allclose(means(image, cell)[channel], expected, rtol=1e-12)
