from itertools import product
from pathlib import Path

import numpy as np
import pytest

import bispectral_ot as bot
from studies.geometry import angle_means, class_means, run_geometry, turned_images
from studies.preset import Preset

DIGITS = bot.load("digits")


def test_every_image_is_turned_by_all_multiples() -> None:
    turned = turned_images(DIGITS, per_class=2, step=90.0, preset=Preset(seed=8))
    assert turned.shape == (10, 2, 4)
    for quarter in range(4):
        expected = np.rot90(turned.images[:, :, 0], quarter, axes=(2, 3))
        np.testing.assert_allclose(turned.images[:, :, quarter], expected, atol=1e-5)


def test_means_by_class_and_by_angle() -> None:
    shape = (2, 3, 4)
    random = np.random.default_rng(0)
    distances = random.random((24, 24))
    distances += distances.T
    np.fill_diagonal(distances, 0.0)
    index = list(product(range(2), range(3), range(4)))

    def mean(keep) -> float:
        return np.mean([distances[i, j] for i, j in product(range(24), repeat=2) if keep(index[i], index[j])])

    for c, d in product(range(2), repeat=2):
        expected = mean(lambda x, y, c=c, d=d: (x[0], y[0]) == (c, d))
        assert class_means(distances, shape)[c, d] == pytest.approx(expected)
    for c, s, t in product(range(2), range(4), range(4)):
        expected = mean(lambda x, y, c=c, s=s, t=t: (x[0], x[2], y[0], y[2]) == (c, s, c, t))
        assert angle_means(distances, shape)[c, s, t] == pytest.approx(expected)


def test_geometry_writes_pictures_and_bispectra_hold_orbits_together(tmp_path: Path) -> None:
    results = run_geometry(tmp_path / "run", dataset="digits", per_class=(1, 2), step=90.0)
    names = sorted(path.name for path in (tmp_path / "run" / "figures").glob("*.png"))
    assert names == ["geometry-1.png", "geometry-2.png"]
    spread = {(p["features"], p["per_class"]): p["orbit_spread"] for p in results["pictures"]}
    for per_class in (1, 2):
        assert spread["ring-bispectrum", per_class] < 0.8 * spread["pixels", per_class]
    assert results["pictures"][-1]["points"] == 80
    assert (tmp_path / "run" / "run.json").is_file()
