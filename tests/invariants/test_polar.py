"""The polar grid against the sample-by-sample formula."""

from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.invariants import PolarSampler
from oracles import ring_samples


def sampler(height: int, width: int, *, n_rings: int, n_angles: int, sampling: str, radial_weight: float = 1.0):
    weights = np.arange(n_rings) ** radial_weight
    return PolarSampler.build(
        height, width, radii=np.arange(n_rings), n_angles=n_angles, sampling=sampling, ring_weights=weights
    )


@pytest.mark.parametrize("sampling", ["nearest", "bilinear"])
@pytest.mark.parametrize("size", [(28, 28), (9, 12), (7, 5), (2, 3)])
@pytest.mark.parametrize("n_angles", [1, 7, 40])
@pytest.mark.parametrize("extra_rings", [0, 3])  # rings that leave the image see zeros
def test_matches_the_formula(sampling: str, size: tuple[int, int], n_angles: int, extra_rings: int) -> None:
    images = np.random.default_rng(0).normal(size=(3, *size)).astype(np.float32)
    n_rings = min(size) // 2 + extra_rings
    grid = sampler(*size, n_rings=n_rings, n_angles=n_angles, sampling=sampling, radial_weight=0.5)
    options = {"n_angles": n_angles, "n_rings": n_rings, "radial_weight": 0.5, "sampling": sampling}
    expected = [ring_samples(image, **options) for image in images]
    np.testing.assert_allclose(grid.sample(images.reshape(3, -1)), expected, atol=1e-5)


def test_nearest_takes_one_pixel_and_bilinear_at_most_four() -> None:
    options = {"n_rings": 14, "n_angles": 40, "radial_weight": 0}
    nearest = sampler(28, 28, sampling="nearest", **options).matrix
    assert set(np.diff(nearest.indptr)) == {1}
    assert set(nearest.data) == {1.0}
    bilinear = sampler(28, 28, sampling="bilinear", **options).matrix
    assert set(np.diff(bilinear.indptr)) <= {1, 2, 3, 4}
    np.testing.assert_allclose(bilinear.sum(axis=1), 1, rtol=1e-6)  # a constant image gives constant rings


@pytest.mark.parametrize("size", [8, 9])
def test_quarter_turn_shifts_the_bilinear_samples(size: int) -> None:
    image = np.random.default_rng(1).normal(size=(size, size)).astype(np.float32)
    grid = sampler(size, size, n_rings=size // 2, n_angles=12, sampling="bilinear")
    turned = grid.sample(np.rot90(image).reshape(1, -1))
    np.testing.assert_allclose(turned, np.roll(grid.sample(image.reshape(1, -1)), -3, axis=2), atol=1e-6)
