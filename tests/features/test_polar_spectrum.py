"""Steerable coefficients: how they turn, what their distances are, and the orbits of images."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bispectral_ot.costs import AlignedDistance
from bispectral_ot.features import PolarSpectrum


def images_of(*shape: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(size=shape)


def aligned(transformer: PolarSpectrum, x: NDArray, y: NDArray) -> NDArray:
    reflections = transformer.symmetry == "rotation-reflection"
    rows = [transformer.transform(images) for images in (x, y)]
    return AlignedDistance(*rows, transformer.index_map_, "l2", reflections=reflections).rows(0, len(x))


def complex_rows(transformer: PolarSpectrum, images: NDArray) -> tuple[NDArray, NDArray]:
    """Coefficients (n, entries) and their frequencies."""
    rows, part = transformer.transform(images), transformer.index_map_["part"]
    return rows[:, part == 0] + 1j * rows[:, part == 1], transformer.index_map_["frequency"][part == 0]


def test_turns_multiply_and_mirrors_conjugate() -> None:
    images = images_of(3, 20, 20, 2)
    transformer = PolarSpectrum().fit(images)
    z, frequency = complex_rows(transformer, images)
    turned, _ = complex_rows(transformer, np.rot90(images, -1, axes=(1, 2)))  # towards larger angles: rows count down
    np.testing.assert_allclose(turned, z * np.exp(-1j * np.pi / 2 * frequency), atol=2e-5)
    mirrored, _ = complex_rows(transformer, images[:, ::-1])
    np.testing.assert_allclose(mirrored, z.conj(), atol=2e-5)


@pytest.mark.parametrize("shape", [(12, 12), (15, 15), (12, 17), (13, 13, 3)])
def test_orbits_on_the_pixel_grid_have_no_distance(shape: tuple[int, ...]) -> None:
    images = images_of(5, *shape)
    for symmetry in ("rotation", "rotation-reflection"):
        transformer = PolarSpectrum(symmetry=symmetry).fit(images)
        for turn in (1, 2, 3) if shape[0] == shape[1] else (2,):
            turned = np.rot90(images, turn, axes=(1, 2))
            distances = aligned(transformer, images, turned)
            assert np.diag(distances).max() < 1e-4
            assert distances[~np.eye(5, dtype=bool)].min() > 0.2
            mirrored = np.diag(aligned(transformer, images, turned[:, ::-1]))
            assert mirrored.max() < 1e-4 if symmetry == "rotation-reflection" else mirrored.min() > 0.2


def test_inner_products_are_those_of_the_fields() -> None:
    """With all frequencies there are, nothing is lost: Parseval."""
    images = images_of(4, 16, 16)
    transformer = PolarSpectrum(n_rings=6, n_angles=19, max_frequency=9, edge_weight=0).fit(images)
    rows = transformer.transform(images)
    fields = transformer.fields_.sample(images.reshape(4, -1).astype(np.float32), 1)
    fields = fields * np.sqrt(np.arange(6) + 0.5)[:, None]
    flat = fields.reshape(4, -1)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    np.testing.assert_allclose(rows @ rows.T, flat @ flat.T, atol=1e-5)
