import numpy as np

from studies.synthetic_shapes import CLASSES


def test_helices_wind_as_they_are_called():
    for name, sign in [("right helix", 1), ("left helix", -1)]:
        vertices, _ = CLASSES[name](np.random.default_rng(0))
        x, y, z = vertices[::48][:20].T  # along the tube
        angle = np.unwrap(np.arctan2(y, x))
        assert np.sign(np.sum(np.diff(angle) * np.diff(z))) == sign
