from __future__ import annotations

import numpy as np

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


def test_helices_wind_as_they_are_called():
    for name, sign in [("right helix", 1), ("left helix", -1)]:
        vertices, _ = CLASSES[name](np.random.default_rng(0))
        x, y, z = vertices[::48][:20].T  # along the tube
        angle = np.unwrap(np.arctan2(y, x))
        assert np.sign(np.sum(np.diff(angle) * np.diff(z))) == sign
