"""Steerable coefficients: how they turn, what their distances are, and the orbits of images."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bispectral_ot.costs import AlignedDistance
from bispectral_ot.datasets import Dataset, center, rotate
from bispectral_ot.errors import DataWarning, InputError
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


@pytest.mark.parametrize("edge_weight", [0.0, 2.0])
def test_rows_have_unit_norm_and_edges_their_share(edge_weight: float) -> None:
    images = images_of(3, 14, 14, 3)
    transformer = PolarSpectrum(edge_weight=edge_weight).fit(images)
    rows = transformer.transform(images)
    np.testing.assert_allclose((rows**2).sum(axis=1), 1, rtol=1e-5)
    edges = transformer.index_map_["field"] >= 3
    np.testing.assert_allclose((rows[:, edges] ** 2).sum(axis=1), edge_weight**2 / (1 + edge_weight**2), rtol=1e-4)


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


def test_content_off_the_centre_is_brought_back() -> None:
    y, x = np.indices((32, 32)) - 15.5
    angles = np.random.default_rng(0).uniform(0, 360, 8)
    blobs = np.random.default_rng(1).uniform(-5, 5, (8, 4, 2))
    images = np.array([sum(np.exp(-((x - p) ** 2 + (y - q) ** 2) / 3) for p, q in places) for places in blobs])
    moved = np.roll(rotate(images, angles, fill=0).images, (3, -4), axis=(1, 2))
    transformer = PolarSpectrum().fit(images)
    assert (aligned(transformer, images, moved).argmin(axis=1) == np.arange(8)).mean() < 0.9
    centred = [center(Dataset(side.astype(np.float32))).images for side in (images, moved)]
    distances = aligned(transformer, *centred)
    np.testing.assert_array_equal(distances.argmin(axis=1), np.arange(8))
    assert np.diag(distances).max() < 0.5 * np.median(distances)


def test_blank_images_are_told_and_get_zeros() -> None:
    images = images_of(3, 12, 12)
    images[1] = 0.3
    transformer = PolarSpectrum().fit(images)
    with pytest.warns(DataWarning, match="1 of 3"):
        rows = transformer.transform(images)
    assert not rows[1].any()
    assert rows[[0, 2]].any(axis=1).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"symmetry": "d4"}, "unknown symmetry .* choose one of"),
        ({"n_angles": 10}, "n_angles of at least 19"),
        ({"radius": -1}, "radius must be a positive"),
        ({"edge_weight": np.inf}, "edge_weight must be"),
    ],
)
def test_bad_options_are_refused(options: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        PolarSpectrum(**options).fit(np.ones((1, 12, 12)))
