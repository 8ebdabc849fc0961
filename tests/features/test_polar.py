"""Polar grid, area means and steerable coefficients."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bispectral_ot.features import PolarSampler, PolarSpectrum
from bispectral_ot.features.polar import area_means, cell_edges
from coupled_oracles import area_means as slow_means
from oracles import ring_samples


@pytest.mark.parametrize("sampling", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("size", "n_angles", "extra_rings"),  # rings that leave the image see zeros
    [((28, 28), 40, 0), ((9, 12), 7, 3), ((7, 5), 1, 0), ((2, 3), 7, 3)],
)
def test_matches_the_formula(sampling: str, size: tuple[int, int], n_angles: int, extra_rings: int) -> None:
    images, n_rings = np.random.default_rng(0).normal(size=(3, *size)).astype(np.float32), min(size) // 2 + extra_rings
    radii, options = np.arange(n_rings), {"n_angles": n_angles, "sampling": sampling}
    grid = PolarSampler.build(*size, radii=radii, ring_weights=radii**0.5, **options)
    expected = [ring_samples(image, n_rings=n_rings, radial_weight=0.5, **options) for image in images]
    np.testing.assert_allclose(grid.sample(images.reshape(3, -1)), expected, atol=1e-5)


def means(image, cell):
    height, width = image.shape[:2]
    return area_means(image.reshape(1, -1), cell_edges(height, cell), cell_edges(width, cell), image[0, 0].size)[0]


@pytest.mark.parametrize(("shape", "cell", "dtype"), [((10, 10), 2, "u1"), ((11, 8), 3, "f4"), ((9, 13), 4, "i8")])
def test_area_means_are_the_literal_formula(shape, cell, dtype):
    image = (255 * np.random.default_rng(0).uniform(size=(*shape, 2))).astype(dtype)
    for channel in range(2):
        expected, _ = slow_means(image[:, :, channel].astype(float), cell)
        np.testing.assert_allclose(means(image, cell)[channel], expected, rtol=1e-12)


def complex_rows(transformer: PolarSpectrum, images: NDArray) -> tuple[NDArray, NDArray]:
    """Coefficients (n, entries) and their frequencies."""
    rows, part = transformer.transform(images), transformer.index_map_["part"]
    return rows[:, part == 0] + 1j * rows[:, part == 1], transformer.index_map_["frequency"][part == 0]


def test_turns_multiply_and_mirrors_conjugate() -> None:
    images = np.random.default_rng(0).uniform(size=(3, 20, 20, 2))
    transformer = PolarSpectrum().fit(images)
    z, frequency = complex_rows(transformer, images)
    turned, _ = complex_rows(transformer, np.rot90(images, -1, axes=(1, 2)))  # towards larger angles: rows count down
    np.testing.assert_allclose(turned, z * np.exp(-1j * np.pi / 2 * frequency), atol=2e-5)
    mirrored, _ = complex_rows(transformer, images[:, ::-1])
    np.testing.assert_allclose(mirrored, z.conj(), atol=2e-5)


def test_inner_products_are_those_of_the_fields() -> None:
    """With all frequencies there are, nothing is lost: Parseval."""
    images = np.random.default_rng(0).uniform(size=(4, 16, 16))
    transformer = PolarSpectrum(n_rings=6, n_angles=19, max_frequency=9, edge_weight=0).fit(images)
    rows, planes = transformer.transform(images), transformer._contents(images.reshape(4, -1).astype(np.float32))
    down, across = transformer.filters_["blur"]
    fields = transformer.sampler_.sample((down @ (planes @ across.T)).reshape(4, -1))
    fields = fields * np.sqrt(np.arange(6) + 0.5)[:, None]
    flat = fields.reshape(4, -1)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    np.testing.assert_allclose(rows @ rows.T, flat @ flat.T, atol=1e-5)
