from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.datasets.clouds import sample_surface
from studies.synthetic_shapes import CLASSES, synthetic_shapes


def test_a_dataset_of_clouds():
    shapes = synthetic_shapes(2, n_points=50)
    assert shapes.images.shape == (2 * len(CLASSES), 50, 3)
    assert shapes.images.dtype == np.float32
    assert shapes.classes == tuple(CLASSES)
    assert shapes.kind == "clouds"
    assert np.bincount(shapes.labels).tolist() == [2] * len(CLASSES)
    np.testing.assert_array_equal(shapes.images, synthetic_shapes(2, n_points=50).images)
    assert not np.array_equal(shapes.images, synthetic_shapes(2, n_points=50, seed=1).images)


def test_points_are_drawn_evenly_by_area():
    # two triangles, one three times as large as the other
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 3], [1, 0, 3], [0, 3, 3]])
    points = sample_surface(vertices, [[0, 1, 2], [3, 4, 5]], 8000, rng=np.random.default_rng(0))
    upper = points[:, 2] > 1
    assert np.mean(upper) == pytest.approx(0.75, abs=0.02)
    np.testing.assert_allclose(points[~upper].mean(axis=0), [1 / 3, 1 / 3, 0], atol=0.02)
    assert (points[~upper][:, :2].sum(axis=1) <= 1).all()


@pytest.mark.parametrize("name", CLASSES)
def test_surfaces_are_where_they_should_be(name):
    vertices, faces = CLASSES[name](np.random.default_rng(0))
    assert faces.max() < len(vertices)
    x, y, z = sample_surface(vertices, faces, 500, rng=np.random.default_rng(1)).T
    radius = np.hypot(x, y)
    if name == "torus":
        tube = np.hypot(radius - 1, z)
        assert np.ptp(tube) < 0.02
    elif name == "cylinder":
        inside = np.abs(z) < z.max() - 1e-9
        np.testing.assert_allclose(radius[inside], 1, atol=0.01)
    elif name == "cone":
        side = z > 1e-9
        np.testing.assert_allclose(radius[side] + z[side] / vertices[:, 2].max(), 1, atol=0.01)
    elif name == "ellipsoid":
        a, b, c = np.abs(vertices).max(axis=0)
        np.testing.assert_allclose((x / a) ** 2 + (y / b) ** 2 + (z / c) ** 2, 1, atol=0.02)
    elif name.endswith("helix"):
        assert ((radius > 0.8) & (radius < 1.2)).all()


def test_helices_wind_as_they_are_called():
    for name, sign in [("right helix", 1), ("left helix", -1)]:
        vertices, _ = CLASSES[name](np.random.default_rng(0))
        x, y, z = vertices[::48][:20].T  # along the tube
        angle = np.unwrap(np.arctan2(y, x))
        assert np.sign(np.sum(np.diff(angle) * np.diff(z))) == sign
